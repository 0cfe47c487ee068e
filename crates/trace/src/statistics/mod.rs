//! Statistics of a trace: calls, sizes, files and processes, and their course over time.

mod html;
mod slices;
mod text;

use crate::observation::Observation;
use crate::summary::{Order, Summary, SummaryRow};
use crate::tracker::Tracker;
use retake_model::table::number;
use retake_trace_format::{TraceRecord, TracedCall};
use serde::Serialize;
pub use slices::Slice;
use slices::Slices;
use std::collections::{BTreeMap, HashMap};

/// The most files with a row of their own. Calls on further files share one row.
const MOST_FILES: usize = 100_000;
/// The name of that row.
const OTHER_FILES: &[u8] = b"(other files)";

const READS: [u32; 7] = [
    number::READ as u32,
    number::PREAD64 as u32,
    number::READV as u32,
    number::RECVFROM as u32,
    number::RECVMSG as u32,
    number::PREADV as u32,
    number::PREADV2 as u32,
];
const WRITES: [u32; 7] = [
    number::WRITE as u32,
    number::PWRITE64 as u32,
    number::WRITEV as u32,
    number::SENDTO as u32,
    number::SENDMSG as u32,
    number::PWRITEV as u32,
    number::PWRITEV2 as u32,
];

/// Sums up a trace, record by record. Memory depends on the number of files and processes.
#[derive(Debug, Default)]
pub struct Statistics {
    summary: Summary,
    tracker: Tracker,
    files: HashMap<Vec<u8>, FileRow>,
    processes: BTreeMap<u32, ProcessRow>,
    read: Sizes,
    written: Sizes,
    slices: Slices,
    incomplete: Vec<String>,
    calls: u64,
    errors: u64,
}

/// The calls on one file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FileRow {
    /// Its path, or the name of its descriptor.
    pub path: String,
    /// The number of calls on it, by path or descriptor.
    pub calls: u64,
    /// The number of these calls that failed.
    pub errors: u64,
    /// The time in these calls.
    pub total_ns: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

/// One process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ProcessRow {
    /// Its id.
    pub process: u32,
    /// That of its parent; 0 if unknown.
    pub parent: u32,
    /// The last program that it ran.
    pub program: String,
    /// The time of its first record, since the trace began.
    pub begin_ns: u64,
    /// The time of its last record, since the trace began.
    pub end_ns: u64,
    /// The number of its calls.
    pub calls: u64,
    /// The time in its calls, of all threads.
    pub total_ns: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

/// The data that went in one direction.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Sizes {
    /// The number of calls that moved data.
    pub calls: u64,
    /// The number of bytes.
    pub bytes: u64,
    /// Calls by size. Element N counts those of less than 2^N bytes, but at least half of that.
    pub by_size: Vec<u64>,
}

/// The statistics of a whole trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StatisticsReport {
    /// The number of calls in the trace.
    pub calls: u64,
    /// The number of calls that failed.
    pub errors: u64,
    /// The time from the first record to the last, in nanoseconds.
    pub duration_ns: u64,
    /// Counts and times by call.
    pub by_call: Vec<SummaryRow>,
    /// The data that were read.
    pub read: Sizes,
    /// The data that were written.
    pub written: Sizes,
    /// How many files were used.
    pub file_count: usize,
    /// The files with the most time in calls.
    pub files: Vec<FileRow>,
    /// All processes, in the order in which they began.
    pub processes: Vec<ProcessRow>,
    /// The length of a slice of time, in nanoseconds.
    pub slice_ns: u64,
    /// The calls in each slice.
    pub slices: Vec<Slice>,
    /// The gaps that the trace reports.
    pub incomplete: Vec<String>,
}

impl Sizes {
    fn add(&mut self, bytes: u64) {
        let class = (u64::BITS - bytes.leading_zeros()) as usize;
        self.calls += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        if self.by_size.len() <= class {
            self.by_size.resize(class + 1, 0);
        }
        self.by_size[class] += 1;
    }
}

impl Statistics {
    /// Adds the next record.
    pub fn add(&mut self, record: TraceRecord) {
        let mut observation = Observation::Record(record);
        match &observation {
            Observation::Record(TraceRecord::Call(call)) => self.call(call),
            Observation::Record(TraceRecord::ProcessStart(start)) => {
                let at_ns = self.slices.since_begin(start.time_ns);
                let row = self.process(start.process, at_ns);
                row.parent = start.parent;
                row.program = String::from_utf8_lossy(&start.executable).into_owned();
            }
            Observation::Record(TraceRecord::Incomplete(reason)) => {
                self.incomplete.push(reason.clone())
            }
            _ => {}
        }
        self.tracker.follow(&mut observation);
    }

    fn process(&mut self, process: u32, at_ns: u64) -> &mut ProcessRow {
        let new = || ProcessRow { process, begin_ns: at_ns, ..ProcessRow::default() };
        let row = self.processes.entry(process).or_insert_with(new);
        row.end_ns = row.end_ns.max(at_ns);
        row
    }

    fn call(&mut self, call: &TracedCall) {
        self.calls += 1;
        self.errors += u64::from(call.failed());
        self.summary.add(call);
        let spent_ns = if call.returned_ns == 0 {
            0
        } else {
            call.returned_ns.saturating_sub(call.entered_ns)
        };
        let moved = u64::try_from(call.result).unwrap_or(0);
        let read = if READS.contains(&call.number) { moved } else { 0 };
        let written = if WRITES.contains(&call.number) { moved } else { 0 };
        for (sizes, bytes) in [(&mut self.read, read), (&mut self.written, written)] {
            if bytes > 0 {
                sizes.add(bytes);
            }
        }
        let begin_ns = self.slices.since_begin(call.entered_ns);
        self.slices.add(
            begin_ns,
            Slice {
                calls: 1,
                errors: u64::from(call.failed()),
                read_bytes: read,
                written_bytes: written,
                ..Slice::default()
            },
            spent_ns,
        );
        let row = self.process(call.process, begin_ns);
        row.end_ns = row.end_ns.max(begin_ns + spent_ns);
        row.calls += 1;
        row.total_ns += spent_ns;
        row.read_bytes += read;
        row.written_bytes += written;
        // The path comes after its directory and is the file in question.
        if let Some(path) = self.tracker.paths_of(call).pop() {
            let known = self.files.len() < MOST_FILES || self.files.contains_key(&path);
            let row =
                self.files.entry(if known { path } else { OTHER_FILES.to_vec() }).or_default();
            row.calls += 1;
            row.errors += u64::from(call.failed());
            row.total_ns += spent_ns;
            row.read_bytes += read;
            row.written_bytes += written;
        }
    }

    /// Makes the report, with at most `most_files` files.
    pub fn report(self, order: Order, most_files: usize) -> StatisticsReport {
        let file_count = self.files.len();
        let mut files: Vec<FileRow> = self
            .files
            .into_iter()
            .map(|(path, row)| FileRow { path: String::from_utf8_lossy(&path).into_owned(), ..row })
            .collect();
        files
            .sort_by(|left, right| (right.total_ns, &left.path).cmp(&(left.total_ns, &right.path)));
        files.truncate(most_files);
        let mut processes: Vec<ProcessRow> = self.processes.into_values().collect();
        processes.sort_by_key(|row| (row.begin_ns, row.process));
        StatisticsReport {
            calls: self.calls,
            errors: self.errors,
            duration_ns: processes.iter().map(|row| row.end_ns).max().unwrap_or(0),
            by_call: self.summary.rows(order),
            read: self.read,
            written: self.written,
            file_count,
            files,
            processes,
            slice_ns: self.slices.width_ns(),
            slices: self.slices.into_slices(),
            incomplete: self.incomplete,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use retake_trace_format::{BufferDirection, TracedBuffer};

    fn report() -> StatisticsReport {
        let mut statistics = Statistics::default();
        let path = TracedBuffer {
            argument: 1,
            direction: BufferDirection::Input,
            address: 9,
            total_bytes: 5,
            data: b"/<&>x".to_vec().into(),
        };
        let at = |index: u64| TracedCall {
            process: 7,
            thread: 7,
            entered_ns: 1_000_000 * index,
            returned_ns: 1_000_000 * index + 1000,
            ..TracedCall::default()
        };
        let open = TracedCall {
            number: number::OPENAT.into(),
            result: 3,
            arguments: [0xffff_ff9c, 9, 0, 0, 0, 0],
            buffers: vec![path.clone()],
            ..at(1)
        };
        let failed = TracedCall {
            number: number::OPENAT.into(),
            result: -2,
            arguments: [0xffff_ff9c, 9, 0, 0, 0, 0],
            buffers: vec![path],
            ..at(2)
        };
        statistics.add(TraceRecord::Call(open));
        statistics.add(TraceRecord::Call(failed));
        for index in 3..1000 {
            statistics.add(TraceRecord::Call(TracedCall {
                number: number::READ.into(),
                result: 4096,
                arguments: [3, 0, 4096, 0, 0, 0],
                ..at(index)
            }));
        }
        statistics.add(TraceRecord::Incomplete("a reason".to_owned()));
        statistics.report(Order::Calls, 10)
    }

    #[test]
    fn a_trace_is_summed_up() {
        let report = report();
        assert_eq!(
            (report.calls, report.errors, report.read.calls, report.read.bytes),
            (999, 1, 997, 997 * 4096)
        );
        assert_eq!(
            (report.read.by_size.len(), report.read.by_size[13], report.by_call[0].name.as_str()),
            (14, 997, "read")
        );
        assert_eq!(
            (report.slices.iter().map(|slice| slice.calls).sum::<u64>(), report.processes.len()),
            (999, 1)
        );
        assert!(
            report.slices.len() <= 256 && report.slice_ns > 1_000_000,
            "{}",
            report.slices.len()
        );
        assert_eq!(report.incomplete, ["a reason"]);
        assert!(report.text().contains("read") && report.text().contains("a reason"));
    }

    #[test]
    fn the_page_needs_nothing_else_and_shows_names_as_they_are() {
        let page = report().html("x<y");
        assert!(page.contains("x&lt;y") && !page.contains("x<y"));
        assert!(
            page.contains("<svg")
                && !page.contains("http://")
                && !page.contains("https://")
                && !page.contains("<script"),
            "{page}"
        );
        assert!(page.ends_with("</html>\n"));
    }
}
