//! Accessors for the arguments of a traced call.

use retake_trace_format::{BufferDirection, TracedBuffer, TracedCall};

/// The arguments of a call, by index.
#[derive(Debug, Clone, Copy)]
pub struct Arguments<'a>(pub &'a TracedCall);

impl<'a> Arguments<'a> {
    /// The whole register.
    pub fn word(self, index: usize) -> u64 {
        self.0.arguments[index]
    }

    /// The low 32 bits.
    pub fn uint(self, index: usize) -> u32 {
        self.0.arguments[index] as u32
    }

    /// A descriptor, or `AT_FDCWD`.
    pub fn descriptor(self, index: usize) -> i32 {
        self.uint(index) as i32
    }

    /// The first buffer that the kernel read through this argument.
    pub fn input(self, index: u8) -> Option<&'a TracedBuffer> {
        self.0.buffers_of(index, BufferDirection::Input).next()
    }

    /// The first buffer that the kernel wrote through this argument.
    pub fn output(self, index: u8) -> Option<&'a [u8]> {
        self.0
            .buffers_of(index, BufferDirection::Output)
            .next()
            .map(|buffer| buffer.data.as_slice())
    }

    /// A path or a name.
    pub fn text(self, index: u8) -> Option<&'a [u8]> {
        let data = self.input(index)?.data.as_slice();
        Some(data.split(|byte| *byte == 0).next().unwrap_or(data))
    }

    /// A descriptor in an array that the kernel wrote.
    pub fn written_descriptor(self, index: u8, element: usize) -> Option<i32> {
        self.output(index).and_then(|bytes| i32_at(bytes, 4 * element))
    }
}

/// The arguments of a call that opens a file.
#[derive(Debug, Clone, Copy)]
pub struct Opening {
    /// The index of the directory argument.
    pub directory: Option<usize>,
    /// The index of the path argument.
    pub path: u8,
    /// Flags of `open`.
    pub flags: u32,
    /// Mode of a new file.
    pub mode: u32,
}

impl Opening {
    /// Returns `None` for other calls, and if the trace lacks the arguments.
    pub fn of(call: &TracedCall) -> Option<Self> {
        let arguments = Arguments(call);
        let (directory, path, flags, mode) = match i64::from(call.number) {
            libc::SYS_open => (None, 0, arguments.uint(1), arguments.uint(2)),
            libc::SYS_creat => (
                None,
                0,
                (libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC) as u32,
                arguments.uint(1),
            ),
            libc::SYS_openat => (Some(0), 1, arguments.uint(2), arguments.uint(3)),
            libc::SYS_openat2 => {
                let how = &arguments.input(2)?.data;
                (Some(0), 1, u64_at(how, 0)? as u32, u64_at(how, 8)? as u32)
            }
            _ => return None,
        };
        Some(Self { directory, path, flags, mode })
    }

    /// Whether the file is opened for writing.
    pub fn writes(&self) -> bool {
        self.flags & libc::O_ACCMODE as u32 != libc::O_RDONLY as u32
            && self.flags & libc::O_PATH as u32 == 0
    }
}

/// A little-endian number in a buffer.
pub fn i32_at(bytes: &[u8], offset: usize) -> Option<i32> {
    u32_at(bytes, offset).map(|value| value as i32)
}

/// A little-endian number in a buffer.
pub fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(offset..)?.first_chunk()?))
}

/// A little-endian number in a buffer.
pub fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(offset..)?.first_chunk()?))
}

/// A little-endian number in a buffer.
pub fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(offset..)?.first_chunk()?))
}

/// The data buffers of a call that moves data, in either direction. The array of pointers to the
/// pieces is left out.
pub fn pieces(
    call: &TracedCall,
    argument: u8,
    direction: BufferDirection,
) -> impl Iterator<Item = &TracedBuffer> {
    let array_address = call.arguments[usize::from(argument)];
    let is_vector = matches!(
        i64::from(call.number),
        libc::SYS_readv
            | libc::SYS_writev
            | libc::SYS_preadv
            | libc::SYS_pwritev
            | libc::SYS_preadv2
            | libc::SYS_pwritev2
            | libc::SYS_vmsplice
    );
    // Traces of other tools have no addresses and no such array.
    let mut is_array = is_vector && array_address != 0;
    call.buffers_of(argument, direction).filter(move |buffer| {
        let skipped =
            is_array && direction == BufferDirection::Input && buffer.address == array_address;
        is_array &= !skipped;
        !skipped
    })
}
