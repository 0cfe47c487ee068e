//! Conversion from DataSeries to Parquet and back keeps the records.

use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use retake_dataseries::{
    Error as DataSeriesError, ExtentType, Field, ReadOptions, StreamReader, Value, Writer,
    WriterOptions,
};
use retake_dataseries_parquet::{
    Error, ExportOptions, ImportOptions, export_types, export_wide, import,
};

/// All rows of a file as text, grouped by type, in order.
fn rows(bytes: &[u8]) -> Vec<(String, Vec<String>)> {
    let mut reader = StreamReader::open(bytes, ReadOptions::default()).expect("a sound file");
    let mut rows: Vec<(String, Vec<String>)> = Vec::new();
    while let Some(extent) = reader.next_extent().expect("a sound extent") {
        let name = extent.extent_type().name().to_owned();
        let texts = extent.rows().map(|row| format!("{:?}", row.values().collect::<Vec<_>>()));
        match rows.iter_mut().find(|(other, _)| *other == name) {
            Some((_, known)) => known.extend(texts),
            None => rows.push((name, texts.collect())),
        }
    }
    rows.sort();
    rows
}

fn types() -> Vec<Arc<ExtentType>> {
    let first = ExtentType::builder("A::One").namespace("example.org").version(1, 2).fields([
        Field::bool("bit"),
        Field::byte("value"),
        Field::int64("time").relative_to("time"),
        Field::variable32("name").nullable().unique(),
        Field::double("real").nullable(),
    ]);
    // The same names with other types: in a wide table they share columns, or cannot.
    let second = ExtentType::builder("B::Two").fields([
        Field::int32("bit").nullable(),
        Field::int64("value").nullable(),
        Field::variable32("time"),
        Field::fixed_width("name", 3),
        Field::bool("flag").nullable(),
        Field::variable32("extent_type"),
    ]);
    [first, second].map(|builder| builder.build().expect("a type")).to_vec()
}

type One = (bool, u8, i64, Option<Vec<u8>>, Option<f64>);
type Two = (Option<i32>, Option<i64>, Vec<u8>, [u8; 3], Option<bool>);

fn write(ones: &[One], twos: &[Two]) -> Vec<u8> {
    let options = WriterOptions { extent_bytes: 300, ..WriterOptions::default() };
    let mut writer = Writer::new(Vec::new(), types(), options).expect("a writer");
    let longest = ones.len().max(twos.len());
    for index in 0..longest {
        if let Some((bit, value, time, name, real)) = ones.get(index) {
            let values = [
                Value::Bool(*bit),
                Value::Byte(*value),
                Value::Int64(*time),
                name.as_deref().map_or(Value::Null, Value::Bytes),
                real.map_or(Value::Null, Value::Double),
            ];
            add(&mut writer, 0, &values);
        }
        if let Some((bit, value, time, name, flag)) = twos.get(index) {
            let values = [
                bit.map_or(Value::Null, Value::Int32),
                value.map_or(Value::Null, Value::Int64),
                Value::Bytes(time),
                Value::Bytes(name),
                flag.map_or(Value::Null, Value::Bool),
                Value::Bytes(b"a column of ours has this name"),
            ];
            add(&mut writer, 1, &values);
        }
    }
    writer.finish().expect("a file")
}

fn add(writer: &mut Writer<Vec<u8>>, number: usize, values: &[Value<'_>]) {
    let number = writer.library().number(types()[number].name()).expect("the type");
    let mut row = writer.row(number).expect("a row");
    for (field, value) in values.iter().enumerate() {
        row.set_value(field, *value).expect("a value");
    }
    row.finish();
}

fn back(paths: &[PathBuf]) -> Vec<u8> {
    import(paths, Vec::new(), &ImportOptions::default())
        .map_err(|(path, error)| format!("{path:?}: {error}"))
        .expect("an import")
        .0
}

fn parquet_files(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, ..ProptestConfig::default() })]

    #[test]
    fn records_survive(
        ones in proptest::collection::vec(any::<One>(), 0..40),
        twos in proptest::collection::vec(any::<Two>(), 0..300),
        group_bytes in 1..4000_usize,
    ) {
        let original = write(&ones, &twos);
        let options = ExportOptions { group_bytes, ..ExportOptions::default() };
        let folder = tempfile::tempdir().expect("a folder");
        let wide = folder.path().join("wide.parquet");
        let (_, records) = export_wide(Cursor::new(&original),
            std::fs::File::create(&wide).expect("a file"), &options).expect("an export");
        prop_assert_eq!(records, (ones.len() + twos.len()) as u64);
        prop_assert_eq!(rows(&back(&[wide])), rows(&original));
        let tables = folder.path().join("tables");
        std::fs::create_dir(&tables).expect("a folder");
        let made = export_types(original.as_slice(), &tables, &options).expect("an export");
        prop_assert_eq!(made.iter().map(|file| file.records).sum::<u64>(), records);
        if records > 0 {
            prop_assert_eq!(rows(&back(&parquet_files(&tables))), rows(&original));
        }
    }
}

#[test]
fn text_becomes_strings_and_types_can_be_chosen() {
    let original = write(
        &[(true, 1, 2, Some(b"path\0".to_vec()), None)],
        &[(None, None, vec![1], [1, 2, 3], None)],
    );
    let folder = tempfile::tempdir().expect("a folder");
    let options = ExportOptions {
        types: vec!["One".to_owned()],
        text_fields: vec!["name".to_owned()],
        ..ExportOptions::default()
    };
    let made = export_types(original.as_slice(), folder.path(), &options).expect("an export");
    assert_eq!(made.len(), 1);
    assert!(made[0].path.ends_with("A.One.parquet"), "{made:?}");
    let text = format!("{:?}", rows(&back(&[made[0].path.clone()])));
    assert!(text.contains(&format!("{:?}", Value::Bytes(b"path"))), "{text}");
    let unknown = ExportOptions { types: vec!["Three".to_owned()], ..ExportOptions::default() };
    let error = export_types(original.as_slice(), folder.path(), &unknown).unwrap_err();
    assert!(matches!(error, Error::DataSeries(DataSeriesError::UnknownType { .. })), "{error}");
}

#[test]
fn damaged_files_are_refused() {
    let original = write(&[(true, 1, 2, Some(b"path\0".to_vec()), None); 1], &[]);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("file.parquet");
    export_wide(
        Cursor::new(&original),
        std::fs::File::create(&path).expect("a file"),
        &ExportOptions::default(),
    )
    .expect("an export");
    let sound = std::fs::read(&path).expect("the file");
    for bytes in [&sound[..sound.len() / 2], &sound[..10], b"", b"PAR1 nothing PAR1"] {
        std::fs::write(&path, bytes).expect("a file");
        assert!(
            import(std::slice::from_ref(&path), Vec::new(), &ImportOptions::default()).is_err()
        );
    }
}
