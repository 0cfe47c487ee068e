//! Measures how fast traces are written and read: `throughput [MEGABYTES [BYTES_OF_EACH_CALL]]`.
//!
//! The calls read and write data that compress about as well as file contents do. The trace goes to
//! a file in the folder for temporary files, which is removed afterwards. Speeds are in bytes of
//! data. The memory used is reported, too.

use std::fs::File;
use std::io::BufWriter;
use std::time::Instant;

use retake_trace_format::{
    BufferDirection, TraceReader, TraceReaderOptions, TraceRecord, TraceWriter, TraceWriterOptions,
    TracedBuffer, TracedCall,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let number =
        |index: usize| std::env::args().nth(index).and_then(|text| text.parse::<usize>().ok());
    let total = number(1).unwrap_or(512) << 20;
    let bytes = number(2).unwrap_or(4096);
    let path = std::env::temp_dir().join(format!("retake-throughput-{}.ds", std::process::id()));
    let source = sample_bytes();
    let start = Instant::now();
    let mut writer =
        TraceWriter::new(BufWriter::new(File::create(&path)?), TraceWriterOptions::default())?;
    for id in 0..total / bytes {
        writer.write(&TraceRecord::Call(traced_call(id as u64, &source, bytes)))?;
    }
    writer.finish()?.into_inner()?;
    report("write", total, start, &path);
    let start = Instant::now();
    let count =
        TraceReader::open(&path, &TraceReaderOptions::default())?.filter(Result::is_ok).count();
    report("read", total, start, &path);
    std::fs::remove_file(&path)?;
    assert_eq!(count, total / bytes);
    Ok(())
}

/// Returns a `read` or a `write`, in turn.
fn traced_call(id: u64, source: &[u8], bytes: usize) -> TracedCall {
    let is_read = id.is_multiple_of(2);
    let from = (id as usize * 4099) % (source.len() - bytes);
    let direction = if is_read { BufferDirection::Output } else { BufferDirection::Input };
    let data = source[from..from + bytes].to_vec();
    TracedCall {
        id,
        process: 100,
        thread: 100,
        entered_ns: 1_700_000_000_000_000_000 + id * 1000,
        returned_ns: 1_700_000_000_000_000_700 + id * 1000,
        processor: 0,
        number: u32::from(!is_read),
        result: bytes as i64,
        arguments: [3, 0x1000, bytes as u64, 0, 0, 0],
        buffers: vec![TracedBuffer {
            argument: 1,
            direction,
            address: 0x1000,
            total_bytes: bytes as u64,
            data: data.into(),
        }],
    }
}

/// Returns sixteen mebibytes of text with some noise in it.
fn sample_bytes() -> Vec<u8> {
    let mut state = 1_u64;
    let mut bytes = Vec::new();
    while bytes.len() < 16 << 20 {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let number = state >> 33;
        bytes.extend_from_slice(
            format!("line {number:x}: value {} of {}\n", number % 97, number % 13).as_bytes(),
        );
    }
    bytes
}

fn report(what: &str, total: usize, start: Instant, path: &std::path::Path) {
    let seconds = start.elapsed().as_secs_f64();
    let stored = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .unwrap_or("")
        .trim_start_matches("VmHWM:")
        .trim()
        .to_owned();
    let rate = total as f64 / 1e6 / seconds;
    println!(
        "{what}: {rate:.0} MB/s, stored {} %, memory {peak}, processor {:.1} s",
        stored * 100 / total as u64,
        processor_seconds()
    );
}

/// Returns the processor time of all threads so far.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let ticks = stat
        .rsplit(')')
        .next()
        .unwrap_or("")
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|text| text.parse::<f64>().ok())
        .sum::<f64>();
    ticks / 100.0
}
