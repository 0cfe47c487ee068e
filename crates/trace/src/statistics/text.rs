//! A report for terminals.

use super::{Sizes, StatisticsReport};
use crate::summary;
use std::fmt::Write as _;

/// The width of the longest bar.
const BAR: u64 = 50;

impl StatisticsReport {
    /// Returns all tables, one after the other.
    pub fn text(&self) -> String {
        let mut text = summary::table(&self.by_call, &summary::COLUMNS);
        let _ = writeln!(
            text,
            "\n{} calls in {}, {} failed",
            self.calls,
            seconds(self.duration_ns),
            self.errors
        );
        for reason in &self.incomplete {
            let _ = writeln!(text, "incomplete: {reason}");
        }
        for (name, sizes) in [("read", &self.read), ("written", &self.written)] {
            sizes_table(&mut text, name, sizes);
        }
        let _ = writeln!(
            text,
            "\n     seconds     calls    errors          read       written file ({} in all)",
            self.file_count
        );
        for file in &self.files {
            let (spent, calls, errors) = (file.total_ns as f64 / 1e9, file.calls, file.errors);
            let _ = writeln!(
                text,
                "{spent:12.6} {calls:9} {errors:9} {:>13} {:>13} {}",
                bytes(file.read_bytes),
                bytes(file.written_bytes),
                file.path
            );
        }
        let _ = writeln!(
            text,
            "\n       begin         end     calls          read       written process"
        );
        for row in &self.processes {
            let (begin, end) = (row.begin_ns as f64 / 1e9, row.end_ns as f64 / 1e9);
            let (read, written) = (bytes(row.read_bytes), bytes(row.written_bytes));
            let _ = writeln!(
                text,
                "{begin:12.6} {end:11.6} {:9} {read:>13} {written:>13} {} {}",
                row.calls, row.process, row.program
            );
        }
        text
    }
}

fn sizes_table(text: &mut String, name: &str, sizes: &Sizes) {
    let most = sizes.by_size.iter().copied().max().unwrap_or(0);
    if most == 0 {
        return;
    }
    let _ = writeln!(text, "\n{} {name} by {} calls, by size", bytes(sizes.bytes), sizes.calls);
    for (class, count) in sizes.by_size.iter().enumerate().filter(|(_, count)| **count > 0) {
        let bar = "#".repeat((count * BAR).div_ceil(most) as usize);
        let _ = writeln!(text, "{:>10} {count:9} {bar}", size_class(class));
    }
}

/// Returns the name of a class of sizes, which is its lower end.
pub(super) fn size_class(class: usize) -> String {
    bytes(1_u64.checked_shl(class.saturating_sub(1) as u32).unwrap_or(u64::MAX))
}

pub(super) fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let unit =
        ((u64::BITS - count.leading_zeros()).saturating_sub(1) / 10).min(UNITS.len() as u32 - 1);
    let value = count as f64 / (1_u64 << (10 * unit)) as f64;
    if value.fract() == 0.0 {
        format!("{value:.0} {}", UNITS[unit as usize])
    } else {
        format!("{value:.1} {}", UNITS[unit as usize])
    }
}

pub(super) fn seconds(ns: u64) -> String {
    match ns {
        ..10_000 => format!("{ns} ns"),
        10_000..10_000_000 => format!("{:.1} µs", ns as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.1} s", ns as f64 / 1e9),
    }
}
