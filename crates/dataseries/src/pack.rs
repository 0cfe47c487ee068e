//! Packing of collected rows into an extent.

use crate::builder::ExtentBuilder;
use crate::digest::{self, DataDigest};
use crate::header::{ExtentHeader, PackedExtent};
use crate::pool::{self, POOL_START};
use crate::transform::Transform;
use crate::{CompressionSet, Error, Result, null_compact};

impl ExtentBuilder {
    /// Packs all rows into an extent and leaves the builder empty.
    ///
    /// `level` is the level of zlib and bzip2, 1 to 9.
    ///
    /// # Errors
    /// [`Error::Request`] if null compaction makes the records larger, which readers cannot undo.
    pub fn pack(&mut self, compression: CompressionSet, level: u8) -> Result<PackedExtent> {
        let (extent_type, order) = (std::sync::Arc::clone(&self.extent_type), self.order);
        let record_bytes = extent_type.record_bytes();
        assert_eq!(
            self.fixed.len(),
            self.record_count * record_bytes,
            "a builder holds whole records"
        );
        if let Some(transform) = Transform::of(&extent_type, order) {
            transform.apply(&mut self.fixed, record_bytes);
        }
        let mut data_digest = DataDigest::new(&self.fixed);
        data_digest.pool(&self.pool);
        pool::check(&self.pool, order, Some(&mut data_digest))
            .expect("a builder's pool is made of whole entries");
        let compacted;
        let mut fixed = self.fixed.as_slice();
        if extent_type.is_null_compact() {
            compacted = null_compact::compact(extent_type.layout(), fixed);
            if compacted.len() > fixed.len() {
                let what = "null compaction makes these records larger";
                return Err(Error::Request(format!(
                    "extent type {:?}: {what}",
                    extent_type.name()
                )));
            }
            fixed = &compacted;
        }
        let mut header = ExtentHeader {
            type_name: extent_type.name().to_owned(),
            fixed_stored_bytes: 0,
            variable_stored_bytes: 0,
            record_count: self.record_count as u32,
            pool_bytes: self.pool.len() as u32,
            fixed_mode: 0,
            variable_mode: 0,
            packed_digest: 0,
            data_digest: data_digest.finish(),
        };
        let mut bytes =
            Vec::with_capacity(header.header_bytes() + fixed.len() + self.pool.len() + 64);
        bytes.resize(header.header_bytes(), 0);
        for (part, stored_bytes, mode) in [
            (fixed, &mut header.fixed_stored_bytes, &mut header.fixed_mode),
            (
                &self.pool[POOL_START..],
                &mut header.variable_stored_bytes,
                &mut header.variable_mode,
            ),
        ] {
            let start = bytes.len();
            *mode = compression.compress(part, level, &mut bytes) as u8;
            // The stored part is never larger than the part itself, which the builder keeps below
            // the limit.
            *stored_bytes = (bytes.len() - start) as u32;
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        let encoded = header.encode(order);
        bytes[..encoded.len()].copy_from_slice(&encoded);
        header.packed_digest = digest::packed_digest(&bytes);
        order.put_u32(&mut bytes, 16, header.packed_digest);
        self.clear();
        Ok(PackedExtent::new(header, order, bytes))
    }
}
