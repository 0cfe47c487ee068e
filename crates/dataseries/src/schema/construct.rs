//! Construction of types from a description in Rust.

use std::fmt::Write;
use std::sync::Arc;

use super::{ExtentType, Field, FieldOrdering, FieldType, PadRecord};
use crate::Result;

/// Describes a type field by field. [`ExtentType::builder`] makes one.
///
/// [`ExtentTypeBuilder::build`] makes the XML text and parses it, so that the type in use agrees
/// with the text in the file.
#[derive(Debug, Clone)]
pub struct ExtentTypeBuilder {
    name: String,
    namespace: Option<String>,
    version: Option<(u32, u32)>,
    null_compact: bool,
    ordering: FieldOrdering,
    pad: PadRecord,
    fields: Vec<Field>,
}

impl ExtentTypeBuilder {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            namespace: None,
            version: None,
            null_compact: false,
            ordering: FieldOrdering::default(),
            pad: PadRecord::default(),
            fields: Vec::new(),
        }
    }

    /// Sets the domain name of the type's author.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Sets the version.
    pub fn version(mut self, major: u32, minor: u32) -> Self {
        self.version = Some((major, minor));
        self
    }

    /// Leaves null values out when records are stored.
    pub fn null_compact(mut self) -> Self {
        self.null_compact = true;
        self
    }

    /// Sets the order of columns.
    pub fn ordering(mut self, ordering: FieldOrdering) -> Self {
        self.ordering = ordering;
        self
    }

    /// Sets the padding of records.
    pub fn pad(mut self, pad: PadRecord) -> Self {
        self.pad = pad;
        self
    }

    /// Adds a field after the present ones.
    pub fn field(mut self, field: Field) -> Self {
        self.fields.push(field);
        self
    }

    /// Adds several fields.
    pub fn fields(mut self, fields: impl IntoIterator<Item = Field>) -> Self {
        self.fields.extend(fields);
        self
    }

    /// Builds the type.
    ///
    /// # Errors
    /// [`crate::Error::Schema`] if the description breaks a rule of the format.
    pub fn build(self) -> Result<Arc<ExtentType>> {
        ExtentType::parse(&self.xml())
    }

    /// The XML text.
    fn xml(&self) -> String {
        let mut xml = format!("<ExtentType name=\"{}\"", escape(&self.name));
        if let Some(namespace) = &self.namespace {
            attribute(&mut xml, "namespace", namespace);
        }
        if let Some((major, minor)) = self.version {
            attribute(&mut xml, "version", &format!("{major}.{minor}"));
        }
        if self.null_compact {
            attribute(&mut xml, "pack_null_compact", "non_bool");
        }
        if self.pad == PadRecord::MaxColumnSize {
            attribute(&mut xml, "pack_pad_record", "max_column_size");
        }
        if self.ordering == FieldOrdering::BigToSmall {
            attribute(&mut xml, "pack_field_ordering", "big_to_small_sep_var32");
        }
        xml.push_str(">\n");
        for field in &self.fields {
            push_field(&mut xml, field);
        }
        xml.push_str("</ExtentType>\n");
        xml
    }
}

/// One field as XML, on a line of its own.
fn push_field(xml: &mut String, field: &Field) {
    xml.push_str("  <field");
    attribute(xml, "type", field.field_type.name());
    attribute(xml, "name", &field.name);
    if let FieldType::FixedWidth(size) = field.field_type {
        attribute(xml, "size", &size.to_string());
    }
    for (key, wanted) in [("opt_nullable", field.nullable), ("pack_unique", field.unique)] {
        if wanted {
            attribute(xml, key, "yes");
        }
    }
    if let Some(base) = &field.relative {
        attribute(xml, "pack_relative", base);
    }
    // The debug format is the shortest text that parses to the same number.
    if let Some(scale) = field.scale {
        attribute(xml, "pack_scale", &format!("{scale:?}"));
    }
    if let Some(base) = field.double_base {
        attribute(xml, "opt_doublebase", &format!("{base:?}"));
    }
    xml.push_str(" />\n");
}

fn attribute(xml: &mut String, key: &str, value: &str) {
    write!(xml, " {key}=\"{}\"", escape(value)).expect("writing to a string cannot fail");
}

/// Escapes a value for double quotes. White space that XML would change becomes a reference.
fn escape(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for character in value.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\t' | '\n' | '\r' => {
                write!(escaped, "&#{};", u32::from(character))
                    .expect("writing to a string cannot fail");
            }
            other => escaped.push(other),
        }
    }
    escaped
}
