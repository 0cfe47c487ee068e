//! The first 40 and the last 28 bytes of a file.

use crate::order::ByteOrder;
use crate::{Error, Result, digest};

/// Bytes of the file header; the type extent follows.
pub(crate) const FILE_HEADER_BYTES: usize = 40;
/// Bytes of the tail.
pub(crate) const TAIL_BYTES: usize = 28;

/// Makes the file header for a byte order: a mark, then numbers that show the byte order and the
/// floating-point format.
pub(crate) fn encode_file_header(order: ByteOrder) -> [u8; FILE_HEADER_BYTES] {
    let mut bytes = [0; FILE_HEADER_BYTES];
    bytes[..4].copy_from_slice(b"DSv1");
    order.put_i32(&mut bytes, 4, 0x1234_5678);
    order.put_i64(&mut bytes, 8, 0x1234_5678_9abc_def0);
    order.put_f64(&mut bytes, 16, std::f64::consts::PI);
    order.put_f64(&mut bytes, 24, f64::INFINITY);
    order.put_f64(&mut bytes, 32, f64::NAN);
    bytes
}

/// Returns the byte order that a file header declares.
///
/// # Errors
/// [`Error::NotDataSeries`].
pub(crate) fn parse_file_header(bytes: &[u8; FILE_HEADER_BYTES]) -> Result<ByteOrder> {
    let fail = |what| Err(Error::NotDataSeries { what });
    if &bytes[..4] != b"DSv1" {
        return fail("it does not begin with DSv1");
    }
    let order = match ByteOrder::Little.i32(bytes, 4) {
        0x1234_5678 => ByteOrder::Little,
        0x7856_3412 => ByteOrder::Big,
        _ => return fail("unknown byte order"),
    };
    let numbers = order.i64(bytes, 8) == 0x1234_5678_9abc_def0
        && (order.f64(bytes, 16) - std::f64::consts::PI).abs() < 1e-15
        && order.f64(bytes, 24) == f64::INFINITY
        && order.f64(bytes, 32).is_nan();
    match numbers {
        true => Ok(order),
        false => fail("the numbers of its header are not as they should be"),
    }
}

/// The contents of the tail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tail {
    /// Bytes of the index extent.
    pub(crate) index_bytes: u32,
    /// The checksum over all extents.
    pub(crate) chain: u32,
    /// Offset of the index extent.
    pub(crate) index_offset: u64,
}

impl Tail {
    pub(crate) fn encode(&self, order: ByteOrder) -> [u8; TAIL_BYTES] {
        let mut bytes = [0xff; TAIL_BYTES];
        order.put_u32(&mut bytes, 4, self.index_bytes);
        order.put_u32(&mut bytes, 8, !self.index_bytes);
        order.put_u32(&mut bytes, 12, self.chain);
        order.put_i64(&mut bytes, 16, self.index_offset as i64);
        let own = digest::jenkins(digest::TAIL_SEED, &bytes[..24]);
        order.put_u32(&mut bytes, 24, own);
        bytes
    }

    /// Parses the tail at `offset`, which must come right after the index extent.
    pub(crate) fn parse(bytes: &[u8; TAIL_BYTES], order: ByteOrder, offset: u64) -> Result<Self> {
        let corrupt = |what: &str| Err(Error::corrupt(offset, what));
        let index_bytes = order.u32(bytes, 4);
        if bytes[..4] != [0xff; 4] || order.u32(bytes, 8) != !index_bytes {
            return corrupt("not a tail");
        }
        if order.u32(bytes, 24) != digest::jenkins(digest::TAIL_SEED, &bytes[..24]) {
            return corrupt("the tail's own checksum is wrong");
        }
        let index_offset = order.i64(bytes, 16) as u64;
        if index_offset.checked_add(u64::from(index_bytes)) != Some(offset) {
            return corrupt("the tail does not follow the index extent it names");
        }
        Ok(Self { index_bytes, chain: order.u32(bytes, 12), index_offset })
    }
}
