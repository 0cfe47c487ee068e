//! Measures how fast records are written and read on one core: `throughput [MEGABYTES
//! [COMPRESSION]]`.
//!
//! The records are like those of a trace of system calls: a few numbers, and a buffer that
//! compresses about as well as file contents. If Linux tells the processor time, that is measured,
//! so that other programs do not matter.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use retake_dataseries::{
    CompressionSet, Error, ExtentType, Field, ReadOptions, StreamReader, Writer, WriterOptions,
};

fn main() -> Result<(), Error> {
    let megabytes: usize =
        std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(512);
    let only = std::env::args().nth(2);
    let source = sample_bytes();
    for (name, compression) in [
        ("none", CompressionSet::NONE),
        ("lz4", CompressionSet::LZ4),
        ("zlib", CompressionSet::ZLIB),
    ] {
        if only.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        for value_bytes in [64, 4096, 65536] {
            let total = if name == "zlib" { megabytes / 8 } else { megabytes } << 20;
            measure(name, compression, &source, value_bytes, total)?;
        }
    }
    Ok(())
}

/// Sixteen mebibytes of text with some noise.
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

fn measure(
    name: &str,
    compression: CompressionSet,
    source: &[u8],
    value_bytes: usize,
    total: usize,
) -> Result<(), Error> {
    let extent_type = ExtentType::builder("Write")
        .field(Field::int64("id").relative_to("id"))
        .field(Field::int64("time_called").relative_to("time_called"))
        .field(Field::int64("time_returned").relative_to("time_called"))
        .field(Field::int32("descriptor"))
        .field(Field::variable32("data").nullable())
        .build()?;
    let [id, called, returned] =
        ["id", "time_called", "time_returned"].map(|field| extent_type.bind::<i64>(field));
    let (id, called, returned) = (id?, called?, returned?);
    let descriptor = extent_type.bind::<i32>("descriptor")?;
    let data = extent_type.bind::<[u8]>("data")?;
    let options = WriterOptions { compression, extent_bytes: 1 << 20, ..WriterOptions::default() };
    let rows = total / value_bytes;
    let mut writer =
        Writer::new(Vec::with_capacity(total * 5 / 4), vec![Arc::clone(&extent_type)], options)?;
    let start = Stopwatch::start();
    for index in 0..rows {
        let number = index as i64;
        let mut row = writer.row(0)?;
        row.set(&id, number)?;
        row.set(&called, 1_700_000_000_000_000_000 + number * 1000)?;
        row.set(&returned, 1_700_000_000_000_000_700 + number * 1000)?;
        row.set(&descriptor, 3)?;
        // Values are taken from distant places, so that neighbours differ.
        let place = index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        row.set(&data, &source[place % (source.len() - value_bytes)..][..value_bytes])?;
        row.finish();
    }
    let file = writer.finish()?;
    let written = start.seconds();
    let read = measure_reading(&file, rows * value_bytes)?;
    // Bytes of a row before compression, with the numbers and the string pool.
    let row_bytes = extent_type.record_bytes() + value_bytes + 4 + (12 - value_bytes % 8) % 8;
    let megabytes = (rows * row_bytes) as f64 / 1e6;
    use io::Write;
    writeln!(
        io::stdout(),
        "{name:4} values of {value_bytes:5} bytes: write {:6.0} MB/s, read {:6.0} MB/s, stored \
        {:3.0} %",
        megabytes / written,
        megabytes / read,
        file.len() as f64 / 1e4 / megabytes
    )?;
    Ok(())
}

/// The seconds to read a file. Its values have `value_bytes` together.
fn measure_reading(file: &[u8], value_bytes: usize) -> Result<f64, Error> {
    let start = Stopwatch::start();
    let mut reader = StreamReader::open(file, ReadOptions::default())?;
    let mut sum = 0;
    while let Some(extent) = reader.next_extent()? {
        let data = extent.extent_type().bind::<[u8]>("data")?;
        sum += extent.rows().map(|row| row.get(&data).map_or(0, <[u8]>::len)).sum::<usize>();
    }
    assert_eq!(sum, value_bytes, "all was read back");
    Ok(start.seconds())
}

/// Measures the processor time of this thread, or the clock time if that is not known.
struct Stopwatch {
    wall: Instant,
    on_processor_ns: Option<u64>,
}

impl Stopwatch {
    fn start() -> Self {
        Self { wall: Instant::now(), on_processor_ns: on_processor_ns() }
    }

    fn seconds(&self) -> f64 {
        match (self.on_processor_ns, on_processor_ns()) {
            (Some(start), Some(end)) => (end - start) as f64 / 1e9,
            _ => self.wall.elapsed().as_secs_f64(),
        }
    }
}

/// Nanoseconds that this thread has run, if the system counts them.
fn on_processor_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok()
}
