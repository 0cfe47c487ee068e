//! Makes traces, and reads them.

use retake_testing::c::compiler;
use std::fs;
use std::process::Command;
use std::sync::OnceLock;

use retake_model::table;
use retake_trace_format::{
    BufferDirection, TraceReader, TraceReaderOptions, TraceRecord, TracedCall,
};

use super::Place;

/// The methods of tracing, as options. eBPF needs privilege, and clang when retake was built.
pub fn methods() -> &'static [&'static str] {
    static KERNEL: OnceLock<bool> = OnceLock::new();
    let has_kernel = KERNEL.get_or_init(|| {
        let place = Place::new("trace-kernel");
        let ran = place.run(&["trace", "--method", "ebpf", "-o", "out.txt", "true"]);
        if ran.status != Some(0) {
            assert!(ran.status == Some(125) && ran.stderr.contains("  try "), "{ran:?}");
            eprintln!("tracing in the kernel is not tested: {}", ran.stderr);
        }
        ran.status == Some(0)
    });
    if *has_kernel { &["in-process", "ptrace", "ebpf"] } else { &["in-process", "ptrace"] }
}

pub fn records(place: &Place, name: &str) -> Vec<TraceRecord> {
    let mut reader = TraceReader::open(&place.work(name), &TraceReaderOptions::default()).unwrap();
    let records: Vec<TraceRecord> = std::iter::from_fn(|| reader.next_record().unwrap()).collect();
    let ids: Vec<u64> = records.iter().filter_map(TraceRecord::id).collect();
    assert_eq!(ids, (1..=ids.len() as u64).collect::<Vec<_>>(), "ids increase without gaps");
    records
}

/// The records of a trace, which must be complete.
pub fn whole(place: &Place, name: &str) -> Vec<TraceRecord> {
    let records = records(place, name);
    assert!(!records.iter().any(|record| matches!(record, TraceRecord::Incomplete(_))), "{name}");
    records
}

pub fn calls(records: &[TraceRecord]) -> Vec<&TracedCall> {
    let mut calls = Vec::new();
    for record in records {
        if let TraceRecord::Call(call) = record {
            calls.push(call);
        }
    }
    calls
}

pub fn name(call: &TracedCall) -> &'static str {
    table::call(call.number as u16).unwrap().name
}

/// All data that calls with one name moved on one descriptor.
pub fn moved(calls: &[&TracedCall], wanted: &str, descriptor: u64) -> Vec<u8> {
    let direction =
        if wanted == "write" { BufferDirection::Input } else { BufferDirection::Output };
    let mut bytes = Vec::new();
    for call in calls
        .iter()
        .filter(|call| name(call) == wanted && call.arguments[0] == descriptor && call.result > 0)
    {
        let data: Vec<u8> =
            call.buffers_of(1, direction).flat_map(|buffer| buffer.data.iter().copied()).collect();
        bytes.extend(&data[..call.result as usize]);
    }
    bytes
}

/// Bytes in which no two places are alike.
pub fn noise(count: usize) -> Vec<u8> {
    let mut state = 12345_u64;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..count).map(|_| next()).collect()
}

/// Compiles a C program.
pub fn compile(place: &Place, source: &str) {
    fs::write(place.work("program.c"), source).unwrap();
    let arguments = ["-O1", "-pthread", "-o", "program", "program.c"];
    assert!(
        Command::new(compiler())
            .args(arguments)
            .current_dir(place.work(""))
            .status()
            .unwrap()
            .success()
    );
}
