//! Types of extents, parsed from their descriptions: fields and their places in a record.

/// A field and its place in a record.
#[derive(Debug, Clone)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) size: usize,
    pub(super) nullable: bool,
    pub(super) relative: String,
    pub(super) scale: f64,
    pub(super) offset: usize,
    pub(super) bit: usize,
    pub(super) null_at: (usize, usize),
}

/// The fields of a type.
#[derive(Debug, Default)]
pub(super) struct Layout {
    pub(super) columns: Vec<Column>,
    pub(super) record: usize,
    pub(super) compact: bool,
    pub(super) bool_end: usize,
}

/// Returns the value of an attribute in the text of one element.
pub(super) fn attribute(element: &str, key: &str) -> String {
    let Some(start) =
        element.find(&format!(" {key}=\"")).or_else(|| element.find(&format!("\n{key}=\"")))
    else {
        return String::new();
    };
    let value = &element[start + key.len() + 3..];
    let raw = &value[..value.find('"').expect("attribute ends")];
    raw.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#10;", "\n")
        .replace("&amp;", "&")
}

pub(super) fn parse_type(xml: &str) -> (String, Layout) {
    let mut elements =
        xml.split('<').filter(|part| part.starts_with("ExtentType") || part.starts_with("field"));
    let root = elements.next().expect("a root");
    let mut columns: Vec<Column> = elements
        .map(|element| Column {
            name: attribute(element, "name"),
            kind: attribute(element, "type"),
            size: attribute(element, "size").parse().unwrap_or(0),
            nullable: attribute(element, "opt_nullable") == "yes",
            relative: attribute(element, "pack_relative"),
            scale: attribute(element, "pack_scale").parse().unwrap_or(0.0),
            offset: 0,
            bit: 0,
            null_at: (0, 0),
        })
        .collect();
    let original = attribute(root, "pack_pad_record") != "max_column_size";
    let big_first = attribute(root, "pack_field_ordering") == "big_to_small_sep_var32";
    let has = |columns: &[Column], kinds: &[&str]| {
        columns.iter().any(|c| kinds.contains(&c.kind.as_str()))
    };
    let four = has(&columns, &["int32", "variable32"]);
    let eight = has(&columns, &["int64", "double"]);
    let (record, bool_end) = place(&mut columns, big_first, original, four, eight);
    let compact = attribute(root, "pack_null_compact") == "non_bool";
    (attribute(root, "name"), Layout { columns, record, compact, bool_end })
}

/// Assigns a place to each column. Returns the size of a record, and the end of its bits.
fn place(
    columns: &mut [Column],
    big_first: bool,
    original: bool,
    four: bool,
    eight: bool,
) -> (usize, usize) {
    let mut at = 0;
    let mut bool_end = 0;
    let steps: &[&str] = match big_first {
        false => &["bits", "bytes", "pad4", "int32", "variable32", "pad8", "eight"],
        true => &["eight", "int32", "variable32", "bytes", "bits", "padend"],
    };
    for step in steps {
        match *step {
            "bits" => {
                let mut bit = 0;
                for column in columns.iter_mut() {
                    if column.kind == "bool" {
                        (column.offset, column.bit) = (at + bit / 8, bit % 8);
                        bit += 1;
                    }
                    if column.nullable {
                        column.null_at = (at + bit / 8, bit % 8);
                        bit += 1;
                    }
                }
                at += bit.div_ceil(8);
                if bit > 0 {
                    bool_end = at;
                }
            }
            "pad4" if original || four => at = at.div_ceil(4) * 4,
            "pad8" if original || eight => at = at.div_ceil(8) * 8,
            "padend" if original || eight => at = at.div_ceil(8) * 8,
            "padend" if four => at = at.div_ceil(4) * 4,
            group => {
                for column in columns.iter_mut() {
                    let size = match (group, column.kind.as_str()) {
                        ("bytes", "byte") => 1,
                        ("bytes", "fixedwidth") => column.size,
                        ("int32", "int32") | ("variable32", "variable32") => 4,
                        ("eight", "int64" | "double") => 8,
                        _ => continue,
                    };
                    column.offset = at;
                    at += size;
                }
            }
        }
    }
    (at, bool_end)
}
