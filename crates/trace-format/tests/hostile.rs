//! Damaged traces: undamaged records are read, losses are reported, and nothing else happens.

mod common;

use std::io::Cursor;

use common::{WithBuffers, any_trace, call, read, write};
use proptest::prelude::*;
use retake_dataseries::{CompressionSet, Digests};
use retake_trace_format::{
    TraceError, TraceReader, TraceReaderOptions, TraceRecord, TraceWriter, TraceWriterOptions,
};

/// Reads all records. `None` if the file cannot be read at all.
fn try_read(bytes: &[u8]) -> Option<Vec<TraceRecord>> {
    let options = TraceReaderOptions { memory_bytes: 64 << 20, ..TraceReaderOptions::default() };
    let reader = TraceReader::new(Cursor::new(bytes), &options).ok()?;
    let mut records = Vec::new();
    for record in reader {
        records.push(record.ok()?);
        assert!(records.len() < 100_000, "reading ends");
    }
    Some(records)
}

/// Returns a trace of small extents.
fn small_extents(trace: &[TraceRecord], compression: CompressionSet) -> Vec<u8> {
    write(
        trace,
        TraceWriterOptions { extent_bytes: 600, compression, ..TraceWriterOptions::default() },
    )
}

/// Returns whether `part` has only records of `whole`, in its order. Texts about missing records do
/// not count.
fn is_part_of(part: &[TraceRecord], whole: &[TraceRecord]) -> bool {
    let mut rest = whole.iter();
    part.iter()
        .filter(|record| record.id().is_some())
        .all(|record| rest.any(|other| other == record))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn what_was_cut_off_is_read_as_far_as_it_goes(trace in any_trace(1..40),
        share in 0.0..1.0_f64) {
        let whole = small_extents(&trace, CompressionSet::LZ4);
        let cut = &whole[..(whole.len() as f64 * share) as usize];
        if let Some(records) = try_read(cut) {
            // Cutting the very end can cost only the index, and with it no record.
            let is_said = records == trace || matches!(records.last(),
                Some(TraceRecord::Incomplete(_)));
            prop_assert!(is_said, "{:?}", records.last());
        }
    }

    #[test]
    fn flipped_bytes_lose_only_what_they_hit(trace in any_trace(1..40), at in 0.0..1.0_f64,
        flip in 1..=255_u8) {
        let mut bytes = small_extents(&trace, CompressionSet::NONE);
        let place = (bytes.len() as f64 * at) as usize;
        bytes[place] ^= flip;
        // A record that lost its buffers still has its id, and holds less.
        if let Some(records) = try_read(&bytes) {
            let ids: Vec<u64> = records.iter().filter_map(TraceRecord::id).collect();
            prop_assert!(ids.is_sorted());
        }
    }

    #[test]
    fn bytes_that_digests_do_not_protect_do_no_harm(trace in any_trace(1..20),
        flips in proptest::collection::vec((0.0..1.0_f64, 1..=255_u8), 1..30)) {
        let mut bytes = small_extents(&trace, CompressionSet::NONE);
        let flip_count = flips.len();
        for (at, flip) in flips {
            let place = (bytes.len() as f64 * at) as usize;
            bytes[place] ^= flip;
        }
        let options = TraceReaderOptions { digests: Digests::None, memory_bytes: 64 << 20,
            skips_written: flip_count % 2 == 0 };
        if let Ok(reader) = TraceReader::new(Cursor::new(&bytes), &options) {
            prop_assert!(reader.take(100_000).take_while(Result::is_ok).count() < 100_000);
        }
    }

    #[test]
    fn any_bytes_are_no_trace(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(TraceReader::new(Cursor::new(bytes), &TraceReaderOptions::default()).is_err());
    }
}

fn reads(count: u64) -> Vec<TraceRecord> {
    (0..count)
        .map(|id| {
            TraceRecord::Call(call(id, "read", &[3, 0x1000, 100], 100).output(1, &[id as u8; 100]))
        })
        .collect()
}

#[test]
fn a_damaged_extent_costs_its_own_records() {
    let trace = reads(100);
    let mut bytes = small_extents(&trace, CompressionSet::NONE);
    let place =
        bytes.windows(50).position(|window| window == [40; 50]).expect("the data of record 40");
    bytes[place] ^= 1;
    let records = try_read(&bytes).expect("a trace");
    assert!(is_part_of(&records, &trace));
    let left = records.iter().filter(|record| record.id().is_some()).count();
    assert!((90..100).contains(&left), "{left}");
    let said: Vec<&TraceRecord> = records.iter().filter(|record| record.id().is_none()).collect();
    assert_eq!(said.len(), 2, "the extent that is lost, and the ids that are: {said:?}");
}

#[test]
fn a_trace_that_was_never_finished_is_read() {
    let trace = reads(50);
    let folder = std::env::temp_dir().join(format!("retake-trace-{}", std::process::id()));
    let file = std::fs::File::create(&folder).expect("a file");
    let mut writer = TraceWriter::new(file, TraceWriterOptions::default()).expect("a trace");
    trace.iter().for_each(|record| writer.write(record).expect("a record"));
    drop(writer);
    let bytes = std::fs::read(&folder).expect("the file");
    std::fs::remove_file(&folder).expect("the file");
    let mut records = try_read(&bytes).expect("a trace");
    let last = records.pop();
    assert!(
        matches!(&last, Some(TraceRecord::Incomplete(why)) if why.contains("cut off")),
        "{last:?}"
    );
    assert_eq!(records, trace);
}

#[test]
fn recovered_traces_say_what_is_missing() {
    let trace = reads(100);
    let whole = small_extents(&trace, CompressionSet::LZ4);
    let cut = &whole[..whole.len() * 2 / 3];
    let (recovered, _) =
        retake_dataseries::recover(Cursor::new(cut), Vec::new(), &Default::default())
            .expect("a recovery");
    let records = read(&recovered);
    assert!(is_part_of(&records, &trace));
    assert!(matches!(records.last(), Some(TraceRecord::Incomplete(_))));
}

#[test]
fn other_files_are_refused() {
    let extent_type = retake_dataseries::ExtentType::builder("Weather")
        .field(retake_dataseries::Field::double("wind"))
        .build()
        .expect("a type");
    let writer = retake_dataseries::Writer::new(Vec::new(), vec![extent_type], Default::default())
        .expect("a writer");
    let bytes = writer.finish().expect("a file");
    let error = TraceReader::new(Cursor::new(bytes), &TraceReaderOptions::default()).unwrap_err();
    assert!(matches!(error, TraceError::NotATrace { .. }), "{error}");
    assert!(error.to_string().contains("Weather"), "{error}");
}

#[test]
fn memory_is_limited() {
    let trace: Vec<TraceRecord> = (0..4)
        .map(|id| {
            TraceRecord::Call(
                call(id, "write", &[1, 0x1000, 1 << 20], 1 << 20).input(1, &[1; 1 << 20]),
            )
        })
        .collect();
    let bytes = write(&trace, TraceWriterOptions::default());
    let options = TraceReaderOptions { memory_bytes: 1 << 19, ..TraceReaderOptions::default() };
    let records: Vec<_> =
        TraceReader::new(Cursor::new(&bytes), &options).expect("a trace").collect();
    let is_kept = |record: &Result<TraceRecord, TraceError>| {
        matches!(record, Ok(record)
        if record.id().is_some())
    };
    assert!(!records.iter().any(is_kept), "extents above the limit are refused");
    assert!(records.iter().all(|record| matches!(
        record,
        Ok(TraceRecord::Incomplete(_)) | Err(TraceError::Memory { .. })
    )));
}
