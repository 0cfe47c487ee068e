//! Any bytes as a trace: reading ends, with records or an error.
#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use retake_trace_format::{Digests, TraceReader, TraceReaderOptions};

fuzz_target!(|bytes: &[u8]| {
    // Without digests, or next to nothing would come through.
    let options =
        TraceReaderOptions { digests: Digests::None, memory_bytes: 64 << 20, skips_written: false };
    if let Ok(reader) = TraceReader::new(Cursor::new(bytes), &options) {
        let records = reader.take_while(Result::is_ok);
        std::hint::black_box(records.count());
    }
});
