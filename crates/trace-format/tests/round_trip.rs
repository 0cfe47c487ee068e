//! Checks that traces are read as they were written.

mod common;

use common::{WithBuffers, any_trace, buffer, call, read, write};
use proptest::prelude::*;
use retake_dataseries::{ByteOrder, CompressionSet};
use retake_trace_format::{
    BufferDirection, TraceReader, TraceReaderOptions, TraceRecord, TraceWriterOptions, TracedCall,
};

fn options(extent_bytes: usize, big: bool) -> TraceWriterOptions {
    let order = if big { ByteOrder::Big } else { ByteOrder::Little };
    TraceWriterOptions { extent_bytes, order, ..TraceWriterOptions::default() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn traces_come_back_as_they_were(trace in any_trace(0..60), extent_bytes in 1..20_000_usize,
        big in any::<bool>()) {
        let bytes = write(&trace, options(extent_bytes, big));
        prop_assert_eq!(read(&bytes), trace);
    }
}

fn round_trip(calls: Vec<TracedCall>) {
    let records: Vec<TraceRecord> = calls.into_iter().map(TraceRecord::Call).collect();
    assert_eq!(read(&write(&records, TraceWriterOptions::default())), records);
}

#[test]
fn calls_that_failed_or_never_returned() {
    let mut partial = call(0, "write", &[1, 0x1000, 9], 4).input(1, b"123456789");
    partial.processor = 7;
    let failed = call(1, "write", &[1, 0x1000, 3], -9).input(1, b"abc");
    let mut never = call(2, "exit_group", &[3], 0);
    never.returned_ns = 0;
    let mut cut = call(3, "read", &[0, 0x2000, 100], 50);
    let mut data = buffer(1, BufferDirection::Output, 0x2000, b"only this");
    data.total_bytes = 50;
    cut.buffers.push(data);
    let end_of_file = call(4, "read", &[0, 0x2000, 100], 0);
    let with_empty_buffer = call(5, "read", &[0, 0x2000, 100], 0).output(1, b"");
    round_trip(vec![partial, failed, never, cut, end_of_file, with_empty_buffer]);
}

#[test]
fn strings_keep_what_is_in_them() {
    let empty = call(0, "open", &[0x1000, 0, 0], -2).input(0, b"");
    let odd = call(1, "open", &[0x1000, 0x40, 0o644], 3).input(0, b"a\0b\xff");
    let null = call(2, "open", &[0, 0, 0], -14);
    round_trip(vec![empty, odd, null]);
}

#[test]
fn ids_must_rise() {
    let mut writer =
        retake_trace_format::TraceWriter::new(Vec::new(), TraceWriterOptions::default()).unwrap();
    writer.write(&TraceRecord::Call(call(5, "getpid", &[], 1))).unwrap();
    let error = writer.write(&TraceRecord::Call(call(5, "getpid", &[], 1))).unwrap_err();
    assert_eq!(error.to_string(), "a record with id 5 cannot follow one with id 5: ids increase");
    writer
        .write(&TraceRecord::Call(call(6, "getpid", &[], 1)))
        .expect("the writer can still be used");
}

#[test]
fn what_is_missing_is_said() {
    let records = [1, 2, 5, 9].map(|id| TraceRecord::Call(call(id, "getpid", &[], 1)));
    let back = read(&write(
        &records,
        TraceWriterOptions { compression: CompressionSet::NONE, ..TraceWriterOptions::default() },
    ));
    let missing: Vec<&TraceRecord> = back.iter().filter(|record| record.id().is_none()).collect();
    let said = |text: &str| TraceRecord::Incomplete(text.to_owned());
    assert_eq!(
        missing,
        [
            &said("the records with ids 3 to 4 are missing"),
            &said("the records with ids 6 to 8 are missing")
        ]
    );
    assert_eq!(back[2], said("the records with ids 3 to 4 are missing"));
}

#[test]
fn huge_calls_are_cut_to_what_readers_accept() {
    const PIECE: u64 = 50 << 20;
    let array: Vec<u8> = (0..3)
        .flat_map(|index| [0x10_0000_0000 * (index + 1), PIECE])
        .flat_map(u64::to_le_bytes)
        .collect();
    let mut call = call(0, "writev", &[1, 0x1000, 3], 3 * PIECE as i64).input(1, &array);
    for index in 0..3 {
        call.buffers.push(buffer(
            1,
            BufferDirection::Input,
            0x10_0000_0000 * (index + 1),
            &vec![index as u8; PIECE as usize],
        ));
    }
    let back = read(&write(&[TraceRecord::Call(call.clone())], TraceWriterOptions::default()));
    let [TraceRecord::Call(back)] = back.as_slice() else { panic!("one call") };
    assert_eq!((&back.buffers[..3], back.buffers.len()), (&call.buffers[..3], 4));
    assert_eq!(back.buffers[3].total_bytes, PIECE);
    assert_eq!(back.buffers[3].data.len(), (28 << 20) - array.len());
}

#[test]
fn all_but_what_write_wrote_is_there_where_that_is_not_wanted() {
    let written = call(2, "write", &[4, 0x2000, 5], 5);
    let records = |written: TracedCall| {
        let read = call(1, "read", &[3, 0x1000, 100], 5).output(1, b"hello");
        [read, written, call(3, "pwrite64", &[4, 0x2000, 5, 0], 5).input(1, b"hello")]
            .map(TraceRecord::Call)
            .to_vec()
    };
    let bytes = write(&records(written.clone().input(1, b"hello")), TraceWriterOptions::default());
    let options = TraceReaderOptions { skips_written: true, ..TraceReaderOptions::default() };
    let reader = TraceReader::new(std::io::Cursor::new(&bytes), &options).unwrap();
    assert_eq!(reader.collect::<Result<Vec<_>, _>>().unwrap(), records(written));
}
