//! Draws folded stacks as a flame graph. Each function has a box above the box of its caller. The
//! width of a box is proportional to the number of its samples.
//!
//! The code is our own, because the library for it, inferno, has a licence (CDDL) that demands more
//! than retake's own licences. The picture needs only a rectangle and a text for each box.

use std::collections::BTreeMap;
use std::fmt::Write;

const WIDTH: f64 = 1200.0;
const ROW: f64 = 18.0;
const MARGIN: f64 = 10.0;
/// The width below which a box is left out.
const NARROWEST: f64 = 0.3;
/// The approximate width of a letter.
const LETTER: f64 = 7.0;
/// The depth at which stacks are cut.
const MOST_ROWS: usize = 200;

/// A function called from one place, and the functions that it called.
#[derive(Debug, Default)]
struct Node {
    count: u64,
    calls: BTreeMap<String, Node>,
}

impl Node {
    fn add(&mut self, stack: &str, count: u64) {
        self.count += count;
        let mut node = self;
        for name in stack.split(';').take(MOST_ROWS) {
            node = node.calls.entry(name.to_owned()).or_default();
            node.count += count;
        }
    }

    fn depth(&self) -> usize {
        1 + self.calls.values().map(Self::depth).max().unwrap_or(0)
    }
}

/// A picture in SVG, which shows the numbers under the pointer.
pub fn svg(stacks: &str, title: &str) -> String {
    let mut root = Node::default();
    for (stack, count) in stacks.lines().filter_map(|line| line.rsplit_once(' ')) {
        root.add(stack, count.parse().unwrap_or(0));
    }
    let height = ROW * (root.depth() as f64 + 1.0) + 2.0 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {height}\" \
        font-family=\"monospace\" font-size=\"12\">\n\
         <text x=\"{MARGIN}\" y=\"{}\">{}</text>\n",
        WIDTH + 2.0 * MARGIN,
        MARGIN + ROW - 5.0,
        escaped(title),
    );
    let place = Place {
        left: MARGIN,
        scale: WIDTH / root.count.max(1) as f64,
        bottom: height - MARGIN - ROW,
        all: root.count,
    };
    place.draw("all", &root, &mut svg);
    svg + "</svg>\n"
}

/// The position of a box.
#[derive(Clone, Copy)]
struct Place {
    left: f64,
    /// The width of one sample.
    scale: f64,
    bottom: f64,
    all: u64,
}

impl Place {
    fn draw(self, name: &str, node: &Node, svg: &mut String) {
        let width = node.count as f64 * self.scale;
        if width < NARROWEST {
            return;
        }
        let percent = 100.0 * node.count as f64 / self.all.max(1) as f64;
        let letters = (width / LETTER) as usize;
        let label =
            if letters < 3 { String::new() } else { escaped(&crate::text::cut(name, letters)) };
        // Writing to a string cannot fail.
        let _ = writeln!(
            svg,
            "<g><title>{}: {} samples, {percent:.1} %</title><rect x=\"{:.1}\" y=\"{:.1}\" \
            width=\"{:.1}\" height=\"{}\" fill=\"{}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{label}</text></g>",
            escaped(name),
            node.count,
            self.left,
            self.bottom,
            (width - 0.5).max(NARROWEST),
            ROW - 1.0,
            colour(name),
            self.left + 3.0,
            self.bottom + ROW - 5.0,
        );
        let mut place = Self { bottom: self.bottom - ROW, ..self };
        for (name, call) in &node.calls {
            place.draw(name, call, svg);
            place.left += call.count as f64 * self.scale;
        }
    }
}

/// The colour of a function. It depends only on the name, so that pictures can be compared.
fn colour(name: &str) -> String {
    let hash = name
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("rgb({},{},{})", 205 + hash % 50, 80 + (hash >> 8) % 130, (hash >> 16) % 60)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_are_as_wide_as_they_were_seen_often() {
        let svg = svg("main;f<int>;read 3\nmain;g 1\n", "./a & b");
        for part in [
            "./a &amp; b",
            "<title>main: 4 samples, 100.0 %</title>",
            "<title>f&lt;int&gt;: 3 samples, 75.0 %</title>",
            "width=\"899.5\"",
        ] {
            assert!(svg.contains(part), "{part} in {svg}");
        }
        assert_eq!(svg.matches("<rect").count(), 5, "{svg}");
        assert!(super::svg("", "nothing").contains("</svg>"));
        assert!(super::svg(&format!("{} 1", "f;".repeat(100_000)), "deep").len() < 100_000);
    }
}
