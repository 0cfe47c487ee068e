//! Arbitrary types and rows are written and read back: by the crate in two ways, and by the slow
//! reader.

mod slow;

use std::io::Cursor;
use std::sync::Arc;

use proptest::prelude::*;
use retake_dataseries::{
    ByteOrder, Compression, CompressionSet, ExtentBuffers, ExtentBuilder, ExtentType, Field,
    FieldOrdering, FieldType, PadRecord, ReadOptions, Reader, Row, StreamReader, Value, Writer,
    WriterOptions,
};
use slow::Slow;

/// The plan of a field: its kind, and which options are used if they are allowed.
#[derive(Debug, Clone)]
struct FieldPlan {
    kind: u8,
    nullable: bool,
    option: bool,
    base: usize,
}

fn field_plan() -> impl Strategy<Value = FieldPlan> {
    (0..8_u8, any::<bool>(), any::<bool>(), 0..20_usize)
        .prop_map(|(kind, nullable, option, base)| FieldPlan { kind, nullable, option, base })
}

/// Makes a valid type from any plan.
fn make_type(
    name: &str,
    plans: &[FieldPlan],
    compact: bool,
    big_first: bool,
    max_pad: bool,
) -> Arc<ExtentType> {
    let mut fields: Vec<Field> = Vec::new();
    for (index, plan) in plans.iter().enumerate() {
        let name = format!("f{index}{}", ["", "-x", "&\"<é>"][index % 3]);
        let mut field = match plan.kind {
            0 => Field::bool(&name),
            1 => Field::byte(&name),
            2 => Field::int32(&name),
            3 => Field::int64(&name),
            4 => Field::double(&name),
            5 | 6 => Field::variable32(&name),
            _ => Field::fixed_width(&name, 1 + plan.base as u32),
        };
        if plan.nullable {
            field = field.nullable();
        }
        if plan.option {
            field = with_option(field, plan.base, &fields);
        }
        fields.push(field);
    }
    let any_bit = fields.iter().any(|field| field.nullable || field.field_type == FieldType::Bool);
    let mut builder =
        ExtentType::builder(name).namespace("example.org").version(1, 2).fields(fields);
    if big_first {
        builder = builder.ordering(FieldOrdering::BigToSmall);
    } else if compact && any_bit {
        builder = builder.null_compact();
    }
    if max_pad {
        builder = builder.pad(PadRecord::MaxColumnSize);
    }
    builder.build().expect("a legal type")
}

/// Adds the option of the field's type. Doubles are only relative to other fields, because
/// differences to themselves are rounded.
fn with_option(field: Field, base: usize, earlier: &[Field]) -> Field {
    let same: Vec<&Field> =
        earlier.iter().filter(|other| other.field_type == field.field_type).collect();
    let name = field.name.clone();
    match field.field_type {
        FieldType::Int32 | FieldType::Int64 if base & 1 == 0 || same.is_empty() => {
            field.relative_to(&name)
        }
        FieldType::Int32 | FieldType::Int64 => {
            field.relative_to(&same[base % same.len()].name.clone())
        }
        FieldType::Variable32 => field.unique(),
        _ => field,
    }
}

/// Makes a value for a field from random numbers. `None` for null.
fn make_value(field: &Field, number: i64, bytes: &[u8]) -> Slow {
    if field.nullable && number % 3 == 0 {
        return Slow::Null;
    }
    match field.field_type {
        FieldType::Bool => Slow::Bool(number & 1 == 1),
        FieldType::Byte => Slow::Byte(number as u8),
        FieldType::Int32 => Slow::Int32(number as i32),
        FieldType::Int64 => Slow::Int64(number),
        FieldType::Double => Slow::Double((number as f64 / 7.0).to_bits()),
        FieldType::Variable32 => Slow::Bytes(bytes.to_vec()),
        FieldType::FixedWidth(size) => {
            Slow::Bytes(bytes.iter().copied().cycle().chain([0; 64]).take(size as usize).collect())
        }
    }
}

fn as_value(value: &Slow) -> Value<'_> {
    match value {
        Slow::Null => Value::Null,
        Slow::Bool(value) => Value::Bool(*value),
        Slow::Byte(value) => Value::Byte(*value),
        Slow::Int32(value) => Value::Int32(*value),
        Slow::Int64(value) => Value::Int64(*value),
        Slow::Double(bits) => Value::Double(f64::from_bits(*bits)),
        Slow::Bytes(bytes) => Value::Bytes(bytes),
    }
}

/// Appends a row.
fn put(writer: &mut Writer<Vec<u8>>, number: usize, values: &[Slow]) {
    let mut row = writer.row(number).expect("a row");
    for (field, value) in values.iter().enumerate() {
        row.set_value(field, as_value(value)).expect("a value of its type");
    }
    row.finish();
}

fn compression(choice: u8) -> CompressionSet {
    let add = |set: CompressionSet, mode| set.with(mode).expect("writable");
    match choice {
        0 => CompressionSet::NONE,
        1 => CompressionSet::LZ4,
        2 => CompressionSet::ZLIB,
        3 => add(add(CompressionSet::ZLIB, Compression::Snappy), Compression::Lz4),
        _ => add(CompressionSet::NONE, Compression::Bzip2),
    }
}

/// Returns the rows of each type. All three readers must agree.
fn read_all(file: &[u8], types: &[Arc<ExtentType>]) -> Vec<Vec<Vec<Slow>>> {
    let mut rows = vec![Vec::new(); types.len()];
    for extent in slow::read(file) {
        let number =
            types.iter().position(|own| own.name() == extent.type_name).expect("a known type");
        rows[number].extend(extent.rows);
    }
    let mut streamed = vec![Vec::new(); types.len()];
    let mut reader = StreamReader::open(file, ReadOptions::default()).expect("a sound file");
    while let Some(extent) = reader.next_extent().expect("a sound extent") {
        let number = reader.library().number(extent.extent_type().name()).expect("a known type");
        streamed[number]
            .extend(extent.rows().map(|row| row.values().map(Slow::from).collect::<Vec<_>>()));
    }
    assert!(reader.warnings().is_empty(), "{:?}", reader.warnings());
    assert_eq!(streamed, rows, "stream and slow reader");
    let options = ReadOptions { known_types: types.to_vec(), ..ReadOptions::default() };
    let mut reader = Reader::open(Cursor::new(file), options).expect("an indexed file");
    let mut indexed = vec![Vec::new(); types.len()];
    // All extents share memory. No data of an extent may appear in the next one.
    let mut buffers = ExtentBuffers::default();
    for entry in reader.entries().to_vec() {
        let mut extent = reader.read_into(&entry, buffers).expect("a sound extent");
        let number = reader.library().number(entry.extent_type.name()).expect("a known type");
        assert!(Arc::ptr_eq(extent.extent_type(), &types[number]), "the type was known");
        indexed[number]
            .extend(extent.rows().map(|row| row.values().map(Slow::from).collect::<Vec<_>>()));
        extent.rows().for_each(|row| check_numbers(&row));
        buffers = extent.take_buffers();
    }
    assert_eq!(indexed, rows, "index and slow reader");
    rows
}

/// Checks that both ways to read a number give the same result.
fn check_numbers(row: &Row<'_>) {
    for (number, field) in row.extent_type().fields().iter().enumerate() {
        let place = row.extent_type().number_place(number);
        let is_number = matches!(
            field.field_type,
            FieldType::Bool | FieldType::Byte | FieldType::Int32 | FieldType::Int64
        );
        assert_eq!(
            (place.is_some(), place.and_then(|place| row.number(&place))),
            (is_number, row.value(number).as_i64())
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None,
        ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read(
        plans in prop::collection::vec(prop::collection::vec(field_plan(), 1..12), 1..4),
        (compact, big_first, max_pad, big_endian) in any::<(bool, bool, bool, bool)>(),
        compression_choice in 0..5_u8,
        extent_bytes in 1..3000_usize,
        memory_bytes in 500..5000_usize,
        numbers in prop::collection::vec((any::<i64>(), prop::collection::vec(any::<u8>(), 0..40)),
            0..120),
    ) {
        let types: Vec<_> = plans
            .iter()
            .enumerate()
            .map(|(index, plans)| make_type(&format!("Type::{index}"), plans, compact, big_first,
                max_pad))
            .collect();
        let order = if big_endian { ByteOrder::Big } else { ByteOrder::Little };
        let compression = compression(compression_choice);
        let options = WriterOptions { order, compression, level: 6, extent_bytes, memory_bytes };
        let mut writer = Writer::new(Vec::new(), types.clone(), options).expect("a writer");
        let mut expected = vec![Vec::new(); types.len()];
        for (index, (number, bytes)) in numbers.iter().enumerate() {
            let chosen = index % types.len();
            let fields = types[chosen].fields().iter().enumerate();
            // Small differences and repetitions, as in real records.
            let row: Vec<Slow> = fields
                .map(|(field_index, field)| {
                    make_value(field, number.rotate_left(field_index as u32),
                        &bytes[..bytes.len() >> (field_index % 3)])
                })
                .collect();
            put(&mut writer, chosen, &row);
            expected[chosen].push(row);
            // A row that is begun and dropped leaves no trace.
            let mut dropped = writer.row(chosen).expect("a row");
            for (field, value) in expected[chosen][0].iter().enumerate() {
                dropped.set_value(field, as_value(value)).expect("a value of its type");
            }
            drop(dropped);
        }
        let file = writer.finish().expect("a finished file");
        prop_assert_eq!(read_all(&file, &types), expected);
    }
}

#[test]
fn scaled_and_relative_doubles_come_back_rounded() {
    let extent_type = ExtentType::builder("Doubles")
        .field(Field::double("time").scaled_by(1e-6).relative_to("time"))
        .field(Field::double("later").relative_to("time"))
        .field(Field::double("scaled").scaled_by(0.5).nullable())
        .build()
        .expect("a legal type");
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let options = WriterOptions { order, ..WriterOptions::default() };
        let mut writer =
            Writer::new(Vec::new(), vec![Arc::clone(&extent_type)], options).expect("a writer");
        let given: Vec<f64> =
            (0..1000).map(|index| 1e6 + f64::from(index * index) * 0.0123).collect();
        for &time in &given {
            let bits = |value: f64| Slow::Double(value.to_bits());
            put(&mut writer, 0, &[bits(time), bits(time + 0.25), bits(time)]);
        }
        let file = writer.finish().expect("a finished file");
        for (row, time) in read_all(&file, std::slice::from_ref(&extent_type))[0].iter().zip(given)
        {
            let double = |value: &Slow| {
                if let Slow::Double(bits) = value { f64::from_bits(*bits) } else { f64::NAN }
            };
            assert!((double(&row[0]) - time).abs() < 2e-6);
            assert!((double(&row[1]) - time - 0.25).abs() < 2e-6);
            assert!((double(&row[2]) - time).abs() <= 0.25);
        }
    }
}

#[test]
fn many_strings_cross_the_batches_of_the_digest() {
    let extent_type =
        ExtentType::builder("Strings").field(Field::variable32("s")).build().expect("a legal type");
    for count in [1023_usize, 1024, 1025, 2048, 5000] {
        let options = WriterOptions { extent_bytes: 64 << 20, ..WriterOptions::default() };
        let mut writer =
            Writer::new(Vec::new(), vec![Arc::clone(&extent_type)], options).expect("a writer");
        let rows: Vec<Vec<Slow>> =
            (0..count).map(|index| vec![Slow::Bytes(vec![b'x'; 1 + index % 50])]).collect();
        rows.iter().for_each(|row| put(&mut writer, 0, row));
        let file = writer.finish().expect("a finished file");
        assert!(read_all(&file, std::slice::from_ref(&extent_type))[0] == rows, "{count}");
    }
}

#[test]
fn extents_packed_elsewhere_are_appended() {
    let extent_type =
        ExtentType::builder("Numbers").field(Field::int64("n")).build().expect("a legal type");
    let mut writer =
        Writer::new(Vec::new(), vec![Arc::clone(&extent_type)], WriterOptions::default())
            .expect("a writer");
    let packed: Vec<_> = (0..4_i64)
        .map(|thread| {
            let extent_type = Arc::clone(&extent_type);
            std::thread::spawn(move || {
                let field = extent_type.bind::<i64>("n").expect("the field");
                let mut builder = ExtentBuilder::new(extent_type, ByteOrder::Little);
                for number in 0..1000 {
                    let mut row = builder.row().expect("a row");
                    row.set(&field, thread * 1000 + number).expect("a number");
                    row.finish();
                }
                builder.pack(CompressionSet::LZ4, 1).expect("an extent")
            })
        })
        .map(|thread| thread.join().expect("no panic"))
        .collect();
    packed.iter().for_each(|packed| writer.append(packed).expect("appended"));
    let file = writer.finish().expect("a finished file");
    let expected: Vec<Vec<Slow>> = (0..4000).map(|number| vec![Slow::Int64(number)]).collect();
    assert!(read_all(&file, &[extent_type])[0] == expected);
}
