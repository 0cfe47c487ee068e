//! Unpacking of extents into checked records.

use std::sync::Arc;

use crate::digest::DataDigest;
use crate::header::PackedExtent;
use crate::order::ByteOrder;
use crate::pool::{self, POOL_START};
use crate::read_options::{Digests, ReadOptions};
use crate::schema::ExtentType;
use crate::transform::Transform;
use crate::{Compression, Error, Extent, ExtentBuffers, Result, null_compact};

/// Unpacks an extent of the given type from `offset`.
///
/// Sizes and string offsets are always checked, digests as `options` say.
pub(crate) fn unpack(
    packed: &PackedExtent,
    extent_type: &Arc<ExtentType>,
    options: &ReadOptions,
    offset: u64,
) -> Result<Extent> {
    unpack_into(packed, extent_type, options, offset, ExtentBuffers::default())
}

/// Like [`unpack`], but uses the memory of another extent.
pub(crate) fn unpack_into(
    packed: &PackedExtent,
    extent_type: &Arc<ExtentType>,
    options: &ReadOptions,
    offset: u64,
    buffers: ExtentBuffers,
) -> Result<Extent> {
    let mut extent = unpack_records(packed, extent_type, options, offset, buffers.fixed)?;
    let header = packed.header();
    let corrupt = |what: String| Error::corrupt(offset, what);
    extent.pool = unpack_pool(
        packed.parts().1,
        header.variable_mode,
        header.pool_bytes as usize,
        buffers.pool,
    )
    .map_err(corrupt)?;
    let starts = check_data(&extent.fixed, &extent.pool, packed, options, offset)?;
    check_offsets(&extent.fixed, extent_type, extent.order, &starts).map_err(corrupt)?;
    undo_transform(&mut extent);
    Ok(extent)
}

/// Like [`unpack`], but leaves every string empty, and expands none. Only the digest of the packed
/// bytes is checked for them.
pub(crate) fn unpack_without_strings(
    packed: &PackedExtent,
    extent_type: &Arc<ExtentType>,
    options: &ReadOptions,
    offset: u64,
) -> Result<Extent> {
    let mut extent = unpack_records(packed, extent_type, options, offset, Vec::new())?;
    extent.pool = vec![0; POOL_START];
    let layout = extent_type.layout();
    if !layout.variable.is_empty() {
        for record in extent.fixed.chunks_exact_mut(layout.record_bytes) {
            layout
                .variable
                .iter()
                .for_each(|&number| packed.order().put_u32(record, layout.slots[number].offset, 0));
        }
    }
    undo_transform(&mut extent);
    Ok(extent)
}

/// Returns the fixed records of an extent before the inverse transformation, without a pool.
fn unpack_records(
    packed: &PackedExtent,
    extent_type: &Arc<ExtentType>,
    options: &ReadOptions,
    offset: u64,
    buffer: Vec<u8>,
) -> Result<Extent> {
    let (header, order) = (packed.header(), packed.order());
    assert_eq!(header.type_name, extent_type.name(), "an extent is unpacked with its own type");
    if options.digests != Digests::None {
        packed.verify(offset)?;
    }
    let record_bytes = extent_type.record_bytes();
    let fixed_bytes = u64::from(header.record_count) * record_bytes as u64;
    if record_bytes == 0 && header.record_count > 0 {
        return Err(Error::corrupt(offset, "records of a type without fields"));
    }
    check_limit(
        offset,
        "an extent",
        fixed_bytes + u64::from(header.pool_bytes),
        options.extent_bytes_limit,
    )?;
    let fixed = unpack_fixed(
        packed.parts().0,
        header.fixed_mode,
        fixed_bytes as usize,
        extent_type,
        buffer,
    );
    let fixed = fixed.map_err(|what| Error::corrupt(offset, what))?;
    Ok(Extent {
        extent_type: Arc::clone(extent_type),
        order,
        offset,
        record_count: header.record_count as usize,
        fixed,
        pool: Vec::new(),
    })
}

fn undo_transform(extent: &mut Extent) {
    if let Some(transform) = Transform::of(&extent.extent_type, extent.order) {
        transform.undo(&mut extent.fixed, extent.extent_type.record_bytes());
    }
}

/// Checks the pool, and the digest of both parts if `options` say so. Returns the starts of
/// strings.
fn check_data(
    fixed: &[u8],
    pool: &[u8],
    packed: &PackedExtent,
    options: &ReadOptions,
    offset: u64,
) -> Result<pool::EntryStarts> {
    let mut digest = (options.digests == Digests::Both).then(|| DataDigest::new(fixed));
    if let Some(digest) = &mut digest {
        digest.pool(pool);
    }
    let starts = pool::check(pool, packed.order(), digest.as_mut())
        .map_err(|what| Error::corrupt(offset, what))?;
    let stored = packed.header().data_digest;
    match digest.map(DataDigest::finish) {
        Some(computed) if computed != stored => {
            Err(Error::Digest { offset, digest: "hash of the unpacked data", stored, computed })
        }
        _ => Ok(starts),
    }
}

/// Refuses a size above the caller's limit.
fn check_limit(offset: u64, what: &'static str, bytes: u64, limit: u64) -> Result<()> {
    match bytes <= limit {
        true => Ok(()),
        false => Err(Error::Limit { offset, what, bytes, limit }),
    }
}

/// Expands a stored part to at most `bytes`, after `prefix` zero bytes. Returns the buffer and the
/// number of bytes used. Old contents of `output` may follow these.
fn expand(
    stored: &[u8],
    mode: u8,
    prefix: usize,
    bytes: usize,
    mut output: Vec<u8>,
) -> std::result::Result<(Vec<u8>, usize), String> {
    if bytes == 0 {
        // Some writers leave the mode of an empty part undefined.
        return match stored.is_empty() {
            true => Ok((vec![0; prefix], 0)),
            false => Err("stored bytes for an empty part".to_owned()),
        };
    }
    let mode =
        Compression::from_number(mode).ok_or_else(|| format!("unknown compression mode {mode}"))?;
    let possible = mode.expansion_limit(stored.len() as u64);
    let length = prefix + bytes.min(usize::try_from(possible).unwrap_or(usize::MAX));
    if output.capacity() < length {
        output = vec![0; length];
    }
    output.resize(length, 0);
    output[..prefix].fill(0);
    let used =
        mode.decompress(stored, &mut output[prefix..]).map_err(|error| error.0.to_owned())?;
    Ok((output, used))
}

/// Unpacks the fixed records, and expands nulls.
fn unpack_fixed(
    stored: &[u8],
    mode: u8,
    bytes: usize,
    extent_type: &ExtentType,
    buffer: Vec<u8>,
) -> std::result::Result<Vec<u8>, String> {
    let (mut data, used) = expand(stored, mode, 0, bytes, buffer)?;
    if extent_type.is_null_compact() && bytes > 0 {
        let layout = extent_type.layout();
        // Each record keeps its bits, which limits the number of records in the data.
        if (bytes / layout.record_bytes).saturating_mul(layout.bool_bytes) > used {
            return Err("compacted records end early".to_owned());
        }
        let mut fixed = vec![0; bytes];
        null_compact::expand(layout, &data[..used], &mut fixed)?;
        return Ok(fixed);
    }
    data.truncate(used);
    match used == bytes {
        true => Ok(data),
        false => Err(format!("{used} bytes of records where {bytes} were announced")),
    }
}

/// Unpacks the string pool, including its four implicit bytes.
fn unpack_pool(
    stored: &[u8],
    mode: u8,
    bytes: usize,
    buffer: Vec<u8>,
) -> std::result::Result<Vec<u8>, String> {
    let (pool, used) = expand(stored, mode, POOL_START, bytes - POOL_START, buffer)?;
    match used == bytes - POOL_START {
        true => Ok(pool),
        false => {
            Err(format!("{used} bytes of strings where {} were announced", bytes - POOL_START))
        }
    }
}

/// Checks that every variable32 field points to a value.
fn check_offsets(
    fixed: &[u8],
    extent_type: &ExtentType,
    order: ByteOrder,
    starts: &pool::EntryStarts,
) -> std::result::Result<(), String> {
    let layout = extent_type.layout();
    if layout.variable.is_empty() {
        return Ok(());
    }
    for (index, record) in fixed.chunks_exact(layout.record_bytes).enumerate() {
        for &number in &layout.variable {
            let value_offset = order.u32(record, layout.slots[number].offset);
            if !starts.allows(value_offset) {
                let name = &extent_type.fields()[number].name;
                return Err(format!(
                    "record {index}: field {name:?} points to {value_offset}, where no value begins"
                ));
            }
        }
    }
    Ok(())
}
