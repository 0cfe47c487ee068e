//! `cargo xtask bench --scaling`: the growth of cost with threads, processes, event rate, mappings,
//! and the length of a recording. Costs that must not grow with the length are compared between the
//! shortest and the longest recording: replay's start, `info`, a range of `dump`, and memory.

use std::fs;

use serde_json::{Value, json};

use super::Result;
use super::gate::{self, Finding};
use super::harness::Bench;
use super::machine::Machine;
use super::scaling_point::{Point, measure};
use super::statistics::Series;
use super::stopwatch::Stopwatch;
use super::svg::{Bar, Chart};
use super::table::{NOTHING, Table, number};

/// The ratio, plus seconds, by which longer recordings may take longer to open. It is more than
/// chance, and less than a user would notice.
const GROWTH_RATIO: f64 = 1.5;
const GROWTH_SECONDS: f64 = 0.01;
/// The same for memory.
const GROWTH_MEMORY_KB: u64 = 10_000;

/// A quantity that grows, and its sizes.
#[derive(Debug)]
struct Axis {
    /// The name in the program `growth`.
    name: &'static str,
    title: &'static str,
    sizes: &'static [u64],
    quick_sizes: &'static [u64],
    /// Whether it is the length of the recording.
    is_length: bool,
}

const AXES: [Axis; 6] = [
    Axis {
        name: "threads",
        title: "threads that share 400,000 calls",
        sizes: &[1, 2, 4, 8, 16, 32, 64],
        quick_sizes: &[1, 8, 64],
        is_length: false,
    },
    Axis {
        name: "processes",
        title: "processes that share 400,000 calls",
        sizes: &[1, 10, 100, 300, 1000],
        quick_sizes: &[1, 100],
        is_length: false,
    },
    Axis {
        name: "rate",
        title: "additions between two of 100,000 calls",
        sizes: &[0, 30, 300, 3000, 30_000],
        quick_sizes: &[0, 300, 3000],
        is_length: false,
    },
    Axis {
        name: "mappings",
        title: "mappings, 100,000 calls",
        sizes: &[0, 100, 1000, 10_000, 30_000],
        quick_sizes: &[0, 1000, 10_000],
        is_length: false,
    },
    Axis {
        name: "calls",
        title: "calls",
        sizes: &[10_000, 100_000, 1_000_000, 10_000_000],
        quick_sizes: &[10_000, 1_000_000],
        is_length: true,
    },
    Axis {
        name: "payload",
        title: "MB of payload",
        sizes: &[1, 100, 1000, 10_000],
        quick_sizes: &[1, 1000],
        is_length: true,
    },
];

impl Axis {
    /// Returns the number of an event in the middle, if the sizes are lengths.
    fn middle(&self, size: u64) -> Option<u64> {
        // A piece of payload has 64 KB.
        let events = if self.name == "payload" { size * 16 } else { size };
        self.is_length.then_some(events / 2)
    }
}

/// All results.
#[derive(Debug)]
pub struct Scaling {
    machine: Machine,
    axes: Vec<(&'static Axis, Vec<Point>, Option<String>)>,
}

/// Returns the names of all axes, with their titles.
pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    AXES.iter().map(|axis| (axis.name, axis.title))
}

/// Measures all axes, and a noisy one up to `most` times.
///
/// # Errors
/// The program does not build. If a size fails, its axis ends there, and the report says so.
pub fn run(
    bench: &Bench,
    is_quick: bool,
    most: usize,
    wants: impl Fn(&str) -> bool,
) -> Result<Scaling> {
    let machine = Machine::look();
    machine.warn();
    let folder = bench.scratch().path().join("scaling");
    fs::create_dir_all(&folder)?;
    let stopwatch = Stopwatch::new(bench, &folder);
    stopwatch.compile("growth")?;
    let mut axes = Vec::new();
    for axis in AXES.iter().filter(|axis| wants(axis.name)) {
        let mut points = Vec::new();
        let mut trouble = None;
        for &size in if is_quick { axis.quick_sizes } else { axis.sizes } {
            println!("{} {} ...", size, axis.title);
            let one = || measure(&stopwatch, axis.name, size, axis.middle(size));
            match gate::until_quiet(most, is_noisy, one) {
                Ok(point) => points.push(point),
                Err(error) => {
                    trouble = Some(format!("{size}: {error}"));
                    break;
                }
            }
        }
        axes.push((axis, points, trouble));
    }
    Ok(Scaling { machine, axes })
}

impl Scaling {
    /// Returns the result of each axis, for the gate.
    pub fn findings(&self) -> Vec<gate::Row> {
        let row = |(axis, points, trouble): &(&Axis, Vec<Point>, Option<String>)| {
            (axis.name.to_owned(), finding(points, trouble.as_deref()))
        };
        self.axes.iter().map(row).collect()
    }

    /// Returns all tables, with titles of the axes and growth.
    fn texts(&self, print: fn(&Table) -> String) -> String {
        let mut text = String::new();
        for (axis, points, trouble) in &self.axes {
            text.push_str(&print(&table(axis, points)));
            if let Some(trouble) = trouble {
                text.push_str(&format!("\nFAILED at {trouble}\n"));
            }
            if axis.is_length && points.len() > 1 {
                let grown = grown(points);
                let said = if grown.is_empty() {
                    "No cost that must stay constant grows.".to_owned()
                } else {
                    format!("Grows with the length: {}.", grown.join(", "))
                };
                text.push_str(&format!("\n{said}\n"));
            }
            text.push('\n');
        }
        text
    }

    pub fn terminal(&self) -> String {
        format!("{}\n\n{}", self.machine.describe(), self.texts(Table::terminal))
    }

    pub fn markdown(&self) -> String {
        format!("{}.\n\n{}", self.machine.describe(), self.texts(Table::markdown))
    }

    /// Returns the chart of record and replay at each size.
    pub fn chart(&self) -> Chart {
        let bar = |seconds: f64, native: f64| {
            Some(Bar { value: seconds / native, low: seconds / native, high: seconds / native })
        };
        let group = |axis: &Axis, point: &Point| {
            let bars = vec![bar(point.record, point.native), bar(point.replay, point.native)];
            (format!("{} {}", point.size, axis.title), bars)
        };
        Chart {
            title: "How cost grows".to_owned(),
            subtitle: "time as a multiple of the program's own; medians of up to five runs"
                .to_owned(),
            series: ["record", "replay"].map(str::to_owned).to_vec(),
            groups: self
                .axes
                .iter()
                .flat_map(|(axis, points, _)| points.iter().map(move |point| group(axis, point)))
                .collect(),
            reference: Some(1.0),
            longest: 6.0,
        }
    }

    /// Returns all figures, for programs.
    pub fn json(&self) -> Value {
        let axis = |(axis, points, trouble): &(&Axis, Vec<Point>, Option<String>)| {
            json!({
                "name": axis.name,
                "points": points.iter().map(Point::json).collect::<Value>(),
                "trouble": trouble,
                "grows": grown(points),
            })
        };
        json!({"machine": self.machine.json(),
            "axes": self.axes.iter().map(axis).collect::<Value>()})
    }
}

/// Returns the result of one axis.
fn finding(points: &[Point], trouble: Option<&str>) -> Finding {
    let grown = grown(points);
    match trouble {
        Some(trouble) => Finding::Failed(trouble.to_owned()),
        None if points.iter().any(is_noisy) => Finding::Noisy,
        None if points.is_empty() => Finding::Failed("no size was measured".to_owned()),
        None if !grown.is_empty() => Finding::Over(grown.join(", ")),
        None => Finding::Good,
    }
}

/// Returns whether a time that is compared between lengths varies by more than the allowed growth.
fn is_noisy(point: &Point) -> bool {
    let varies = |series: &Series| {
        let range = series.maximum().zip(series.minimum()).map(|(most, least)| most - least);
        series.is_noisy() && range.is_some_and(|seconds| seconds > GROWTH_SECONDS)
    };
    let opening = point.opening.as_ref();
    opening.is_some_and(|it| [&it.first_output, &it.info, &it.dump].into_iter().any(varies))
}

/// Returns the costs that must not grow with the length but do, from the first point to the last.
fn grown(points: &[Point]) -> Vec<&'static str> {
    let [first, .., last] = points else { return Vec::new() };
    let (Some(before), Some(after)) = (&first.opening, &last.opening) else { return Vec::new() };
    let slower = |before: &Series, after: &Series| {
        let (before, after) = (before.median().unwrap_or(0.0), after.median().unwrap_or(0.0));
        after > before * GROWTH_RATIO + GROWTH_SECONDS
    };
    let larger = |before: u64, after: u64| after > before + GROWTH_MEMORY_KB;
    [
        ("replay's start", slower(&before.first_output, &after.first_output)),
        ("info", slower(&before.info, &after.info)),
        ("dump of a range", slower(&before.dump, &after.dump)),
        ("memory of record", larger(first.record_peak_kb, last.record_peak_kb)),
        ("memory of replay", larger(first.replay_peak_kb, last.replay_peak_kb)),
        (
            "memory of info",
            before
                .info_peak_kb
                .zip(after.info_peak_kb)
                .is_some_and(|(before, after)| larger(before, after)),
        ),
        (
            "memory of dump",
            before
                .dump_peak_kb
                .zip(after.dump_peak_kb)
                .is_some_and(|(before, after)| larger(before, after)),
        ),
    ]
    .into_iter()
    .filter_map(|(what, is_grown)| is_grown.then_some(what))
    .collect()
}

fn table(axis: &Axis, points: &[Point]) -> Table {
    let mut headings =
        vec![axis.title, "native s", "record ×", "replay ×", "record MB", "replay MB", "log MB"];
    if axis.is_length {
        headings.extend([
            "replay's first output ms",
            "info ms",
            "info MB",
            "dump of 10 events ms",
            "dump MB",
        ]);
    }
    let mut table = Table::new("", &headings);
    let mb = |kb: u64| number((kb > 0).then_some(kb as f64 * 1.024 / 1e3), 1);
    let ms = |series: &Series| {
        series.median().map_or(NOTHING.to_owned(), |seconds| format!("{:.1}", seconds * 1e3))
    };
    for point in points {
        let mut cells = vec![
            point.size.to_string(),
            number(Some(point.native), 3),
            number(Some(point.record / point.native), 2),
            number(Some(point.replay / point.native), 2),
            mb(point.record_peak_kb),
            mb(point.replay_peak_kb),
            number(Some(point.log_bytes as f64 / 1e6), 2),
        ];
        if let Some(opening) = &point.opening {
            cells.extend([
                ms(&opening.first_output),
                ms(&opening.info),
                mb(opening.info_peak_kb.unwrap_or(0)),
                ms(&opening.dump),
                mb(opening.dump_peak_kb.unwrap_or(0)),
            ]);
        }
        table.push(cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::scaling_point::Opening;

    fn point(first_output: f64, peak_kb: u64) -> Point {
        let series = |figure: f64| Series { figures: vec![figure] };
        let opening = Opening {
            first_output: series(first_output),
            info: series(0.003),
            info_peak_kb: Some(4000),
            dump: series(0.004),
            dump_peak_kb: Some(5000),
        };
        Point {
            size: 1,
            native: 1.0,
            record: 1.5,
            replay: 0.5,
            record_peak_kb: peak_kb,
            replay_peak_kb: 0,
            log_bytes: 0,
            opening: Some(opening),
        }
    }

    #[test]
    fn growth_is_noticed() {
        assert!(grown(&[point(0.01, 10_000)]).is_empty(), "one is no growth");
        assert!(grown(&[point(0.01, 10_000), point(0.02, 12_000)]).is_empty(), "chance");
        assert_eq!(
            grown(&[point(0.01, 10_000), point(0.01, 10_000), point(0.5, 90_000)]),
            ["replay's start", "memory of record"]
        );
    }

    #[test]
    fn a_gate_is_told_what_came_of_an_axis() {
        let even = [point(0.01, 10_000), point(0.01, 10_000)];
        assert_eq!(finding(&even, None), Finding::Good);
        assert_eq!(finding(&even, Some("7: no disk")), Finding::Failed("7: no disk".to_owned()));
        assert_eq!(finding(&[], None), Finding::Failed("no size was measured".to_owned()));
        let [short, mut long] = [point(0.01, 10_000), point(0.5, 10_000)];
        let grown = finding(&[short.clone(), long.clone()], None);
        assert_eq!(grown, Finding::Over("replay's start".to_owned()));
        let series = &mut long.opening.as_mut().unwrap().first_output;
        series.figures = vec![0.1, 0.5, 0.5];
        assert_eq!(finding(&[short.clone(), long.clone()], None), Finding::Noisy);
        long.opening.as_mut().unwrap().first_output.figures = vec![0.001, 0.008, 0.004];
        assert_eq!(finding(&[short, long], None), Finding::Good, "it may vary by that much");
    }

    #[test]
    fn lengths_have_more_columns() {
        let table = table(&AXES[4], &[point(0.01, 10_000)]);
        assert_eq!(table.headings.len(), 12);
        assert_eq!(table.rows[0][2..5], ["1.50", "0.50", "10.2"]);
        assert_eq!(table.rows[0][7], "10.0");
    }
}
