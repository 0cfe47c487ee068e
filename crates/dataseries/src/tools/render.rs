//! Values as text, CSV and JSON.
//!
//! The CSV writer is our own: null is an empty column and the empty text is `""`. Libraries for CSV
//! do not make this difference.

use std::io::{self, Write};

use super::Scalar;

/// The format of a tool's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Columns separated by tabs, for people and line tools.
    #[default]
    Text,
    /// RFC 4180 with a header line. Null is an empty column, an empty value is `""`.
    Csv,
    /// One JSON object on each line.
    Json,
}

/// The form of bytes that may not be text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BytesStyle {
    /// As text with `\n \t \r \0 \\ \xNN`; in JSON a string, or an object `{"hex": ".."}` if they
    /// are not UTF-8.
    #[default]
    Escaped,
    /// As hexadecimal digits.
    Hex,
    /// Unchanged. In JSON like [`BytesStyle::Escaped`].
    Raw,
}

/// Writes one value of a line. `index` is its column, from 0.
pub(crate) fn write_value(
    out: &mut impl Write,
    format: Format,
    style: BytesStyle,
    index: usize,
    value: Scalar<'_>,
) -> io::Result<()> {
    match format {
        Format::Text => {
            if index > 0 {
                out.write_all(b"\t")?;
            }
            write_text(out, style, value)
        }
        Format::Csv => {
            if index > 0 {
                out.write_all(b",")?;
            }
            write_csv(out, style, value)
        }
        Format::Json => write_json(out, style, value),
    }
}

fn write_text(out: &mut impl Write, style: BytesStyle, value: Scalar<'_>) -> io::Result<()> {
    match value {
        Scalar::Null => out.write_all(b"null"),
        Scalar::Bytes(bytes) => match style {
            BytesStyle::Escaped => write_escaped(out, bytes),
            BytesStyle::Hex => write_hex(out, bytes),
            BytesStyle::Raw => out.write_all(bytes),
        },
        number => write_number(out, number),
    }
}

/// Writes a number or bit. Infinities and NaN are written by name.
fn write_number(out: &mut impl Write, value: Scalar<'_>) -> io::Result<()> {
    match value {
        Scalar::Bool(value) => write!(out, "{value}"),
        Scalar::Int(value) => write!(out, "{value}"),
        Scalar::Double(value) if value.is_finite() => write!(out, "{value:?}"),
        Scalar::Double(value) if value.is_nan() => out.write_all(b"NaN"),
        Scalar::Double(value) => {
            out.write_all(if value > 0.0 { b"Infinity" } else { b"-Infinity" })
        }
        Scalar::Null | Scalar::Bytes(_) => unreachable!("callers deal with these themselves"),
    }
}

fn write_csv(out: &mut impl Write, style: BytesStyle, value: Scalar<'_>) -> io::Result<()> {
    let Scalar::Bytes(_) = value else {
        return match value {
            Scalar::Null => Ok(()),
            number => write_number(out, number),
        };
    };
    let mut text = Vec::new();
    write_text(&mut text, style, value)?;
    let plain =
        !text.is_empty() && !text.iter().any(|byte| matches!(byte, b'"' | b',' | b'\n' | b'\r'));
    if plain {
        return out.write_all(&text);
    }
    out.write_all(b"\"")?;
    for (index, part) in text.split(|&byte| byte == b'"').enumerate() {
        if index > 0 {
            out.write_all(b"\"\"")?;
        }
        out.write_all(part)?;
    }
    out.write_all(b"\"")
}

fn write_json(out: &mut impl Write, style: BytesStyle, value: Scalar<'_>) -> io::Result<()> {
    match value {
        Scalar::Null => out.write_all(b"null"),
        Scalar::Double(number) if !number.is_finite() => {
            out.write_all(b"\"")?;
            write_number(out, value)?;
            out.write_all(b"\"")
        }
        Scalar::Bytes(bytes) if style == BytesStyle::Hex => {
            out.write_all(b"\"")?;
            write_hex(out, bytes)?;
            out.write_all(b"\"")
        }
        Scalar::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => write_json_string(out, text),
            Err(_) => {
                out.write_all(b"{\"hex\":\"")?;
                write_hex(out, bytes)?;
                out.write_all(b"\"}")
            }
        },
        number => write_number(out, number),
    }
}

/// Writes a JSON string.
fn write_json_string(out: &mut impl Write, text: &str) -> io::Result<()> {
    serde_json::to_writer(out, text).map_err(io::Error::from)
}

/// Writes text, and escapes everything that could break a line or a terminal. Other UTF-8 text
/// stays readable.
fn write_escaped(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\n' => out.write_all(b"\\n")?,
                '\t' => out.write_all(b"\\t")?,
                '\r' => out.write_all(b"\\r")?,
                '\0' => out.write_all(b"\\0")?,
                '\\' => out.write_all(b"\\\\")?,
                other if other.is_control() => {
                    for byte in other.encode_utf8(&mut [0; 4]).bytes() {
                        write!(out, "\\x{byte:02x}")?;
                    }
                }
                other => write!(out, "{other}")?,
            }
        }
        for byte in chunk.invalid() {
            write!(out, "\\x{byte:02x}")?;
        }
    }
    Ok(())
}

fn write_hex(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    for byte in bytes {
        write!(out, "{byte:02x}")?;
    }
    Ok(())
}

/// Writes a header line of column names, for the formats that have one.
pub(crate) fn write_names(out: &mut impl Write, format: Format, names: &[&str]) -> io::Result<()> {
    for (index, name) in names.iter().enumerate() {
        match format {
            Format::Text if index == 0 => write!(out, "# {name}")?,
            _ => write_value(
                out,
                format,
                BytesStyle::Escaped,
                index,
                Scalar::Bytes(name.as_bytes()),
            )?,
        }
    }
    out.write_all(b"\n")
}

/// Writes one line of values with their names.
pub(crate) fn write_line<'a>(
    out: &mut impl Write,
    format: Format,
    style: BytesStyle,
    columns: impl Iterator<Item = (&'a str, Scalar<'a>)>,
) -> io::Result<()> {
    for (index, (name, value)) in columns.enumerate() {
        if format == Format::Json {
            out.write_all(if index == 0 { b"{" } else { b"," })?;
            write_json_string(out, name)?;
            out.write_all(b":")?;
        }
        write_value(out, format, style, index, value)?;
    }
    out.write_all(if format == Format::Json { b"}\n" } else { b"\n" })
}
