//! Files changed at random or on purpose. Nothing panics, memory is limited, and whole extents are
//! salvaged.

use std::io::{self, Cursor, Write};
use std::sync::Arc;

use retake_dataseries::tools::{Format, InfoOptions, StatOptions, TxtOptions, info, stat, txt};
use retake_dataseries::{
    ByteOrder, Compression, CompressionSet, Digests, Error, ExtentType, Field, ReadOptions, Reader,
    RecoverOptions, StreamReader, Writer, WriterOptions, recover,
};

/// A generator of numbers with a fixed seed, so that failures can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit.max(1) as u64) as usize
    }
}

fn example_types() -> Vec<Arc<ExtentType>> {
    let plain = ExtentType::builder("Plain")
        .field(Field::int64("id").relative_to("id"))
        .field(Field::variable32("name").nullable().unique())
        .field(Field::bool("flag"))
        .field(Field::fixed_width("hash", 5));
    let compact = ExtentType::builder("Compact")
        .null_compact()
        .field(Field::int64("id"))
        .field(Field::int32("a").nullable())
        .field(Field::double("b").nullable().scaled_by(0.1).relative_to("b"))
        .field(Field::variable32("s").nullable())
        .field(Field::byte("c").nullable());
    vec![plain.build().expect("a legal type"), compact.build().expect("a legal type")]
}

/// A file of two types and many small extents.
fn example(order: ByteOrder, compression: CompressionSet, rows: i64) -> Vec<u8> {
    let options =
        WriterOptions { order, compression, extent_bytes: 700, ..WriterOptions::default() };
    let mut writer = Writer::new(Vec::new(), example_types(), options).expect("a writer");
    for id in 0..rows {
        let [plain, compact] = [0, 1].map(|number| Arc::clone(&writer.library().types()[number]));
        let name = format!("name {} {}", id % 7, "x".repeat((id % 30) as usize));
        let mut row = writer.row(0).expect("a row");
        row.set(&plain.bind::<i64>("id").expect("id"), id).expect("set");
        row.set(&plain.bind::<[u8]>("name").expect("name"), name.as_bytes()).expect("set");
        row.set(&plain.bind::<[u8]>("hash").expect("hash"), b"12345").expect("set");
        row.finish();
        let mut row = writer.row(1).expect("a row");
        row.set(&compact.bind::<i64>("id").expect("id"), id).expect("set");
        if id % 2 == 0 {
            row.set(&compact.bind::<f64>("b").expect("b"), id as f64).expect("set");
            row.set(&compact.bind::<[u8]>("s").expect("s"), name.as_bytes()).expect("set");
        }
        row.finish();
    }
    writer.finish().expect("a finished file")
}

fn compressions() -> Vec<CompressionSet> {
    let only = |mode| CompressionSet::NONE.with(mode).expect("writable");
    vec![
        CompressionSet::NONE,
        CompressionSet::LZ4,
        CompressionSet::ZLIB,
        only(Compression::Bzip2),
        only(Compression::Snappy),
    ]
}

/// Reads a file in every possible way. Errors are accepted. Returns the number of rows.
fn read_in_every_way(bytes: &[u8]) -> usize {
    let mut rows = 0;
    for digests in [Digests::Both, Digests::Packed, Digests::None] {
        let read = ReadOptions { digests, extent_bytes_limit: 4 << 20, ..ReadOptions::default() };
        if let Ok(mut reader) = StreamReader::open(bytes, read.clone()) {
            // After an error in the contents, the reader can go on. An error in the structure
            // repeats, so the number of steps is limited.
            for _ in 0..1000 {
                match reader.next_extent() {
                    Ok(Some(extent)) => {
                        rows += extent.rows().map(|row| row.values().count().min(1)).sum::<usize>();
                    }
                    Ok(None) => break,
                    Err(_) => {}
                }
            }
        }
        if let Ok(mut reader) = Reader::open(Cursor::new(bytes), read.clone()) {
            for entry in reader.entries().to_vec() {
                let _ = reader.read(&entry).map(|extent| extent.rows().count());
            }
        }
        let options =
            TxtOptions { format: Format::Json, read: read.clone(), ..TxtOptions::default() };
        let _ = txt(bytes, &mut io::sink(), &options);
        let _ = info(
            bytes,
            &mut io::sink(),
            &InfoOptions { read: read.clone(), ..InfoOptions::default() },
        );
        let options = StatOptions {
            group_by: vec!["@type".to_owned()],
            read: read.clone(),
            ..StatOptions::default()
        };
        let _ = stat(bytes, &mut io::sink(), &options);
        let options = RecoverOptions { read, types: None };
        if let Ok((salvaged, _)) = recover(Cursor::new(bytes), Vec::new(), &options) {
            let mut reader = StreamReader::open(salvaged.as_slice(), ReadOptions::default())
                .expect("a sound file");
            while reader.next_extent().expect("only sound extents are salvaged").is_some() {}
        }
    }
    rows
}

/// Makes one random change.
fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    let at = random.below(bytes.len());
    match random.below(8) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes[at] = random.below(256) as u8,
        2 => bytes.truncate(at),
        3 => {
            let end = (at + random.below(40)).min(bytes.len());
            bytes.drain(at..end);
        }
        4 => bytes.insert(at, random.below(256) as u8),
        5 => {
            let end = (at + 4).min(bytes.len());
            bytes[at..end].fill([0, 0xff, 0x7f, 0x80][random.below(4)]);
        }
        6 => {
            let from = random.below(bytes.len());
            let count = random.below(64).min(bytes.len() - at.max(from));
            bytes.copy_within(from..from + count, at);
        }
        // Headers of extents are the most sensitive part: changes the beginning of one.
        _ => {
            let names: [&[u8]; 2] = [b"Plain\0\0\0", b"Compact\0"];
            let found = bytes[at..].windows(8).position(|window| names.contains(&window));
            if let Some(found) = found.filter(|found| at + found >= 28) {
                let field = at + found - 28 + random.below(28);
                bytes[field] = [0, 1, 0x7f, 0xff, 6][random.below(5)];
            }
        }
    }
}

#[test]
fn changed_files_never_panic() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for compression in compressions() {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let original = example(order, compression, 40);
            for _ in 0..60 {
                let mut bytes = original.clone();
                for _ in 0..=random.below(4) {
                    if !bytes.is_empty() {
                        mutate(&mut bytes, &mut random);
                    }
                }
                read_in_every_way(&bytes);
            }
        }
    }
}

#[test]
fn changed_samples_never_panic() {
    // These use lzo, lzf and other modes that this crate does not write.
    let mut random = Random(77);
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    for entry in std::fs::read_dir(folder).expect("the folder of samples") {
        let original = std::fs::read(entry.expect("an entry").path()).expect("a sample");
        for _ in 0..8 {
            let mut bytes = original.clone();
            for _ in 0..4 {
                if !bytes.is_empty() {
                    mutate(&mut bytes, &mut random);
                }
            }
            let read = ReadOptions { digests: Digests::None, ..ReadOptions::default() };
            let Ok(mut reader) = StreamReader::open(bytes.as_slice(), read) else {
                continue;
            };
            for _ in 0..100 {
                match reader.next_extent() {
                    Ok(Some(extent)) => assert_eq!(extent.rows().len(), extent.record_count()),
                    Ok(None) => break,
                    Err(_) => {}
                }
            }
        }
    }
}

#[test]
fn a_file_cut_anywhere_keeps_its_whole_extents() {
    let original = example(ByteOrder::Little, CompressionSet::LZ4, 60);
    let mut ends = Vec::new();
    let mut reader =
        StreamReader::open(original.as_slice(), ReadOptions::default()).expect("a sound file");
    let types_end = reader.offset();
    while let Some((offset, packed)) = reader.next_packed_where(|_| true).expect("a sound extent") {
        ends.push(offset + packed.bytes().len() as u64);
    }
    for cut in (types_end as usize..original.len()).step_by(13) {
        let (salvaged, report) =
            recover(Cursor::new(&original[..cut]), Vec::new(), &RecoverOptions::default())
                .expect("recovered");
        let expected = ends.iter().filter(|&&end| end <= cut as u64).count();
        assert_eq!(report.extents, expected as u64, "cut at {cut}");
        assert!(!report.is_sound());
        let mut reader =
            StreamReader::open(salvaged.as_slice(), ReadOptions::default()).expect("a sound file");
        let mut count = 0;
        while reader.next_extent().expect("a sound extent").is_some() {
            count += 1;
        }
        assert_eq!(count, expected);
        let mut reader = StreamReader::open(&original[..cut], ReadOptions::default())
            .expect("the types are whole");
        let end = loop {
            match reader.next_extent() {
                Ok(Some(_)) => {}
                end => break end,
            }
        };
        assert!(matches!(end, Err(Error::Truncated { .. })), "{end:?}");
    }
    let (same, report) =
        recover(Cursor::new(&original), Vec::new(), &RecoverOptions::default()).expect("recovered");
    assert!(report.is_sound());
    assert_eq!(same, original, "a sound file is copied as it is");
}

#[test]
fn a_flipped_byte_costs_one_extent() {
    let original = example(ByteOrder::Big, CompressionSet::NONE, 60);
    let (_, sound) =
        recover(Cursor::new(&original), Vec::new(), &RecoverOptions::default()).expect("recovered");
    let mut reader =
        StreamReader::open(original.as_slice(), ReadOptions::default()).expect("a sound file");
    let start = reader.offset() as usize;
    while reader.next_extent().expect("a sound extent").is_some() {}
    for at in (start..original.len() - 28).step_by(37) {
        let mut damaged = original.clone();
        damaged[at] ^= 0x40;
        let (_, report) = recover(Cursor::new(&damaged), Vec::new(), &RecoverOptions::default())
            .expect("recovered");
        assert!(report.extents >= sound.extents - 1, "flip at {at}: {report:?}");
        assert_eq!(report.lost_ranges, 1, "flip at {at}");
        assert!(report.had_tail, "flip at {at}");
    }
}

#[test]
fn damaged_descriptions_are_replaced_from_another_file() {
    let mut damaged = example(ByteOrder::Little, CompressionSet::NONE, 30);
    let (_, sound) =
        recover(Cursor::new(&damaged), Vec::new(), &RecoverOptions::default()).expect("recovered");
    damaged[150] ^= 1;
    assert!(recover(Cursor::new(&damaged), Vec::new(), &RecoverOptions::default()).is_err());
    let other = example(ByteOrder::Big, CompressionSet::LZ4, 1);
    let types = StreamReader::open(other.as_slice(), ReadOptions::default())
        .expect("a sound file")
        .library()
        .clone();
    let options = RecoverOptions { types: Some(types), ..RecoverOptions::default() };
    let (_, report) = recover(Cursor::new(&damaged), Vec::new(), &options).expect("recovered");
    assert_eq!((report.extents, report.records), (sound.extents, sound.records));
}

#[test]
fn a_small_file_cannot_ask_for_much_memory() {
    let original = example(ByteOrder::Little, CompressionSet::NONE, 20);
    let mut reader =
        StreamReader::open(original.as_slice(), ReadOptions::default()).expect("a sound file");
    let (offset, _) = reader.next_packed_where(|_| true).expect("an extent").expect("one");
    let mut bytes = original.clone();
    // Two billion records are refused because of their size, before anything is expanded.
    bytes[offset as usize + 8..][..4].copy_from_slice(&0x7fff_ffff_u32.to_le_bytes());
    let read = ReadOptions { digests: Digests::None, ..ReadOptions::default() };
    let mut reader = StreamReader::open(bytes.as_slice(), read).expect("the types are whole");
    assert!(matches!(reader.next_extent(), Err(Error::Limit { .. })));
}

/// A stream that fails after so many bytes, like a full disk.
struct Full(Vec<u8>, usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(self.1 - self.0.len());
        if count == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_an_error_and_the_file_recovers() {
    let mut full = Full(Vec::new(), 5000);
    let options = WriterOptions {
        extent_bytes: 500,
        compression: CompressionSet::NONE,
        ..WriterOptions::default()
    };
    let types = example_types();
    let id = types[0].bind::<i64>("id").expect("id");
    let mut writer = Writer::new(&mut full, types, options).expect("a writer");
    let failure = (0..100_000).find_map(|number| {
        let mut row = match writer.row(0) {
            Ok(row) => row,
            Err(error) => return Some(error),
        };
        row.set(&id, number).expect("set");
        row.finish();
        None
    });
    assert!(matches!(failure, Some(Error::Io(_))), "{failure:?}");
    assert!(matches!(writer.flush(), Err(Error::Poisoned) | Ok(())));
    drop(writer);
    let (_, report) =
        recover(Cursor::new(&full.0), Vec::new(), &RecoverOptions::default()).expect("recovered");
    assert!(report.records > 50 && !report.is_sound(), "{report:?}");
}

#[test]
fn descriptions_made_to_hurt_are_refused() {
    let deep = format!("<ExtentType name=\"a\">{}", "<field>".repeat(30_000));
    let wide = format!(
        "<ExtentType name=\"a\">{}</ExtentType>",
        (0..20_000).map(|i| format!("<field type=\"byte\" name=\"{i}\"/>")).collect::<String>()
    );
    let large = "<ExtentType name=\"a\"><field type=\"fixedwidth\" name=\"b\" \
    size=\"4000000000\"/></ExtentType>";
    let laughs = "<!DOCTYPE x [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]><ExtentType \
    name=\"&b;\"></ExtentType>";
    let long = format!("<ExtentType name=\"a\" comment=\"{}\"></ExtentType>", "x".repeat(2 << 20));
    for xml in [&deep, &wide, large, laughs, &long] {
        assert!(matches!(ExtentType::parse(xml), Err(Error::Schema { .. })), "{:.60}", xml);
    }
}

#[test]
fn a_file_of_false_headers_is_searched_in_bounded_time() {
    let original = example(ByteOrder::Little, CompressionSet::NONE, 5);
    let start =
        StreamReader::open(original.as_slice(), ReadOptions::default()).expect("sound").offset();
    let mut bytes = original[..start as usize].to_vec();
    // Each claims most of the file, and none is valid.
    for _ in 0..20_000 {
        let mut header = vec![0; 36];
        header[..4].copy_from_slice(&300_000_u32.to_le_bytes());
        header[12..16].copy_from_slice(&4_u32.to_le_bytes());
        header[26] = 5;
        header[28..33].copy_from_slice(b"Plain");
        bytes.extend(header);
    }
    let began = std::time::Instant::now();
    let (_, report) =
        recover(Cursor::new(&bytes), Vec::new(), &RecoverOptions::default()).expect("recovered");
    assert_eq!(report.extents, 0);
    assert_eq!(report.lost_bytes, bytes.len() as u64 - start);
    assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
}
