//! Functions that all readers share: reading the header, the types, and one extent after the other.

use std::io::{self, Read};
use std::sync::Arc;

use crate::file::{FILE_HEADER_BYTES, TAIL_BYTES, parse_file_header};
use crate::header::{ExtentHeader, HEADER_BYTES, PackedExtent, TAIL_MARK};
use crate::order::ByteOrder;
use crate::read_options::ReadOptions;
use crate::schema::{ExtentType, TypeLibrary, XML_TYPE};
use crate::unpack::unpack;
use crate::{Error, Result};

/// The most types of one file.
const TYPES_MAX: u32 = 1 << 16;
/// The most bytes of their descriptions.
const TYPE_EXTENT_BYTES_MAX: u64 = 32 << 20;

/// The next part of a file.
pub(crate) enum Next {
    Extent(ExtentHeader),
    Tail([u8; TAIL_BYTES]),
    End,
}

/// Reads the start of the part at `offset`. For an extent, reads up to the end of its name.
pub(crate) fn read_next(source: &mut impl Read, order: ByteOrder, offset: u64) -> Result<Next> {
    let mut start = [0; HEADER_BYTES];
    match read_up_to(source, &mut start)? {
        0 => return Ok(Next::End),
        HEADER_BYTES => {}
        read => {
            return Err(Error::Truncated {
                offset: offset + read as u64,
                what: "an extent header or the tail",
            });
        }
    }
    if order.u32(&start, 0) == TAIL_MARK {
        return Ok(Next::Tail(start));
    }
    let mut name = [0; 260];
    let name = &mut name[..ExtentHeader::name_part_bytes(&start)];
    let read = read_up_to(source, name)?;
    if read < name.len() {
        return Err(Error::Truncated {
            offset: offset + (HEADER_BYTES + read) as u64,
            what: "an extent header",
        });
    }
    Ok(Next::Extent(ExtentHeader::parse(&start, name, order, offset)?))
}

/// Reads the two parts that follow a header.
pub(crate) fn read_parts(
    source: &mut impl Read,
    header: ExtentHeader,
    order: ByteOrder,
    offset: u64,
    limit: u64,
) -> Result<PackedExtent> {
    read_parts_into(source, header, order, (offset, limit), Vec::new())
}

/// Like [`read_parts`], but reuses memory. The pair has the offset and the limit.
pub(crate) fn read_parts_into(
    source: &mut impl Read,
    header: ExtentHeader,
    order: ByteOrder,
    (offset, limit): (u64, u64),
    mut bytes: Vec<u8>,
) -> Result<PackedExtent> {
    let total = header.packed_bytes();
    if total > limit.saturating_add(4096) {
        return Err(Error::Limit { offset, what: "an extent", bytes: total, limit });
    }
    bytes.clear();
    bytes.extend_from_slice(&header.encode(order));
    let rest = total - bytes.len() as u64;
    // A file may announce much and end early. A large buffer grows only with the data that exist.
    bytes.reserve_exact(rest.min(1 << 20) as usize);
    source.by_ref().take(rest).read_to_end(&mut bytes)?;
    if (bytes.len() as u64) < total {
        return Err(Error::Truncated { offset: offset + bytes.len() as u64, what: "an extent" });
    }
    Ok(PackedExtent::new(header, order, bytes))
}

/// Fills `buffer`, or less if the source ends.
pub(crate) fn read_up_to(source: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match source.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Reads the file header. Returns the byte order.
pub(crate) fn read_file_header(source: &mut impl Read) -> Result<ByteOrder> {
    let mut bytes = [0; FILE_HEADER_BYTES];
    if read_up_to(source, &mut bytes)? < FILE_HEADER_BYTES {
        return Err(Error::NotDataSeries { what: "it is shorter than the header" });
    }
    parse_file_header(&bytes)
}

/// Reads the type extent, which comes right after the file header.
pub(crate) fn read_type_extent(source: &mut impl Read, order: ByteOrder) -> Result<PackedExtent> {
    let offset = FILE_HEADER_BYTES as u64;
    match read_next(source, order, offset)? {
        Next::Extent(header) if header.type_name == XML_TYPE.name() => {
            read_parts(source, header, order, offset, TYPE_EXTENT_BYTES_MAX)
        }
        Next::End => Err(Error::Truncated { offset, what: "the type extent" }),
        _ => Err(Error::corrupt(offset, "the first extent does not describe types")),
    }
}

/// Returns the types that a type extent describes.
pub(crate) fn unpack_types(packed: &PackedExtent, options: &ReadOptions) -> Result<TypeLibrary> {
    let offset = FILE_HEADER_BYTES as u64;
    if packed.header().record_count > TYPES_MAX {
        return Err(Error::corrupt(offset, format!("more than {TYPES_MAX} types")));
    }
    let options = ReadOptions { extent_bytes_limit: TYPE_EXTENT_BYTES_MAX, ..options.clone() };
    let extent = unpack(packed, &XML_TYPE, &options, offset)?;
    // Several fields can point to one value, so that the descriptions together can be longer than
    // the extent.
    let mut total_bytes = 0;
    let mut types = Vec::with_capacity(extent.record_count());
    for row in extent.rows() {
        let text = row.value(0).as_bytes().unwrap_or_default();
        total_bytes += text.len() as u64;
        if total_bytes > TYPE_EXTENT_BYTES_MAX {
            return Err(Error::corrupt(offset, "descriptions of types are too long"));
        }
        let text = std::str::from_utf8(text)
            .map_err(|_| Error::schema("", "the description is not UTF-8"))?;
        let known = options.known_types.iter().find(|known| known.xml() == text);
        types.push(known.map_or_else(|| ExtentType::parse(text), |known| Ok(Arc::clone(known)))?);
    }
    TypeLibrary::new(types)
}
