//! Any bytes as a trace: reading must end, with records or an error.
#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use retake_trace_format::{Digests, TraceReader, TraceReaderOptions};

fuzz_target!(|bytes: &[u8]| {
    // Digests are not checked, as hardly any input would have correct ones.
    let options =
        TraceReaderOptions { digests: Digests::None, memory_bytes: 64 << 20, skips_written: false };
    if let Ok(reader) = TraceReader::new(Cursor::new(bytes), &options) {
        let records = reader.take_while(Result::is_ok);
        std::hint::black_box(records.count());
    }
});
