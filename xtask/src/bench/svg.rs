//! Bar charts as SVG: horizontal bars in groups, with error bars, readable on light and dark pages.
//!
//! They are made here. A chart is a few rectangles, lines and texts, too little for a dependency on
//! a plotting library.

use std::fmt::Write;

const WIDTH: f64 = 940.0;
const LABEL_WIDTH: f64 = 340.0;
/// The space at the right for the figure of the longest bar.
const RIGHT: f64 = 60.0;
const TOP: f64 = 74.0;
const BOTTOM: f64 = 30.0;
const BAR: f64 = 11.0;
const GROUP_GAP: f64 = 9.0;

/// Dark enough for white pages, and light enough for black ones.
const COLOURS: [&str; 4] = ["#c2571a", "#2f7fb8", "#5a9b3c", "#8a63b5"];
const INK: &str = "#7a7a7a";

/// One bar.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bar {
    pub value: f64,
    /// The low end of its error bar. `high` is the other end.
    pub low: f64,
    pub high: f64,
}

/// Groups of bars, one below the other.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Chart {
    pub title: String,
    /// The meaning of the figures.
    pub subtitle: String,
    /// One name for each bar of a group.
    pub series: Vec<String>,
    pub groups: Vec<(String, Vec<Option<Bar>>)>,
    /// The position of the line that all bars are compared with.
    pub reference: Option<f64>,
    /// Longer bars are cut here. Their figure tells their length.
    pub longest: f64,
}

impl Chart {
    /// Returns the whole file.
    pub fn svg(&self) -> String {
        let group_height = BAR * self.series.len() as f64 + GROUP_GAP;
        let height = TOP + group_height * self.groups.len() as f64 + BOTTOM;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" \
            font-family=\"sans-serif\" font-size=\"12\" fill=\"{INK}\">\n"
        );
        self.head(&mut svg);
        self.grid(&mut svg, height);
        for (index, (label, bars)) in self.groups.iter().enumerate() {
            let top = TOP + group_height * index as f64;
            let middle = top + BAR * self.series.len() as f64 / 2.0 + 4.0;
            put(
                &mut svg,
                format_args!(
                    "<text x=\"{}\" y=\"{middle:.1}\" text-anchor=\"end\">{}</text>\n",
                    LABEL_WIDTH - 8.0,
                    escape(label)
                ),
            );
            for (series, bar) in bars.iter().enumerate() {
                if let Some(bar) = bar {
                    self.bar(
                        &mut svg,
                        *bar,
                        COLOURS[series % COLOURS.len()],
                        top + BAR * series as f64,
                    );
                }
            }
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// Draws title, subtitle and legend.
    fn head(&self, svg: &mut String) {
        put(
            svg,
            format_args!(
                "<text x=\"10\" y=\"20\" font-size=\"16\" font-weight=\"bold\">{}</text>\n",
                escape(&self.title)
            ),
        );
        put(svg, format_args!("<text x=\"10\" y=\"38\">{}</text>\n", escape(&self.subtitle)));
        for (index, name) in self.series.iter().enumerate() {
            let x = LABEL_WIDTH + 150.0 * index as f64;
            let colour = COLOURS[index % COLOURS.len()];
            put(
                svg,
                format_args!(
                    "<rect x=\"{x}\" y=\"48\" width=\"10\" height=\"10\" fill=\"{colour}\"/>"
                ),
            );
            put(svg, format_args!("<text x=\"{}\" y=\"57\">{}</text>\n", x + 15.0, escape(name)));
        }
    }

    /// Draws lines with their figures below, and the reference.
    fn grid(&self, svg: &mut String, height: f64) {
        let bottom = height - BOTTOM;
        let step = nice_step(self.scale_end());
        let mut value = 0.0;
        while value <= self.scale_end() {
            let x = self.x(value);
            put(
                svg,
                format_args!(
                    "<path d=\"M{x:.1} {TOP}V{bottom:.1}\" stroke=\"{INK}\" \
                    stroke-opacity=\"0.25\"/>"
                ),
            );
            put(
                svg,
                format_args!(
                    "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n",
                    bottom + 16.0,
                    figure(value)
                ),
            );
            value += step;
        }
        if let Some(reference) = self.reference {
            let x = self.x(reference);
            put(
                svg,
                format_args!(
                    "<path d=\"M{x:.1} {TOP}V{bottom:.1}\" stroke=\"{INK}\" stroke-width=\"2\"/>\n"
                ),
            );
        }
    }

    fn bar(&self, svg: &mut String, bar: Bar, colour: &str, y: f64) {
        let (start, end) = (self.x(0.0), self.x(bar.value));
        let thick = BAR - 2.0;
        put(
            svg,
            format_args!(
                "<rect x=\"{start:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{thick}\" \
                fill=\"{colour}\"/>",
                end - start
            ),
        );
        let (low, high, middle) = (self.x(bar.low), self.x(bar.high), y + thick / 2.0);
        put(
            svg,
            format_args!(
                "<path d=\"M{low:.1} {middle:.1}H{high:.1}M{low:.1} {:.1}v5M{high:.1} {:.1}v5\" \
                stroke=\"{INK}\" fill=\"none\"/>",
                middle - 2.5,
                middle - 2.5
            ),
        );
        let text = end.max(high) + 4.0;
        put(
            svg,
            format_args!(
                "<text x=\"{text:.1}\" y=\"{:.1}\" font-size=\"10\">{}</text>\n",
                y + thick - 0.5,
                figure(bar.value)
            ),
        );
    }

    /// Returns the largest figure that is drawn to scale.
    fn scale_end(&self) -> f64 {
        let bars = self.groups.iter().flat_map(|(_, bars)| bars).flatten();
        let longest =
            bars.map(|bar| bar.high.max(bar.value)).chain(self.reference).fold(0.0, f64::max);
        let end = longest.min(self.longest);
        if end > 0.0 { end } else { 1.0 }
    }

    fn x(&self, value: f64) -> f64 {
        let share = (value / self.scale_end()).clamp(0.0, 1.0);
        LABEL_WIDTH + share * (WIDTH - LABEL_WIDTH - RIGHT)
    }
}

fn put(svg: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = svg.write_fmt(text);
}

/// Returns a figure with about three digits.
fn figure(value: f64) -> String {
    match value {
        value if value >= 1000.0 => format!("{value:.0}"),
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

/// Returns a round distance between grid lines, for at most ten of them.
fn nice_step(end: f64) -> f64 {
    let mut step = 10f64.powf((end / 10.0).log10().floor());
    for factor in [2.0, 2.5, 2.0] {
        if end / step <= 10.0 {
            break;
        }
        step *= factor;
    }
    step
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(bars: Vec<Option<Bar>>) -> Chart {
        Chart {
            title: "a < b".to_owned(),
            subtitle: "times".to_owned(),
            series: vec!["record".to_owned(), "replay".to_owned()],
            groups: vec![("x & y".to_owned(), bars)],
            reference: Some(1.0),
            longest: 4.0,
        }
    }

    #[test]
    fn bars_are_as_long_as_their_figures() {
        let full = chart(vec![Some(Bar { value: 2.0, low: 1.5, high: 4.0 }), None]);
        let svg = full.svg();
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert!(svg.contains("a &lt; b") && svg.contains("x &amp; y"));
        let whole = WIDTH - LABEL_WIDTH - RIGHT;
        assert!(svg.contains(&format!("width=\"{:.1}\"", whole / 2.0)), "half of the scale");
        assert_eq!(svg.matches("<rect").count(), 3, "two of the legend, one bar");
    }

    #[test]
    fn long_bars_are_cut() {
        let long = chart(vec![Some(Bar { value: 100.0, low: 99.0, high: 101.0 })]);
        assert!((long.scale_end() - 4.0).abs() < 1e-9 && long.svg().contains(">100<"));
        assert!((chart(Vec::new()).scale_end() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn steps_are_round() {
        for (end, step) in
            [(1.0, 0.1), (4.0, 0.5), (10.0, 1.0), (15.0, 2.0), (90.0, 10.0), (25_000.0, 5000.0)]
        {
            assert!((nice_step(end) - step).abs() < step * 1e-6, "{end}: {}", nice_step(end));
        }
    }
}
