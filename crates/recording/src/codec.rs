//! Compresses chunks with reused buffers, and decompresses them into a buffer of known size.

use std::cell::RefCell;
use std::fmt;

use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};
use zstd::bulk::{Compressor, Decompressor};

use crate::frame::StoredAs;

/// How hard to compress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// No compression.
    Raw,
    /// LZ4, where it gains at least a tenth. A sample decides that first. For data while a
    /// recording is made.
    Fast,
    /// Zstandard at its fastest ordinary level, for many small events while a recording is made.
    /// The result is a third smaller than with LZ4, at two thirds of its speed.
    Small,
    /// Zstandard at a higher level, for recordings that are kept or sent.
    Dense,
}

/// For data above this size, a sample decides whether to compress the whole.
const SAMPLE_BYTES: usize = 16 << 10;
const SAMPLE_THRESHOLD_BYTES: usize = 64 << 10;
const SMALL_LEVEL: i32 = 1;
const DENSE_LEVEL: i32 = 6;
/// Shorter data go to LZ4 instead: setting up Zstandard takes longer than compressing them.
const LEAST_SMALL_BYTES: usize = 1 << 10;

/// Compresses chunks one after another. The buffers grow to the size of the largest chunk.
pub(crate) struct Encoder {
    output: Vec<u8>,
    table: CompressTable,
    small: Option<Compressor<'static>>,
    dense: Option<Compressor<'static>>,
}

impl fmt::Debug for Encoder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Encoder").field("output_bytes", &self.output.len()).finish()
    }
}

impl Encoder {
    pub(crate) fn new() -> Self {
        Self { output: Vec::new(), table: CompressTable::large(), small: None, dense: None }
    }

    /// Returns the bytes to store and how they are stored. Bytes that compress too little are
    /// returned as they are.
    pub(crate) fn encode<'a>(&'a mut self, bytes: &'a [u8], codec: Codec) -> (StoredAs, &'a [u8]) {
        let codec = if codec == Codec::Small && bytes.len() < LEAST_SMALL_BYTES {
            Codec::Fast
        } else {
            codec
        };
        let (stored_as, compressed_bytes) = match codec {
            Codec::Raw => (StoredAs::Raw, None),
            Codec::Fast => (StoredAs::Lz4, self.try_lz4(bytes)),
            Codec::Small => {
                (StoredAs::Zstd, try_zstd(&mut self.small, SMALL_LEVEL, bytes, &mut self.output))
            }
            Codec::Dense => {
                (StoredAs::Zstd, try_zstd(&mut self.dense, DENSE_LEVEL, bytes, &mut self.output))
            }
        };
        match compressed_bytes {
            Some(count) => (stored_as, &self.output[..count]),
            None => (StoredAs::Raw, bytes),
        }
    }

    fn try_lz4(&mut self, bytes: &[u8]) -> Option<usize> {
        if bytes.len() > SAMPLE_THRESHOLD_BYTES {
            // The sample comes from the middle: the beginning is often unlike the rest.
            let start = (bytes.len() - SAMPLE_BYTES) / 2;
            let sample = &bytes[start..start + SAMPLE_BYTES];
            self.lz4(sample).filter(|&count| gains_a_tenth(count, sample.len()))?;
        }
        self.lz4(bytes).filter(|&count| gains_a_tenth(count, bytes.len()))
    }

    fn lz4(&mut self, bytes: &[u8]) -> Option<usize> {
        make_room(&mut self.output, get_maximum_output_size(bytes.len()));
        compress_into_with_table(bytes, &mut self.output, &mut self.table).ok()
    }
}

fn try_zstd(
    compressor: &mut Option<Compressor<'static>>,
    level: i32,
    bytes: &[u8],
    output: &mut Vec<u8>,
) -> Option<usize> {
    make_room(output, bytes.len());
    if compressor.is_none() {
        *compressor = Compressor::new(level).ok();
    }
    // If the result has no room, compression gains nothing. Then the bytes are stored as they are.
    let count = compressor.as_mut()?.compress_to_buffer(bytes, &mut output[..]).ok()?;
    (count < bytes.len()).then_some(count)
}

fn make_room(output: &mut Vec<u8>, bytes: usize) {
    if output.len() < bytes {
        output.resize(bytes, 0);
    }
}

fn gains_a_tenth(compressed_bytes: usize, bytes: usize) -> bool {
    compressed_bytes <= bytes - bytes.div_ceil(10)
}

thread_local! {
    /// Creating a decompressor takes longer than decompressing a small chunk.
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

fn decode_zstd(
    kept: &mut Option<Decompressor<'static>>,
    stored: &[u8],
    output: &mut [u8],
) -> Option<usize> {
    if kept.is_none() {
        *kept = Decompressor::new().ok();
    }
    kept.as_mut()?.decompress_to_buffer(stored, output).ok()
}

/// Decompresses `stored` so that it fills `output` exactly. The error says what is wrong with it.
pub(crate) fn decode_into(
    stored_as: StoredAs,
    stored: &[u8],
    output: &mut [u8],
) -> Result<(), &'static str> {
    let count = match stored_as {
        StoredAs::Raw => {
            if stored.len() != output.len() {
                return Err("its stored and uncompressed sizes contradict each other");
            }
            output.copy_from_slice(stored);
            stored.len()
        }
        StoredAs::Lz4 => lz4_flex::block::decompress_into(stored, output)
            .map_err(|_| "its LZ4 data are malformed")?,
        StoredAs::Zstd => DECOMPRESSOR
            .with_borrow_mut(|kept| decode_zstd(kept, stored, output))
            .ok_or("its Zstandard data are malformed")?,
        StoredAs::LeftOut => return Err("its data are left out"),
    };
    if count == output.len() { Ok(()) } else { Err("it holds fewer bytes than it claims") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(count: usize) -> Vec<u8> {
        let mut state = 1u64;
        let step = |_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 56) as u8
        };
        (0..count).map(step).collect()
    }

    #[test]
    fn everything_reads_back() {
        let mut encoder = Encoder::new();
        let text: Vec<u8> = (0..200_000u32).map(|n| (n / 100) as u8).collect();
        for bytes in [Vec::new(), vec![5], noise(100), noise(200_000), text] {
            for codec in [Codec::Raw, Codec::Fast, Codec::Small, Codec::Dense] {
                let (stored_as, stored) = encoder.encode(&bytes, codec);
                assert!(stored.len() <= bytes.len());
                let mut output = vec![0; bytes.len()];
                decode_into(stored_as, stored, &mut output).unwrap();
                assert_eq!(output, bytes);
            }
        }
    }

    #[test]
    fn noise_is_stored_as_it_is() {
        let bytes = noise(100_000);
        let mut encoder = Encoder::new();
        for codec in [Codec::Fast, Codec::Small, Codec::Dense] {
            assert_eq!(encoder.encode(&bytes, codec).0, StoredAs::Raw);
        }
    }

    #[test]
    fn malformed_data_are_an_error() {
        let mut output = [0; 1000];
        for stored_as in [StoredAs::Raw, StoredAs::Lz4, StoredAs::Zstd] {
            assert!(decode_into(stored_as, &noise(500), &mut output).is_err());
            assert!(decode_into(stored_as, &[], &mut output).is_err());
        }
    }

    #[test]
    fn wrong_sizes_are_an_error() {
        let bytes = vec![9; 5000];
        let mut encoder = Encoder::new();
        for codec in [Codec::Fast, Codec::Small, Codec::Dense] {
            let (stored_as, stored) = encoder.encode(&bytes, codec);
            assert!(decode_into(stored_as, stored, &mut [0; 5001]).is_err());
            assert!(decode_into(stored_as, stored, &mut [0; 4999]).is_err());
        }
    }
}
