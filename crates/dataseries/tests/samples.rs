//! Files written by other programs, read by the crate and by the slow reader. All records must
//! agree.

mod slow;

use std::io::Cursor;
use std::path::PathBuf;

use retake_dataseries::tools::{RepackOptions, repack};
use retake_dataseries::{
    ByteOrder, Compression, CompressionSet, ReadOptions, Reader, StreamReader, Warning,
    WriterOptions,
};
use slow::{Slow, SlowExtent};

/// The available sample files: the small ones next to this test, and those in `DATASERIES_SAMPLES`.
fn samples() -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")];
    folders.extend(std::env::var_os("DATASERIES_SAMPLES").map(PathBuf::from));
    let files =
        folders.iter().flat_map(|folder| std::fs::read_dir(folder).expect("the folder of samples"));
    let mut files: Vec<PathBuf> = files.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files
}

/// All extents, read from front to back.
fn stream(bytes: &[u8]) -> (Vec<SlowExtent>, Vec<Warning>) {
    let mut reader = StreamReader::open(bytes, ReadOptions::default()).expect("a sound file");
    let mut extents = Vec::new();
    while let Some(extent) = reader.next_extent().expect("a sound extent") {
        let rows = extent.rows().map(|row| row.values().map(Slow::from).collect());
        extents.push(SlowExtent {
            type_name: extent.extent_type().name().to_owned(),
            rows: rows.collect(),
        });
    }
    (extents, reader.warnings().to_vec())
}

#[test]
fn samples_are_read_record_for_record() {
    for path in samples() {
        let bytes = std::fs::read(&path).expect("a readable sample");
        let expected = slow::read(&bytes);
        let (extents, warnings) = stream(&bytes);
        assert!(extents == expected, "{}: rows differ", path.display());
        let chain_is_right = slow::SLOW_CHAIN.with(std::cell::Cell::get);
        let expected_warnings = if chain_is_right { vec![] } else { vec![Warning::Chain] };
        assert_eq!(warnings, expected_warnings, "{}", path.display());
        let rows: usize = extents.iter().map(|extent| extent.rows.len()).sum();
        println!("{}: {} extents, {rows} rows", path.display(), extents.len());
    }
}

#[test]
fn the_index_leads_to_the_same_rows() {
    for path in samples() {
        let bytes = std::fs::read(&path).expect("a readable sample");
        let (extents, _) = stream(&bytes);
        let mut reader =
            Reader::open(Cursor::new(&bytes), ReadOptions::default()).expect("a sound file");
        let entries = reader.entries().to_vec();
        assert_eq!(entries.len(), extents.len());
        // In reverse order, because any order must work.
        for (entry, expected) in entries.iter().zip(&extents).rev() {
            let extent = reader.read(entry).expect("a sound extent");
            let rows: Vec<Vec<Slow>> =
                extent.rows().map(|row| row.values().map(Slow::from).collect()).collect();
            assert!(rows == expected.rows, "{}: extent at {}", path.display(), entry.offset);
        }
    }
}

#[test]
fn both_byte_orders_of_a_sample_hold_the_same() {
    for path in samples() {
        let Some(little) = path.to_str().and_then(|path| path.strip_suffix("bigend")) else {
            continue;
        };
        let big = rows_by_type(&std::fs::read(&path).expect("a readable sample"));
        let little =
            rows_by_type(&std::fs::read(format!("{little}littleend")).expect("the other order"));
        assert!(big.keys().eq(little.keys()), "{}: types", path.display());
        let counts = |rows: &Rows| {
            rows.values()
                .map(|rows| rows.iter().map(Vec::len).collect())
                .collect::<Vec<Vec<usize>>>()
        };
        assert_eq!(
            counts(&big),
            counts(&little),
            "{}: rows and values of each type",
            path.display()
        );
        for (big, little) in
            big.values().flatten().flatten().zip(little.values().flatten().flatten())
        {
            // The two files were written on different machines, whose results differ in the last
            // bits.
            let same = match (big, little) {
                (Slow::Double(big), Slow::Double(little)) => {
                    let (big, little) = (f64::from_bits(*big), f64::from_bits(*little));
                    (big - little).abs() <= 1e-12 * big.abs()
                }
                (big, little) => big == little,
            };
            assert!(same, "{}: {big:?} and {little:?}", path.display());
        }
    }
}

type Rows = std::collections::BTreeMap<String, Vec<Vec<Slow>>>;

/// Returns the rows of each type, in order, independent of extents.
fn rows_by_type(bytes: &[u8]) -> Rows {
    let mut types = Rows::new();
    for extent in stream(bytes).0 {
        types.entry(extent.type_name).or_default().extend(extent.rows);
    }
    types
}

#[test]
fn repacked_samples_hold_the_same() {
    let zlib_and_others = CompressionSet::ZLIB.with(Compression::Snappy).expect("writable");
    for path in samples() {
        let bytes = std::fs::read(&path).expect("a readable sample");
        if bytes.len() > 300_000 {
            eprintln!("skipped: {}: repacking it takes long without optimisation", path.display());
            continue;
        }
        let expected = rows_by_type(&bytes);
        let ways = [
            (ByteOrder::Little, CompressionSet::LZ4),
            (ByteOrder::Big, zlib_and_others),
            (ByteOrder::Big, CompressionSet::NONE),
        ];
        // Samples with many rows are only tested in one direction. Otherwise, this takes minutes
        // without optimisation.
        let count = expected.values().map(Vec::len).sum::<usize>();
        let few = if count > 50_000 { &ways[bytes.len() % 3..][..1] } else { &ways[..] };
        for &(order, compression) in few {
            let writer = WriterOptions {
                order,
                compression,
                extent_bytes: 20_000,
                ..WriterOptions::default()
            };
            let options = RepackOptions { writer, ..RepackOptions::default() };
            let (repacked, report) =
                repack(vec![bytes.as_slice()], Vec::new(), &options).expect("repacked");
            assert_eq!(report.records_read, report.records_written);
            slow::read(&repacked);
            assert!(
                slow::SLOW_CHAIN.with(std::cell::Cell::get),
                "the chain of a new file is right"
            );
            assert!(
                rows_by_type(&repacked) == expected,
                "{} {order:?} {compression:?}",
                path.display()
            );
        }
    }
}
