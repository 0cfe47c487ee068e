//! Parsing of a type's XML text. All rules of the format are checked.

use std::sync::Arc;

use roxmltree::{Document, Node, ParsingOptions};

use super::{ExtentType, Field, FieldOrdering, FieldType, Layout, NAME_BYTES_MAX, PadRecord};
use crate::{Error, Result};

/// The longest accepted XML text, in bytes. The largest known types have 3 % of this and of the
/// next limit.
const XML_BYTES_MAX: usize = 1 << 20;
/// The most fields of a type.
const FIELDS_MAX: usize = 8192;
/// The largest record accepted.
const RECORD_BYTES_MAX: u64 = 1 << 20;

impl ExtentType {
    /// Parses the XML description of a type. The text is kept unchanged.
    ///
    /// # Errors
    /// [`Error::Schema`] if the text is no such description, or uses an unknown packing option,
    /// with which records could not be laid out.
    pub fn parse(xml: &str) -> Result<Arc<Self>> {
        let fail = |name: &str, what: String| Err(Error::schema(name, what));
        if xml.len() > XML_BYTES_MAX {
            return fail("", format!("the description is longer than {XML_BYTES_MAX} bytes"));
        }
        let options = ParsingOptions {
            allow_dtd: false,
            nodes_limit: 4 * FIELDS_MAX as u32,
            ..Default::default()
        };
        let document = match Document::parse_with_options(xml, options) {
            Ok(document) => document,
            Err(error) => return fail("", format!("bad XML: {error}")),
        };
        let root = document.root_element();
        let name = root.attribute("name").unwrap_or_default();
        if !root.has_tag_name("ExtentType") {
            return fail(
                name,
                format!("the element is {}, not ExtentType", root.tag_name().name()),
            );
        }
        Self::from_element(root, xml).or_else(|what| fail(name, what))
    }

    /// Makes the type that `root` describes. `xml` is its text.
    fn from_element(root: Node<'_, '_>, xml: &str) -> std::result::Result<Arc<Self>, String> {
        let name = checked_name(root)?;
        check_attributes(root, &["pack_null_compact", "pack_pad_record", "pack_field_ordering"])?;
        let null_compact = choice(root, "pack_null_compact", &[("no", false), ("non_bool", true)])?;
        let pads =
            [("original", PadRecord::Original), ("max_column_size", PadRecord::MaxColumnSize)];
        let pad = choice(root, "pack_pad_record", &pads)?;
        let orderings = [
            ("small_to_big_sep_var32", FieldOrdering::SmallToBig),
            ("big_to_small_sep_var32", FieldOrdering::BigToSmall),
        ];
        let ordering = choice(root, "pack_field_ordering", &orderings)?;
        let version = root
            .attribute("version")
            .filter(|text| !text.is_empty())
            .map(parse_version)
            .transpose()?;
        let fields = parse_fields(root)?;
        let layout = Layout::new(&fields, ordering, pad);
        if null_compact && layout.bool_bytes == 0 {
            return Err("pack_null_compact needs a bool or nullable field".to_owned());
        }
        Ok(Arc::new(Self {
            name,
            namespace: root.attribute("namespace").map(str::to_owned),
            version,
            fields,
            null_compact,
            ordering,
            pad,
            xml: xml.to_owned(),
            layout,
        }))
    }
}

/// Parses the fields of a type, and checks them one by one and together.
fn parse_fields(root: Node<'_, '_>) -> std::result::Result<Vec<Field>, String> {
    let mut fields: Vec<Field> = Vec::new();
    let mut kinds = std::collections::HashMap::new();
    let mut record_bytes = 16_u64;
    for node in root.children() {
        if node.is_text() && node.text().unwrap_or_default().trim().is_empty() {
            continue;
        }
        if !node.has_tag_name("field") {
            return Err(
                "an element that is not a field; nothing else is allowed, comments neither"
                    .to_owned(),
            );
        }
        let field = parse_field(node)?;
        if let Some(base) = field.relative.as_ref().filter(|&base| *base != field.name) {
            let of_same_type = kinds.get(base) == Some(&field.field_type);
            if !of_same_type {
                return Err(format!(
                    "field {:?} is relative to {base:?}, not an earlier field of its type",
                    field.name
                ));
            }
        }
        record_bytes += match field.field_type {
            FieldType::FixedWidth(size) => u64::from(size) + 1,
            _ => 9,
        };
        if fields.len() == FIELDS_MAX || record_bytes > RECORD_BYTES_MAX {
            return Err(format!(
                "more than {FIELDS_MAX} fields or {RECORD_BYTES_MAX} bytes in a record"
            ));
        }
        if kinds.insert(field.name.clone(), field.field_type).is_some() {
            return Err(format!("two fields named {:?}", field.name));
        }
        fields.push(field);
    }
    Ok(fields)
}

/// Parses a single field.
fn parse_field(node: Node<'_, '_>) -> std::result::Result<Field, String> {
    let name = checked_name(node)?;
    if name.starts_with(' ') {
        return Err(format!("field name {name:?} starts with a space"));
    }
    check_attributes(
        node,
        &[
            "pack_scale",
            "pack_scale_warn",
            "pack_relative",
            "pack_unique",
            "opt_doublebase",
            "opt_nullable",
        ],
    )?;
    let field_type = parse_field_type(node)?;
    let bad = |what: &str| Err(format!("field {name:?}: {what}"));
    let attribute = |key: &str| node.attribute(key).filter(|text| !text.is_empty());
    let number = |key: &str| match attribute(key).map(|text| text.trim().parse::<f64>()) {
        None => Ok(None),
        Some(Ok(value)) if value.is_finite() => Ok(Some(value)),
        Some(_) => Err(format!("field {name:?}: {key} is not a number")),
    };
    let field = Field {
        field_type,
        nullable: choice(node, "opt_nullable", &[("no", false), ("yes", true)])?,
        unique: choice(node, "pack_unique", &[("no", false), ("yes", true)])?,
        relative: attribute("pack_relative").map(str::to_owned),
        scale: number("pack_scale")?,
        double_base: number("opt_doublebase")?,
        name: name.clone(),
    };
    let is_double = field_type == FieldType::Double;
    let numeric = matches!(field_type, FieldType::Int32 | FieldType::Int64 | FieldType::Double);
    if attribute("pack_unique").is_some() && field_type != FieldType::Variable32 {
        return bad("pack_unique is for variable32");
    }
    if field.scale.is_some_and(|scale| !is_double || scale == 0.0) {
        return bad("pack_scale is for double, and not zero");
    }
    if field.double_base.is_some() && !is_double {
        return bad("opt_doublebase is for double");
    }
    if field.relative.is_some() && !numeric {
        return bad("pack_relative is for int32, int64 and double");
    }
    if is_double && field.relative.as_ref() == Some(&field.name) && field.scale.is_none() {
        return bad("a double relative to itself needs pack_scale, or errors add up");
    }
    Ok(field)
}

fn parse_field_type(node: Node<'_, '_>) -> std::result::Result<FieldType, String> {
    Ok(match node.attribute("type").unwrap_or_default() {
        "bool" => FieldType::Bool,
        "byte" => FieldType::Byte,
        "int32" => FieldType::Int32,
        "int64" => FieldType::Int64,
        "double" => FieldType::Double,
        "variable32" => FieldType::Variable32,
        "fixedwidth" => {
            let size = node.attribute("size").and_then(|text| text.parse::<u32>().ok());
            let size = size.filter(|&size| size > 0 && u64::from(size) < RECORD_BYTES_MAX);
            FieldType::FixedWidth(size.ok_or("a fixedwidth field needs a size of 1 or more bytes")?)
        }
        other => return Err(format!("unknown field type {other:?}")),
    })
}

/// Returns the `name` attribute, if headers can hold its length.
fn checked_name(node: Node<'_, '_>) -> std::result::Result<String, String> {
    match node.attribute("name") {
        Some(name) if (1..=NAME_BYTES_MAX).contains(&name.len()) => Ok(name.to_owned()),
        _ => Err(format!("{} needs a name of 1 to {NAME_BYTES_MAX} bytes", node.tag_name().name())),
    }
}

/// Refuses unknown options that would change the layout. Other attributes are for human readers.
fn check_attributes(node: Node<'_, '_>, known: &[&str]) -> std::result::Result<(), String> {
    for attribute in node.attributes() {
        let name = attribute.name();
        if (name.starts_with("pack_") || name.starts_with("opt_")) && !known.contains(&name) {
            return Err(format!("unknown option {name}"));
        }
    }
    Ok(())
}

/// Returns the value of an option that takes one of these words. The first one is the default.
fn choice<T: Copy>(
    node: Node<'_, '_>,
    key: &str,
    words: &[(&str, T)],
) -> std::result::Result<T, String> {
    let Some(text) = node.attribute(key).filter(|text| !text.is_empty()) else {
        return Ok(words[0].1);
    };
    match words.iter().find(|(word, _)| *word == text) {
        Some((_, value)) => Ok(*value),
        None => Err(format!("{key} cannot be {text:?}")),
    }
}

fn parse_version(text: &str) -> std::result::Result<(u32, u32), String> {
    let parts = text.split_once('.').map(|(major, minor)| (major.parse(), minor.parse()));
    match parts {
        Some((Ok(major), Ok(minor))) => Ok((major, minor)),
        _ => Err(format!("version {text:?} is not MAJOR.MINOR")),
    }
}
