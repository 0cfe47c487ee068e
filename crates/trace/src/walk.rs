//! Reads the inputs and outputs of a call from the memory of a stopped thread, following its row of
//! the table. The runtime follows the same rows in C.

use retake_kernel::memory;
use retake_model::table::number;
use retake_model::table::{
    self, Argument, ArgumentKind, Direction, LengthRule, Pointer, Row, Shape,
};
use retake_trace_format::{BufferDirection, TracedBuffer, TracedCall};

const MOST_VECTORS: u64 = 1024;
const MOST_STRINGS: u64 = 0x10000;
const PATH_LIMIT: u64 = 4096;
const STRING_LIMIT: u64 = 0x20000;
const LARGEST: u64 = 0x7fff_f000;
const MESSAGE_BYTES: u64 = 56;
const IOCTL: u32 = number::IOCTL as u32;

/// The memory of one process, and the most bytes to read of each data buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    pub pid: i32,
    pub data_limit: u64,
}

impl Memory {
    fn bytes(&self, address: u64, count: u64) -> Option<Vec<u8>> {
        memory::read_vec(self.pid, address, usize::try_from(count).ok()?).ok()
    }

    fn word(&self, address: u64, width: u64) -> u64 {
        let mut value = [0; 8];
        if address != 0
            && let Some(bytes) = self.bytes(address, width)
        {
            value[..bytes.len()].copy_from_slice(&bytes);
        }
        u64::from_le_bytes(value)
    }

    /// Reads a string without its NUL. It reads page by page, since the memory after it may be
    /// unmapped.
    fn string(&self, address: u64, limit: u64) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        while (text.len() as u64) < limit {
            let at = address.checked_add(text.len() as u64)?;
            let piece = self.bytes(at, (4096 - at % 4096).min(limit - text.len() as u64))?;
            match piece.iter().position(|byte| *byte == 0) {
                Some(end) => {
                    text.extend_from_slice(&piece[..end]);
                    break;
                }
                None => text.extend(piece),
            }
        }
        Some(text)
    }
}

/// The value-result lengths before the call, by argument.
pub(crate) type Before = [u64; 6];

/// Reads the buffers of a call.
pub(crate) struct Walk<'call> {
    memory: Memory,
    call: &'call mut TracedCall,
    before: Before,
    direction: BufferDirection,
}

/// Reads the inputs of a call. Returns its value-result lengths.
pub(crate) fn inputs(memory: Memory, call: &mut TracedCall) -> Before {
    let row = row_of(call);
    let mut walk = Walk { memory, call, before: [0; 6], direction: BufferDirection::Input };
    for (index, argument) in row.iter().flat_map(|row| row.arguments).enumerate() {
        if let ArgumentKind::Pointer(pointer) = &argument.kind {
            walk.note_length(index, pointer);
            walk.input(index, pointer);
        }
    }
    walk.undescribed(row, Direction::In);
    walk.before
}

/// Reads the outputs of a call.
pub(crate) fn outputs(memory: Memory, call: &mut TracedCall, before: Before) {
    let row = row_of(call);
    let failed = call.failed();
    let mut walk = Walk { memory, call, before, direction: BufferDirection::Output };
    for (index, argument) in row.iter().flat_map(|row| row.arguments).enumerate() {
        match &argument.kind {
            ArgumentKind::Pointer(pointer) if !failed || pointer.always => {
                walk.output(index, pointer, failed)
            }
            _ => {}
        }
    }
    if !failed {
        walk.undescribed(row, Direction::Out);
    }
}

fn row_of(call: &TracedCall) -> Option<&'static Row> {
    let row = table::call(u16::try_from(call.number).ok()?)?;
    Some(row.resolve(&call.arguments).0)
}

fn not_negative(value: u64) -> u64 {
    if (value as i64) < 0 { 0 } else { value }
}

impl Walk<'_> {
    fn argument(&self, index: u8) -> u64 {
        self.call.arguments[usize::from(index)]
    }

    fn result(&self) -> u64 {
        if self.direction == BufferDirection::Output { self.call.result.max(0) as u64 } else { 0 }
    }

    /// Reads one buffer. `is_data` is for bytes that the kernel does not interpret, to which the
    /// limit applies.
    fn take(&mut self, index: usize, address: u64, total_bytes: u64, is_data: bool) {
        let total_bytes = total_bytes.min(LARGEST);
        if address == 0 || total_bytes == 0 {
            return;
        }
        let kept = if is_data { total_bytes.min(self.memory.data_limit) } else { total_bytes };
        if let Some(data) = self.memory.bytes(address, kept) {
            self.call.buffers.push(TracedBuffer {
                argument: index as u8,
                direction: self.direction,
                address,
                total_bytes,
                data: data.into(),
            });
        }
    }

    fn note_length(&mut self, index: usize, pointer: &Pointer) {
        self.before[index] = match pointer.length {
            LengthRule::Pointee32(other) => self.memory.word(self.argument(other), 4),
            LengthRule::Pointee64(other) => self.memory.word(self.argument(other), 8),
            LengthRule::Counted { offset, width } => self.counted(index, offset, width),
            _ => 0,
        };
    }

    fn counted(&self, index: usize, offset: u8, width: u8) -> u64 {
        match self.call.arguments[index] {
            0 => 0,
            address => {
                self.memory.word(address.wrapping_add(u64::from(offset)), u64::from(width.min(8)))
            }
        }
    }

    fn input(&mut self, index: usize, pointer: &Pointer) {
        let address = self.call.arguments[index];
        let reads = pointer.direction != Direction::Out;
        match pointer.shape {
            _ if address == 0 => {}
            Shape::String => {
                if let Some(data) = self.memory.string(address, PATH_LIMIT) {
                    let total_bytes = data.len() as u64;
                    self.call.buffers.push(TracedBuffer {
                        argument: index as u8,
                        direction: self.direction,
                        address,
                        total_bytes,
                        data: data.into(),
                    });
                }
            }
            Shape::Strings => self.strings(index, address),
            Shape::Iovec => {
                let count = self.vector_count(pointer);
                self.take(index, address, count * 16, false);
                if reads {
                    self.vectors(index, address, count, u64::MAX);
                }
            }
            Shape::Ifconf => self.take(index, address, 16, false),
            Shape::SigmaskPair => {
                self.take(index, address, 16, false);
                self.take(index, self.memory.word(address, 8), 8, false);
            }
            Shape::Msghdr => {
                self.message(index, address, reads && pointer.direction == Direction::In, u64::MAX)
            }
            Shape::Mmsghdr => {
                for message in 0..self.vector_count(pointer) {
                    self.message(
                        index,
                        address + message * 64,
                        pointer.direction == Direction::In,
                        u64::MAX,
                    );
                }
            }
            Shape::Semarray => {}
            _ if reads => self.plain(index, pointer),
            _ => {}
        }
    }

    fn output(&mut self, index: usize, pointer: &Pointer, failed: bool) {
        let address = self.call.arguments[index];
        let writes = pointer.direction != Direction::In;
        match pointer.shape {
            _ if address == 0 => {}
            Shape::String
            | Shape::Strings
            | Shape::Sigmask
            | Shape::SigmaskPair
            | Shape::Semarray => {}
            Shape::Ifconf => {
                self.take(index, address, 16, false);
                self.take(
                    index,
                    self.memory.word(address.wrapping_add(8), 8),
                    self.memory.word(address, 4),
                    false,
                );
            }
            Shape::Iovec if writes => {
                self.vectors(index, address, self.vector_count(pointer), self.result())
            }
            Shape::Msghdr if writes => self.message(index, address, true, self.result()),
            Shape::Mmsghdr => {
                for message in 0..self.result().min(MOST_VECTORS) {
                    let at = address + message * 64;
                    let received = self.memory.word(at + MESSAGE_BYTES, 4);
                    if writes {
                        self.message(index, at, true, received);
                    }
                    self.take(index, at + MESSAGE_BYTES, 4, false);
                }
            }
            Shape::Iovec | Shape::Msghdr => {}
            _ if writes && (!failed || self.plain_bytes(index, pointer) <= 0x10000) => {
                self.plain(index, pointer)
            }
            _ => {}
        }
    }

    fn vector_count(&self, pointer: &Pointer) -> u64 {
        match pointer.length {
            LengthRule::Argument(other) => not_negative(self.argument(other)).min(MOST_VECTORS),
            _ => 0,
        }
    }

    fn strings(&mut self, index: usize, array: u64) {
        let mut pointers = Vec::new();
        while (pointers.len() as u64) < MOST_STRINGS {
            match self.memory.word(array.wrapping_add(pointers.len() as u64 * 8), 8) {
                0 => break,
                pointer => pointers.push(pointer),
            }
        }
        self.take(index, array, pointers.len() as u64 * 8, false);
        for address in pointers {
            if let Some(data) = self.memory.string(address, STRING_LIMIT) {
                let total_bytes = data.len() as u64;
                self.call.buffers.push(TracedBuffer {
                    argument: index as u8,
                    direction: self.direction,
                    address,
                    total_bytes,
                    data: data.into(),
                });
            }
        }
    }

    fn vectors(&mut self, index: usize, array: u64, count: u64, mut limit: u64) {
        let Some(vectors) = self.memory.bytes(array, count.min(MOST_VECTORS) * 16) else { return };
        for vector in vectors.chunks_exact(16) {
            let word =
                |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| vector[at + byte]));
            let bytes = word(8).min(limit);
            self.take(index, word(0), bytes, true);
            limit -= bytes;
        }
    }

    /// Reads a `struct msghdr`, and with `with_data` what it points to. The vectors have `limit`
    /// bytes of data.
    fn message(&mut self, index: usize, address: u64, with_data: bool, limit: u64) {
        let Some(header) = self.memory.bytes(address, MESSAGE_BYTES) else { return };
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| header[at + byte]));
        let (name, name_bytes, vectors, count, control, control_bytes) =
            (word(0), word(8) & 0xffff_ffff, word(16), word(24), word(32), word(40));
        self.take(index, address, MESSAGE_BYTES, false);
        if self.direction == BufferDirection::Input {
            self.take(index, vectors, count.min(MOST_VECTORS) * 16, false);
        }
        if with_data {
            self.take(index, name, name_bytes.min(128), false);
            self.vectors(index, vectors, count, limit);
            self.take(index, control, control_bytes.min(0x10000), false);
        }
    }

    fn plain(&mut self, index: usize, pointer: &Pointer) {
        let is_data = pointer.element_bytes == 1 && pointer.length != LengthRule::Constant;
        self.take(index, self.call.arguments[index], self.plain_bytes(index, pointer), is_data);
    }

    fn plain_bytes(&self, index: usize, pointer: &Pointer) -> u64 {
        let argument = |other: u8| not_negative(self.argument(other));
        let before = self.before[index];
        let count = match pointer.length {
            LengthRule::Constant => {
                return u64::from(pointer.count) * u64::from(pointer.element_bytes);
            }
            LengthRule::Argument(other) => argument(other),
            LengthRule::Result => self.result(),
            LengthRule::ResultMaxArgument(other) => self.result().min(argument(other)),
            LengthRule::Pointee32(other) => self.memory.word(self.argument(other), 4).min(before),
            LengthRule::Pointee64(other) => self.memory.word(self.argument(other), 8).min(before),
            LengthRule::Bits(other) => argument(other).div_ceil(64).saturating_mul(8),
            LengthRule::Pages(other) => argument(other).div_ceil(4096),
            LengthRule::Product(one, other) => {
                argument(one).min(LARGEST).saturating_mul(argument(other).min(LARGEST))
            }
            LengthRule::Counted { offset, width } => self.counted(index, offset, width).min(before),
        };
        count
            .min(LARGEST)
            .saturating_mul(u64::from(pointer.element_bytes))
            .saturating_add(u64::from(pointer.count))
            .min(LARGEST)
    }

    /// Reads the data of an `ioctl` without a row. Its number tells how many bytes go in which
    /// direction.
    fn undescribed(&mut self, row: Option<&'static Row>, way: Direction) {
        let Some(Argument { kind: ArgumentKind::Value(_), .. }) =
            row.and_then(|row| row.arguments.get(2))
        else {
            return;
        };
        let command = self.call.arguments[1] as u32;
        let known = table::call(IOCTL as u16).is_some_and(|ioctl| {
            ioctl.sub_row(command).is_some() || ioctl.refused_range(command).is_some()
        });
        let bit = if way == Direction::In { 1 } else { 2 };
        if self.call.number == IOCTL && !known && command >> 30 & bit != 0 {
            self.take(2, self.call.arguments[2], u64::from(command >> 16 & 0x3fff), false);
        }
    }
}
