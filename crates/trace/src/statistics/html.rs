//! A report as a self-contained page: tables and drawings, no scripts.
//!
//! The drawings are rows of SVG rectangles, made here. A plotting library would bring its own fonts
//! and axes, or a script.

use super::text::{bytes, seconds, size_class};
use super::{Sizes, Slice, StatisticsReport};
use std::fmt::Write as _;

const WIDTH: f64 = 960.0;
/// The width of the labels at the left of a drawing.
const MARGIN: f64 = 130.0;
/// The most processes that are drawn.
const MOST_PROCESSES: usize = 300;

const STYLE: &str = "body{font:14px system-ui,sans-serif;margin:2em;color:#222;max-width:1100px}h1{font-size:1.4em}h2{font-size:1.1em;margin-top:2em}\
table{border-collapse:collapse}td,th{padding:2px 10px;text-align:right;border-bottom:1px solid #ddd}td:last-child,th:last-child{text-align:left;\
word-break:break-all}svg{display:block}text{font-size:11px;fill:#444}.warning{color:#a00}";

/// The number of a slice that is drawn.
type Number = fn(&Slice) -> u64;

impl StatisticsReport {
    /// Returns the whole page. `title` is its heading.
    pub fn html(&self, title: &str) -> String {
        let title = escaped(title);
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta \
            charset=\"utf-8\"><title>{title}</title><style>{STYLE}</style></head><body>\n"
        );
        let _ = writeln!(page, "<h1>{title}</h1>");
        let counts = format!(
            "{} calls, {} failed, {} processes, {} files",
            self.calls,
            self.errors,
            self.processes.len(),
            self.file_count
        );
        let _ = writeln!(
            page,
            "<p>{counts}, {}; {} read, {} written</p>",
            seconds(self.duration_ns),
            bytes(self.read.bytes),
            bytes(self.written.bytes)
        );
        for reason in &self.incomplete {
            let _ = writeln!(page, "<p class=\"warning\">Incomplete: {}</p>", escaped(reason));
        }
        section(&mut page, "Latency over time", &self.heat_map());
        section(
            &mut page,
            "Calls over time",
            &self.over_time(
                &[(|slice| slice.calls, "#47a"), (|slice| slice.errors, "#c44")],
                |count| count.to_string(),
            ),
        );
        let bytes_over_time = self.over_time(
            &[(|slice| slice.read_bytes, "#4a7"), (|slice| slice.written_bytes, "#c82")],
            bytes,
        );
        section(&mut page, "Bytes over time: read (green), written (orange)", &bytes_over_time);
        section(&mut page, "Sizes of reads", &sizes(&self.read));
        section(&mut page, "Sizes of writes", &sizes(&self.written));
        section(&mut page, "Processes", &self.time_line());
        self.tables(&mut page);
        page + "</body></html>\n"
    }

    /// Draws calls by time, from left to right, and latency, from bottom to top. Darker means more
    /// calls.
    fn heat_map(&self) -> String {
        let classes = || {
            self.slices
                .iter()
                .flat_map(|slice| slice.by_latency.iter().enumerate())
                .filter(|(_, count)| **count > 0)
        };
        let (Some(first), Some(last)) =
            (classes().map(|(class, _)| class).min(), classes().map(|(class, _)| class).max())
        else {
            return String::new();
        };
        let most = classes().map(|(_, count)| *count).max().unwrap_or(1) as f64;
        let (row, column) = (14.0, (WIDTH - MARGIN) / self.slices.len() as f64);
        let mut drawing = String::new();
        for class in first..=last {
            let y = (last - class) as f64 * row;
            let _ = write!(
                drawing,
                "<text x=\"0\" y=\"{:.0}\">{}</text>",
                y + 11.0,
                seconds(if class == 0 { 0 } else { 1 << (class - 1).min(62) })
            );
            for (index, slice) in self.slices.iter().enumerate() {
                let count = slice.by_latency.get(class).copied().unwrap_or(0);
                if count > 0 {
                    let shade = 0.12 + 0.88 * (count as f64).ln_1p() / most.ln_1p();
                    let x = MARGIN + index as f64 * column;
                    let _ = write!(
                        drawing,
                        "<rect x=\"{x:.1}\" y=\"{y:.0}\" width=\"{column:.2}\" height=\"{row}\" \
                        fill=\"#124\" fill-opacity=\"{shade:.2}\"><title>{count} calls</title></rect>"
                    );
                }
            }
        }
        let height = (last - first + 1) as f64 * row;
        drawn(height + 16.0, &(drawing + &self.time_axis(height)))
    }

    /// Draws bars for each slice of time, one colour for each number.
    fn over_time(&self, numbers: &[(Number, &str)], shown: impl Fn(u64) -> String) -> String {
        const HEIGHT: f64 = 120.0;
        let most = self
            .slices
            .iter()
            .flat_map(|slice| numbers.iter().map(|(number, _)| number(slice)))
            .max()
            .unwrap_or(0);
        if most == 0 {
            return String::from("<p>None.</p>");
        }
        let column = (WIDTH - MARGIN) / self.slices.len() as f64;
        let part = column / numbers.len() as f64;
        let mut drawing = format!("<text x=\"0\" y=\"11\">{}</text>", shown(most));
        for (index, slice) in self.slices.iter().enumerate() {
            for (place, (number, colour)) in numbers.iter().enumerate() {
                let value = number(slice);
                let height = HEIGHT * value as f64 / most as f64;
                let (x, y) =
                    (MARGIN + index as f64 * column + place as f64 * part, HEIGHT - height);
                if value > 0 {
                    let title = shown(value);
                    let _ = write!(
                        drawing,
                        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{part:.2}\" \
                        height=\"{height:.1}\" fill=\"{colour}\"><title>{title}</title></rect>"
                    );
                }
            }
        }
        drawn(HEIGHT + 16.0, &(drawing + &self.time_axis(HEIGHT)))
    }

    fn time_axis(&self, y: f64) -> String {
        let whole = self.slice_ns * self.slices.len() as u64;
        format!(
            "<text x=\"{MARGIN}\" y=\"{:.0}\">0</text><text x=\"{WIDTH}\" y=\"{0:.0}\" \
            text-anchor=\"end\">{}</text>",
            y + 12.0,
            seconds(whole)
        )
    }

    /// Draws a bar for each process, from its beginning to its end.
    fn time_line(&self) -> String {
        const ROW: f64 = 15.0;
        let whole = self.duration_ns.max(1) as f64;
        let mut drawing = String::new();
        for (index, process) in self.processes.iter().take(MOST_PROCESSES).enumerate() {
            let at = |ns: u64| MARGIN + (WIDTH - MARGIN) * ns as f64 / whole;
            let (x, y) = (at(process.begin_ns), index as f64 * ROW);
            let width = (at(process.end_ns) - x).max(1.0);
            let name = process.program.rsplit('/').next().unwrap_or_default();
            let _ = write!(
                drawing,
                "<text x=\"0\" y=\"{:.0}\">{} {}</text>",
                y + 11.0,
                process.process,
                escaped(name)
            );
            let lasted = seconds(process.end_ns.saturating_sub(process.begin_ns));
            let title = format!(
                "{} of {}: {lasted}, {} calls",
                escaped(&process.program),
                process.parent,
                process.calls
            );
            let _ = write!(
                drawing,
                "<rect x=\"{x:.1}\" y=\"{y:.0}\" width=\"{width:.1}\" height=\"12\" \
                fill=\"#47a\"><title>{title}</title></rect>"
            );
        }
        drawn(self.processes.len().min(MOST_PROCESSES) as f64 * ROW, &drawing)
    }

    fn tables(&self, page: &mut String) {
        let microseconds = |ns: u64| format!("{:.1}", ns as f64 / 1e3);
        let calls = self.by_call.iter().map(|row| {
            let spent = format!("{:.6}", row.total_ns as f64 / 1e9);
            let quantiles = [row.p50_ns, row.p95_ns, row.p99_ns, row.max_ns].map(microseconds);
            let [p50, p95, p99, max] = quantiles;
            vec![
                spent,
                row.calls.to_string(),
                row.errors.to_string(),
                p50,
                p95,
                p99,
                max,
                row.name.clone(),
            ]
        });
        table(
            page,
            "Calls",
            &[
                "seconds",
                "calls",
                "errors",
                "median µs",
                "95 % µs",
                "99 % µs",
                "longest µs",
                "call",
            ],
            calls,
        );
        let files = self.files.iter().map(|row| {
            let spent = format!("{:.6}", row.total_ns as f64 / 1e9);
            vec![
                spent,
                row.calls.to_string(),
                row.errors.to_string(),
                bytes(row.read_bytes),
                bytes(row.written_bytes),
                row.path.clone(),
            ]
        });
        table(
            page,
            "Files with the most time",
            &["seconds", "calls", "errors", "read", "written", "file"],
            files,
        );
    }
}

fn section(page: &mut String, heading: &str, content: &str) {
    let _ = writeln!(page, "<h2>{heading}</h2>\n{content}");
}

fn table(
    page: &mut String,
    heading: &str,
    columns: &[&str],
    rows: impl Iterator<Item = Vec<String>>,
) {
    let cells = |tag: &str, cells: &[String]| {
        cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell))).collect::<String>()
    };
    let columns: Vec<String> = columns.iter().map(|column| (*column).to_owned()).collect();
    let rows: String = rows.map(|row| format!("<tr>{}</tr>\n", cells("td", &row))).collect();
    section(page, heading, &format!("<table><tr>{}</tr>\n{rows}</table>", cells("th", &columns)));
}

/// Draws a bar for each class of sizes.
fn sizes(sizes: &Sizes) -> String {
    const ROW: f64 = 15.0;
    let most = sizes.by_size.iter().copied().max().unwrap_or(0);
    if most == 0 {
        return String::from("<p>None.</p>");
    }
    let mut drawing = String::new();
    for (index, (class, count)) in
        sizes.by_size.iter().enumerate().filter(|(_, count)| **count > 0).enumerate()
    {
        let y = index as f64 * ROW;
        let width = (WIDTH - MARGIN - 80.0) * *count as f64 / most as f64;
        let _ = write!(
            drawing,
            "<text x=\"0\" y=\"{:.0}\">from {}</text>",
            y + 11.0,
            size_class(class)
        );
        let _ = write!(
            drawing,
            "<rect x=\"{MARGIN}\" y=\"{y:.0}\" width=\"{width:.1}\" height=\"12\" fill=\"#47a\"/>"
        );
        let _ = write!(
            drawing,
            "<text x=\"{:.1}\" y=\"{:.0}\">{count}</text>",
            MARGIN + width + 4.0,
            y + 11.0
        );
    }
    drawn(sizes.by_size.iter().filter(|count| **count > 0).count() as f64 * ROW, &drawing)
}

fn drawn(height: f64, content: &str) -> String {
    format!(
        "<svg width=\"{WIDTH}\" height=\"{height:.0}\" viewBox=\"0 0 {WIDTH} \
        {height:.0}\">{content}</svg>"
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
