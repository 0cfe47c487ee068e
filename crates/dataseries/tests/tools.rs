//! The output of the tools.

use std::sync::Arc;

use retake_dataseries::tools::{
    BytesStyle, Expression, Format, InfoOptions, RepackOptions, StatOptions, TxtOptions, info,
    repack, stat, txt,
};
use retake_dataseries::{CompressionSet, Error, ExtentType, Field, Value, Writer, WriterOptions};

/// Six calls of two types.
fn example() -> Vec<u8> {
    let read = ExtentType::builder("Call::read")
        .version(1, 0)
        .field(Field::int64("id"))
        .field(Field::int64("start"))
        .field(Field::int64("end"))
        .field(Field::variable32("data").nullable())
        .field(Field::double("odd-name"));
    let open = ExtentType::builder("Call::open")
        .field(Field::int64("id"))
        .field(Field::variable32("path"))
        .field(Field::bool("ok"));
    let types: Vec<Arc<ExtentType>> =
        vec![read.build().expect("legal"), open.build().expect("legal")];
    let options = WriterOptions { compression: CompressionSet::NONE, ..WriterOptions::default() };
    let mut writer = Writer::new(Vec::new(), types, options).expect("a writer");
    let data: [Option<&[u8]>; 4] = [Some(b"a,\"b\"\n"), None, Some(b""), Some(b"\xff\x00")];
    for (index, data) in data.into_iter().enumerate() {
        let mut row = writer.row(0).expect("a row");
        let whole = |value: usize| Value::Int64(value as i64);
        let values = [
            whole(index),
            whole(100 * index),
            whole(101 * index + 5),
            data.map_or(Value::Null, Value::Bytes),
            Value::Double(index as f64 / 2.0),
        ];
        for (field, value) in values.into_iter().enumerate() {
            row.set_value(field, value).expect("of its type");
        }
        row.finish();
    }
    for (id, path, ok) in [(10, &b"/etc/passwd"[..], true), (11, b"/tmp/x", false)] {
        let mut row = writer.row(1).expect("a row");
        for (field, value) in
            [Value::Int64(id), Value::Bytes(path), Value::Bool(ok)].into_iter().enumerate()
        {
            row.set_value(field, value).expect("of its type");
        }
        row.finish();
    }
    writer.finish().expect("a finished file")
}

fn print(options: &TxtOptions) -> Result<String, Error> {
    let mut out = Vec::new();
    txt(example().as_slice(), &mut out, options)?;
    Ok(String::from_utf8(out).expect("text"))
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

#[test]
fn text_shows_every_type_under_its_header() {
    let expected = "# type Call::read\n# \
    id\tstart\tend\tdata\todd-name\n0\t0\t5\ta,\"b\"\\n\t0.0\n1\t100\t106\tnull\t0.5\n\
                    2\t200\t207\t\t1.0\n3\t300\t308\t\\xff\\0\t1.5\n\
                    # type Call::open\n# id\tpath\tok\n10\t/etc/passwd\ttrue\n11\t/tmp/x\tfalse\n";
    assert_eq!(print(&TxtOptions::default()).expect("printed"), expected);
}

#[test]
fn csv_tells_null_from_empty() {
    let options =
        TxtOptions { types: strings(&["read"]), format: Format::Csv, ..TxtOptions::default() };
    let expected = "id,start,end,data,odd-name\n0,0,5,\"a,\"\"b\"\"\\n\",0.0\n1,100,106,,0.5\n\
                    2,200,207,\"\",1.0\n3,300,308,\\xff\\0,1.5\n";
    assert_eq!(print(&options).expect("printed"), expected);
    let all = TxtOptions { format: Format::Csv, ..TxtOptions::default() };
    assert!(matches!(print(&all), Err(Error::Request(_))));
}

#[test]
fn json_with_columns_and_filters() {
    let options = TxtOptions {
        columns: strings(&["id", "end - start", "odd-name", "path", "@type"]),
        filter: Some("id >= 2 and not path like '*tmp*' or `odd-name` == 0.5".to_owned()),
        format: Format::Json,
        limit: Some(2),
        ..TxtOptions::default()
    };
    // A missing path is null, and so is the negation of its comparison.
    let expected = "{\"id\":1,\"end - start\":6,\"odd-name\":0.5,\"path\":null,\"@type\":\"Call::read\"}\n\
                    {\"id\":10,\"end - start\":null,\"odd-name\":null,\"path\":\"/etc/passwd\",\"@type\":\"Call::open\"}\n";
    assert_eq!(print(&options).expect("printed"), expected);
    let data = TxtOptions {
        columns: strings(&["data"]),
        types: strings(&["Call::r*"]),
        format: Format::Json,
        ..TxtOptions::default()
    };
    let expected = "{\"data\":\"a,\\\"b\\\"\\n\"}\n\
                    {\"data\":null}\n{\"data\":\"\"}\n{\"data\":{\"hex\":\"ff00\"}}\n";
    assert_eq!(print(&data).expect("printed"), expected);
    let hex = TxtOptions { bytes: BytesStyle::Hex, no_header: true, format: Format::Text, ..data };
    assert_eq!(print(&hex).expect("printed"), "612c2262220a\nnull\n\nff00\n");
}

#[test]
fn mistakes_are_named() {
    let with = |filter: &str| {
        print(&TxtOptions { filter: Some(filter.to_owned()), ..TxtOptions::default() })
    };
    let place = |filter: &str| match with(filter) {
        Err(Error::Expression { column, .. }) => column,
        other => panic!("{filter}: {other:?}"),
    };
    assert_eq!(place("id = "), 6);
    assert_eq!(place("id == 1 )"), 9);
    assert_eq!(place("ident == 1"), 1);
    assert_eq!(place("id == 'open"), 7);
    assert_eq!(place("id == 1x"), 7);
    assert_eq!(place("id is 1"), 7);
    assert!(Expression::parse(&"(".repeat(100_000)).is_err());
    assert!(Expression::parse(&"1+".repeat(100_000)).is_err());
    assert!(Expression::parse(&"-".repeat(100_000)).is_err());
    let types = TxtOptions { types: strings(&["nothing"]), ..TxtOptions::default() };
    assert!(matches!(print(&types), Err(Error::UnknownType { .. })));
}

#[test]
fn expressions_follow_their_rules() {
    for (filter, rows) in [
        ("true", 6),
        ("id < 2 || id == 11", 3),
        ("data is null", 3),
        ("data is not null", 3),
        ("data == ''", 1),
        ("not data == ''", 2),
        ("data contains '\\xff'", 1),
        ("id & 1 = 1", 3),
        ("id % 2 == 1 && id * 2 < 10", 2),
        ("-id <= -10", 2),
        ("end - start > 6.5", 2),
        ("path > '/e' and path < '/f'", 1),
        ("!ok", 1),
        ("@type ~ '*open'", 2),
        ("9223372036854775807 + 1 > id", 6),
        ("id == 0xA", 1),
        ("null", 0),
        ("null or id == 1", 1),
        ("1 / 0 > 5", 6),
        ("1 % 0 == 0", 0),
        ("path == 5", 0),
    ] {
        let options = TxtOptions {
            filter: Some(filter.to_owned()),
            columns: strings(&["id"]),
            no_header: true,
            ..TxtOptions::default()
        };
        assert_eq!(print(&options).expect(filter).lines().count(), rows, "{filter}");
    }
}

#[test]
fn statistics_by_group() {
    let mut out = Vec::new();
    let options = StatOptions {
        group_by: strings(&["@type"]),
        values: strings(&["end - start", "path"]),
        quantiles: vec![0.5],
        ..StatOptions::default()
    };
    stat(example().as_slice(), &mut out, &options).expect("summarised");
    let expected = "# @type\tvalue\tcount\tnulls\tsum\tmean\tstddev\tmin\tp50\tmax\n\
        Call::read\tend - start\t4\t0\t26\t6.5\t1.118033988749895\t5.0\t6.0\t8.0\n\
        Call::read\tpath\t0\t4\t0\tnull\tnull\tnull\tnull\tnull\n\
        Call::open\tend - start\t0\t2\t0\tnull\tnull\tnull\tnull\tnull\n\
        Call::open\tpath\t2\t0\t17\t8.5\t2.5\t6.0\t6.0\t11.0\n";
    assert_eq!(String::from_utf8(out).expect("text"), expected);
    let mut out = Vec::new();
    let options = StatOptions {
        group_by: strings(&["id % 2"]),
        format: Format::Json,
        ..StatOptions::default()
    };
    stat(example().as_slice(), &mut out, &options).expect("summarised");
    assert_eq!(out, b"{\"id % 2\":0,\"records\":3}\n{\"id % 2\":1,\"records\":3}\n");
    let options =
        StatOptions { group_by: strings(&["id"]), memory_bytes: 300, ..StatOptions::default() };
    assert!(matches!(
        stat(example().as_slice(), &mut Vec::new(), &options),
        Err(Error::Request(_))
    ));
}

#[test]
fn info_counts_extents_and_records() {
    let mut out = Vec::new();
    let file = example();
    info(file.as_slice(), &mut out, &InfoOptions { verify: true, ..InfoOptions::default() })
        .expect("described");
    let text = String::from_utf8(out).expect("text");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], format!("# Little-endian, {} bytes", file.len()));
    assert_eq!(lines[1], "# all digests are right");
    assert!(lines[3].starts_with("Call::read\t1.0\t5\t1\t4\t"), "{}", lines[3]);
    assert!(lines[3].ends_with("\tnone:2"), "{}", lines[3]);
    assert!(lines[4].starts_with("Call::open\t\t3\t1\t2\t"), "{}", lines[4]);
}

#[test]
fn repack_filters_and_merges() {
    let options = RepackOptions {
        types: strings(&["open"]),
        filter: Some("ok".to_owned()),
        writer: WriterOptions { compression: CompressionSet::ZLIB, ..WriterOptions::default() },
        ..RepackOptions::default()
    };
    let (first, second) = (example(), example());
    let (merged, report) =
        repack(vec![first.as_slice(), second.as_slice()], Vec::new(), &options).expect("repacked");
    assert_eq!((report.records_read, report.records_written), (4, 2));
    let mut out = Vec::new();
    txt(merged.as_slice(), &mut out, &TxtOptions { no_header: true, ..TxtOptions::default() })
        .expect("printed");
    assert_eq!(out, b"10\t/etc/passwd\ttrue\n10\t/etc/passwd\ttrue\n");
}

#[test]
fn types_that_break_a_rule_are_refused() {
    for (xml, reason) in [
        ("<ExtentType name=\"a\"><!-- no --></ExtentType>", "comment"),
        ("<ExtentType name=\"a\" pack_new=\"x\"></ExtentType>", "unknown option"),
        (
            "<ExtentType name=\"a\">\
             <field type=\"int32\" name=\"b\" \
            pack_scale=\"2\"/></ExtentType>",
            "scale",
        ),
        ("<ExtentType name=\"a\"><field type=\"int32\" name=\" b\"/></ExtentType>", "space"),
        (
            "<ExtentType name=\"a\"><field type=\"int32\" name=\"b\" \
            pack_relative=\"c\"/></ExtentType>",
            "earlier",
        ),
        (
            "<ExtentType name=\"a\"><field type=\"double\" name=\"b\" \
            pack_relative=\"b\"/></ExtentType>",
            "pack_scale",
        ),
        (
            "<ExtentType name=\"a\"><field type=\"int32\" name=\"b\"/><field type=\"bool\" \
            name=\"b\"/></ExtentType>",
            "two",
        ),
        (
            "<ExtentType name=\"a\"><field type=\"fixedwidth\" name=\"b\" size=\"0\"/>\
             </ExtentType>",
            "size",
        ),
        ("<ExtentType name=\"a\" version=\"1\"></ExtentType>", "version"),
        (
            "<ExtentType name=\"a\" pack_null_compact=\"non_bool\"><field type=\"int32\" \
            name=\"b\"/></ExtentType>",
            "nullable",
        ),
        ("<ExtentType></ExtentType>", "name"),
        ("<ExtentType name=\"a\">", "XML"),
    ] {
        let error = ExtentType::parse(xml).expect_err(xml).to_string();
        assert!(error.contains(reason), "{xml}: {error}");
    }
}
