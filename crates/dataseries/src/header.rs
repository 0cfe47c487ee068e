//! The header of an extent, and packed extents.

use crate::order::ByteOrder;
use crate::{Compression, Error, Result, digest};

/// Bytes of a header before the type's name.
pub(crate) const HEADER_BYTES: usize = 28;
/// The limit of the stored size of one part of an extent. Other readers refuse sizes that are not
/// below it.
pub(crate) const PART_BYTES_MAX: u32 = 512 << 20;
/// First word of the tail, in the place of an extent's fixed size.
pub(crate) const TAIL_MARK: u32 = u32::MAX;

/// The contents of an extent's header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtentHeader {
    /// Name of the type of its records.
    pub type_name: String,
    /// Stored bytes of the fixed part.
    pub fixed_stored_bytes: u32,
    /// Stored bytes of the variable part.
    pub variable_stored_bytes: u32,
    /// Number of records.
    pub record_count: u32,
    /// Bytes of the string pool, including the four implicit ones.
    pub pool_bytes: u32,
    /// Number of the fixed part's compression mode, without meaning if that part is empty.
    pub fixed_mode: u8,
    /// Number of the variable part's compression mode, without meaning if that part is empty.
    pub variable_mode: u8,
    /// Adler-32 of the packed extent.
    pub packed_digest: u32,
    /// Jenkins hash of the partly unpacked data.
    pub data_digest: u32,
}

impl ExtentHeader {
    /// The compression of the fixed part. `None` if the mode is unknown.
    pub fn fixed_compression(&self) -> Option<Compression> {
        Compression::from_number(self.fixed_mode)
    }

    /// The compression of the variable part. `None` if the mode is unknown.
    pub fn variable_compression(&self) -> Option<Compression> {
        Compression::from_number(self.variable_mode)
    }

    /// Bytes of the header with name and padding.
    pub fn header_bytes(&self) -> usize {
        (HEADER_BYTES + self.type_name.len()).next_multiple_of(4)
    }

    /// Bytes of the whole extent in the file.
    pub fn packed_bytes(&self) -> u64 {
        let padded = |bytes: u32| u64::from(bytes).next_multiple_of(4);
        self.header_bytes() as u64
            + padded(self.fixed_stored_bytes)
            + padded(self.variable_stored_bytes)
    }

    /// Bytes from the end of the first [`HEADER_BYTES`] to the end of the name's padding.
    pub(crate) fn name_part_bytes(start: &[u8; HEADER_BYTES]) -> usize {
        (HEADER_BYTES + usize::from(start[26])).next_multiple_of(4) - HEADER_BYTES
    }

    /// Parses a header: its first bytes, and the name with its padding in `name_part`.
    pub(crate) fn parse(
        start: &[u8; HEADER_BYTES],
        name_part: &[u8],
        order: ByteOrder,
        offset: u64,
    ) -> Result<Self> {
        let corrupt = |what: &str| Err(Error::corrupt(offset, what));
        let name_bytes = usize::from(start[26]);
        if name_bytes == 0 || start[27] != 0 || name_part.len() < name_bytes {
            return corrupt("not an extent header");
        }
        let (name, padding) = name_part.split_at(name_bytes);
        if padding.iter().any(|&byte| byte != 0) {
            return corrupt("the padding after the type's name is not zero");
        }
        let Ok(type_name) = std::str::from_utf8(name) else {
            return corrupt("the type's name is not UTF-8");
        };
        let word = |at| order.u32(start, at);
        let header = Self {
            type_name: type_name.to_owned(),
            fixed_stored_bytes: word(0),
            variable_stored_bytes: word(4),
            record_count: word(8),
            pool_bytes: word(12),
            packed_digest: word(16),
            data_digest: word(20),
            fixed_mode: start[24],
            variable_mode: start[25],
        };
        if header.fixed_stored_bytes >= PART_BYTES_MAX
            || header.variable_stored_bytes >= PART_BYTES_MAX
        {
            return corrupt("a part of 512 MiB or more");
        }
        if header.pool_bytes < 4
            || header.pool_bytes > i32::MAX as u32
            || header.record_count > i32::MAX as u32
        {
            return corrupt("impossible sizes in the header");
        }
        Ok(header)
    }

    /// Encodes the header, with padding.
    pub(crate) fn encode(&self, order: ByteOrder) -> Vec<u8> {
        assert!(
            (1..=255).contains(&self.type_name.len()),
            "a type's name was checked when the type was made"
        );
        let mut bytes = vec![0; self.header_bytes()];
        let words = [
            self.fixed_stored_bytes,
            self.variable_stored_bytes,
            self.record_count,
            self.pool_bytes,
            self.packed_digest,
            self.data_digest,
        ];
        for (index, word) in words.into_iter().enumerate() {
            order.put_u32(&mut bytes, index * 4, word);
        }
        bytes[24] = self.fixed_mode;
        bytes[25] = self.variable_mode;
        bytes[26] = self.type_name.len() as u8;
        bytes[HEADER_BYTES..HEADER_BYTES + self.type_name.len()]
            .copy_from_slice(self.type_name.as_bytes());
        bytes
    }
}

/// An extent as it is stored in a file: compressed, in the file's byte order.
#[derive(Debug, Clone)]
pub struct PackedExtent {
    header: ExtentHeader,
    order: ByteOrder,
    bytes: Vec<u8>,
}

impl PackedExtent {
    /// Makes an extent of `bytes`, which begin with `header` and have the length that it says.
    pub(crate) fn new(header: ExtentHeader, order: ByteOrder, bytes: Vec<u8>) -> Self {
        assert_eq!(
            header.packed_bytes(),
            bytes.len() as u64,
            "header and bytes of an extent belong together"
        );
        Self { header, order, bytes }
    }

    /// The contents of its header.
    pub fn header(&self) -> &ExtentHeader {
        &self.header
    }

    /// The byte order of its file.
    pub fn order(&self) -> ByteOrder {
        self.order
    }

    /// All its bytes, with the header.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the memory of its bytes, for another extent.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The stored fixed part and variable part.
    pub(crate) fn parts(&self) -> (&[u8], &[u8]) {
        let fixed_start = self.header.header_bytes();
        let fixed_end = fixed_start + self.header.fixed_stored_bytes as usize;
        let variable_start = fixed_end.next_multiple_of(4);
        let variable_end = variable_start + self.header.variable_stored_bytes as usize;
        (&self.bytes[fixed_start..fixed_end], &self.bytes[variable_start..variable_end])
    }

    /// Checks the digest of the packed bytes.
    pub(crate) fn verify(&self, offset: u64) -> Result<()> {
        let computed = digest::packed_digest(&self.bytes);
        match computed == self.header.packed_digest {
            true => Ok(()),
            false => Err(Error::Digest {
                offset,
                digest: "adler32 of the packed data",
                stored: self.header.packed_digest,
                computed,
            }),
        }
    }
}
