//! Describes a file: its types, extents, sizes and compression.

use std::io::{Read, Write};

use super::render::{BytesStyle, write_line, write_names};
use super::{Format, Scalar};
use crate::{Compression, ExtentHeader, ReadOptions, Result, StreamReader};

/// Options of a description.
#[derive(Debug, Clone, Default)]
pub struct InfoOptions {
    /// Whether every extent is unpacked, which checks all digests.
    pub verify: bool,
    /// Whether the XML text of each type is printed (text format only).
    pub xml: bool,
    /// Whether types without extents are listed.
    pub unused: bool,
    /// Format of the table of types.
    pub format: Format,
    /// How the file is read.
    pub read: ReadOptions,
}

/// Totals of the extents of one type.
#[derive(Debug, Clone, Default)]
struct TypeSums {
    extents: u64,
    records: u64,
    packed_bytes: u64,
    unpacked_bytes: u64,
    largest_bytes: u64,
    /// The number of parts stored in each mode. The last element counts unknown modes.
    modes: [u64; 9],
}

impl TypeSums {
    fn add(&mut self, header: &ExtentHeader, record_bytes: usize) {
        let fixed_bytes = u64::from(header.record_count) * record_bytes as u64;
        let unpacked_bytes = fixed_bytes + u64::from(header.pool_bytes) - 4;
        self.extents += 1;
        self.records += u64::from(header.record_count);
        self.packed_bytes += header.packed_bytes();
        self.unpacked_bytes += unpacked_bytes;
        self.largest_bytes = self.largest_bytes.max(unpacked_bytes);
        for (mode, bytes) in [
            (header.fixed_mode, fixed_bytes),
            (header.variable_mode, u64::from(header.pool_bytes) - 4),
        ] {
            // The mode of an empty part has no meaning.
            if bytes > 0 {
                self.modes[usize::from(mode).min(8)] += 1;
            }
        }
    }

    fn modes_text(&self) -> String {
        let name =
            |number: usize| Compression::ALL.get(number).map_or("unknown", |mode| mode.name());
        let used = self.modes.iter().enumerate().filter(|(_, count)| **count > 0);
        used.map(|(number, count)| format!("{}:{count}", name(number)))
            .collect::<Vec<_>>()
            .join(" ")
    }
}

/// Writes a description of `source`.
///
/// # Errors
/// Any reading error. [`crate::Error::Io`] from `out`. Nothing is written if the file cannot be
/// read to its end.
pub fn info(source: impl Read, out: &mut impl Write, options: &InfoOptions) -> Result<()> {
    let mut reader = StreamReader::open(source, options.read.clone())?;
    let mut sums = vec![TypeSums::default(); reader.library().types().len()];
    let library = reader.library().clone();
    let mut count = |header: &ExtentHeader| {
        if let Some(number) = library.number(&header.type_name) {
            sums[number].add(header, library.types()[number].record_bytes());
        }
    };
    if options.verify {
        while let Some((offset, packed)) = reader.next_packed_where(|_| true)? {
            count(packed.header());
            reader.unpack(&packed, offset)?;
        }
    } else {
        let passed = reader.next_packed_where(|header| {
            count(header);
            false
        })?;
        assert!(passed.is_none(), "no extent was wanted");
    }
    if options.format == Format::Text {
        writeln!(out, "# {:?}-endian, {} bytes", reader.order(), reader.offset())?;
        writeln!(
            out,
            "# {}",
            if options.verify { "all digests are right" } else { "digests were not checked" }
        )?;
        for warning in reader.warnings() {
            writeln!(out, "# warning: {}", warning.text())?;
        }
    }
    write_types(out, &reader, &sums, options)
}

const NAMES: [&str; 9] = [
    "type",
    "version",
    "fields",
    "extents",
    "records",
    "packed_bytes",
    "unpacked_bytes",
    "largest_extent_bytes",
    "compression",
];

/// Writes the table of types, with their XML texts if `options` say so.
fn write_types<R: Read>(
    out: &mut impl Write,
    reader: &StreamReader<R>,
    sums: &[TypeSums],
    options: &InfoOptions,
) -> Result<()> {
    if options.format != Format::Json {
        write_names(out, options.format, &NAMES)?;
    }
    for (extent_type, sums) in reader.library().types().iter().zip(sums) {
        if sums.extents == 0 && !options.unused {
            continue;
        }
        let version = extent_type
            .version()
            .map_or(String::new(), |(major, minor)| format!("{major}.{minor}"));
        let modes = sums.modes_text();
        let number = |value: u64| Scalar::Int(value as i64);
        let values = [
            Scalar::Bytes(extent_type.name().as_bytes()),
            Scalar::Bytes(version.as_bytes()),
            number(extent_type.fields().len() as u64),
            number(sums.extents),
            number(sums.records),
            number(sums.packed_bytes),
            number(sums.unpacked_bytes),
            number(sums.largest_bytes),
            Scalar::Bytes(modes.as_bytes()),
        ];
        write_line(out, options.format, BytesStyle::Escaped, NAMES.into_iter().zip(values))?;
        if options.xml && options.format == Format::Text {
            out.write_all(extent_type.xml().as_bytes())?;
        }
    }
    Ok(())
}
