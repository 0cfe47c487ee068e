//! The compression modes of an extent's two parts.
//!
//! Blocks are raw. The extent tells their expanded size, so a decoder fills a slice of that size,
//! and can never write or allocate more.

mod lzf;
mod lzo;

/// The error that a block is not valid in its mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

/// The form in which a part of an extent is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Compression {
    /// Uncompressed.
    None = 0,
    /// Raw LZO1X block; read only.
    Lzo = 1,
    /// Zlib stream (RFC 1950).
    Zlib = 2,
    /// Bzip2 stream.
    Bzip2 = 3,
    /// Raw LZF block; read only.
    Lzf = 4,
    /// Raw Snappy block.
    Snappy = 5,
    /// Raw LZ4 block.
    Lz4 = 6,
    /// Raw LZ4 block made by the slower compressor. Read only, decoded like [`Compression::Lz4`].
    Lz4Hc = 7,
}

impl Compression {
    /// Every mode, by number.
    pub const ALL: [Self; 8] = [
        Self::None,
        Self::Lzo,
        Self::Zlib,
        Self::Bzip2,
        Self::Lzf,
        Self::Snappy,
        Self::Lz4,
        Self::Lz4Hc,
    ];

    /// The mode with this number in an extent header.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The mode with this name, as returned by [`Compression::name`].
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// The name of the mode in tools.
    pub fn name(self) -> &'static str {
        ["none", "lzo", "zlib", "bz2", "lzf", "snappy", "lz4", "lz4hc"][self as usize]
    }

    /// Whether this crate can write it.
    pub fn is_writable(self) -> bool {
        matches!(self, Self::None | Self::Zlib | Self::Bzip2 | Self::Snappy | Self::Lz4)
    }

    /// The most bytes that `packed_bytes` of this mode can expand to, or a larger number.
    ///
    /// It is checked before memory is allocated, so that a small file cannot request much memory.
    pub(crate) fn expansion_limit(self, packed_bytes: u64) -> u64 {
        let factor = match self {
            Self::None => return packed_bytes,
            Self::Lzo | Self::Lz4 | Self::Lz4Hc => 256,
            Self::Zlib => 1032,
            // 900,000 equal bytes take about 40 bytes. With repetition before the block sort,
            // 45,899,235 do.
            Self::Bzip2 => 1 << 21,
            Self::Lzf => 88,
            Self::Snappy => 32,
        };
        packed_bytes.saturating_mul(factor).saturating_add(1024)
    }

    /// Expands `input` into `output`. Returns the number of expanded bytes, at most the length of
    /// `output`.
    pub(crate) fn decompress(self, input: &[u8], output: &mut [u8]) -> Result<usize, Malformed> {
        match self {
            Self::None => {
                output
                    .get_mut(..input.len())
                    .ok_or(Malformed("too much data"))?
                    .copy_from_slice(input);
                Ok(input.len())
            }
            Self::Lzo => lzo::decompress(input, output),
            Self::Zlib => zlib_decompress(input, output),
            Self::Bzip2 => bzip2_decompress(input, output),
            Self::Lzf => lzf::decompress(input, output),
            Self::Snappy => snap::raw::Decoder::new()
                .decompress(input, output)
                .map_err(|_| Malformed("bad snappy block")),
            Self::Lz4 | Self::Lz4Hc => lz4_flex::block::decompress_into(input, output)
                .map_err(|_| Malformed("bad lz4 block")),
        }
    }
}

/// The modes that a writer tries on each part. It uses the one with the smallest result, or none if
/// no result is smaller than the part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompressionSet {
    /// One bit for each mode number.
    bits: u8,
}

impl CompressionSet {
    /// Stores every part uncompressed.
    pub const NONE: Self = Self { bits: 0 };
    /// LZ4 only: the fastest.
    pub const LZ4: Self = Self { bits: 1 << Compression::Lz4 as u8 };
    /// Zlib only.
    pub const ZLIB: Self = Self { bits: 1 << Compression::Zlib as u8 };

    /// Adds a mode to the set.
    ///
    /// # Errors
    /// [`crate::Error::Request`] if the mode can only be read.
    pub fn with(self, mode: Compression) -> crate::Result<Self> {
        if !mode.is_writable() {
            return Err(crate::Error::Request(format!(
                "compression {} can be read but not written",
                mode.name()
            )));
        }
        Ok(Self { bits: self.bits | 1 << mode as u8 })
    }

    /// The modes of the set, except `None`.
    fn modes(self) -> impl Iterator<Item = Compression> {
        Compression::ALL.into_iter().skip(1).filter(move |&mode| self.bits & 1 << mode as u8 != 0)
    }

    /// Appends the smallest form of `input` to `output`. Returns its mode.
    pub(crate) fn compress(self, input: &[u8], level: u8, output: &mut Vec<u8>) -> Compression {
        let start = output.len();
        let mut best = Compression::None;
        if !input.is_empty() {
            for mode in self.modes() {
                let limit =
                    if best == Compression::None { input.len() } else { output.len() - start };
                let begin = output.len();
                if compress_one(mode, input, level, output) && output.len() - begin < limit {
                    output.drain(start..begin);
                    best = mode;
                } else {
                    output.truncate(begin);
                }
            }
        }
        if best == Compression::None {
            output.extend_from_slice(input);
        }
        best
    }
}

/// Appends `input` in the given mode. Returns `false` if that failed, and the caller must truncate
/// `output`.
fn compress_one(mode: Compression, input: &[u8], level: u8, output: &mut Vec<u8>) -> bool {
    let begin = output.len();
    match mode {
        Compression::Zlib => {
            output.extend_from_slice(&miniz_oxide::deflate::compress_to_vec_zlib(
                input,
                level.clamp(1, 9),
            ));
            true
        }
        Compression::Bzip2 => {
            output.reserve(input.len() + input.len() / 100 + 700);
            let mut state =
                bzip2::Compress::new(bzip2::Compression::new(u32::from(level.clamp(1, 9))), 0);
            let status = state.compress_vec(input, output, bzip2::Action::Finish);
            matches!(status, Ok(bzip2::Status::StreamEnd))
        }
        Compression::Snappy => {
            output.resize(begin + snap::raw::max_compress_len(input.len()), 0);
            let packed = snap::raw::Encoder::new().compress(input, &mut output[begin..]);
            output.truncate(begin + packed.as_ref().copied().unwrap_or(0));
            packed.is_ok()
        }
        Compression::Lz4 => {
            output.resize(begin + lz4_flex::block::get_maximum_output_size(input.len()), 0);
            let packed = lz4_flex::block::compress_into(input, &mut output[begin..]);
            output.truncate(begin + packed.as_ref().copied().unwrap_or(0));
            packed.is_ok()
        }
        Compression::None | Compression::Lzo | Compression::Lzf | Compression::Lz4Hc => false,
    }
}

fn zlib_decompress(input: &[u8], output: &mut [u8]) -> Result<usize, Malformed> {
    use miniz_oxide::inflate::TINFLStatus;
    use miniz_oxide::inflate::core::{DecompressorOxide, decompress, inflate_flags as flags};
    let wanted = flags::TINFL_FLAG_PARSE_ZLIB_HEADER
        | flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF
        | flags::TINFL_FLAG_COMPUTE_ADLER32;
    match decompress(&mut DecompressorOxide::new(), input, output, 0, wanted) {
        (TINFLStatus::Done, _, written) => Ok(written),
        (TINFLStatus::HasMoreOutput, ..) => Err(Malformed("zlib data expand beyond their size")),
        _ => Err(Malformed("bad zlib stream")),
    }
}

fn bzip2_decompress(input: &[u8], output: &mut [u8]) -> Result<usize, Malformed> {
    let mut state = bzip2::Decompress::new(false);
    loop {
        let (consumed, written) = (state.total_in() as usize, state.total_out() as usize);
        let status = state.decompress(&input[consumed..], &mut output[written..]);
        let stuck = state.total_in() as usize == consumed && state.total_out() as usize == written;
        match status {
            Ok(bzip2::Status::StreamEnd) => return Ok(state.total_out() as usize),
            Ok(_) if !stuck => {}
            _ => return Err(Malformed("bad bzip2 stream")),
        }
    }
}

/// The output of a match decoder: a slice that is filled from its start. Every step is checked.
struct Output<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl<'a> Output<'a> {
    fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    fn len(&self) -> usize {
        self.at
    }

    /// Appends bytes from the input.
    fn literals(&mut self, literals: &[u8]) -> Result<(), Malformed> {
        let end = self.at + literals.len();
        self.bytes
            .get_mut(self.at..end)
            .ok_or(Malformed("data expand beyond their size"))?
            .copy_from_slice(literals);
        self.at = end;
        Ok(())
    }

    /// Appends `length` bytes from `distance` back. If the ranges overlap, the bytes between
    /// repeat.
    fn copy(&mut self, distance: usize, length: usize) -> Result<(), Malformed> {
        let from =
            self.at.checked_sub(distance).ok_or(Malformed("match before the start of the data"))?;
        let end = self.at.checked_add(length).filter(|&end| end <= self.bytes.len());
        let end = end.ok_or(Malformed("data expand beyond their size"))?;
        while self.at < end {
            let count = (self.at - from).min(end - self.at);
            self.bytes.copy_within(from..from + count, self.at);
            self.at += count;
        }
        Ok(())
    }
}
