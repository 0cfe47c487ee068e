//! The sources of fields' values.

use crate::BufferDirection;

/// The kind of a field's values in DataSeries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One bit.
    Bool,
    /// Eight bits.
    Byte,
    /// 32 bits, signed.
    Int32,
    /// 64 bits, signed.
    Int64,
    /// Bytes.
    Bytes,
}

/// Selects one of an argument's buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The buffer that the call read.
    Input,
    /// The buffer that the kernel wrote.
    Output,
    /// The buffer that the kernel wrote, or else the one that the call read.
    Either,
}

/// The layout of a number in a structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// 16 bits, signed.
    I16,
    /// 16 bits.
    U16,
    /// 32 bits, signed.
    I32,
    /// 32 bits.
    U32,
    /// 64 bits.
    I64,
    /// Seconds and nanoseconds, as units of 2⁻³² seconds.
    Timespec,
    /// Seconds and microseconds, as units of 2⁻³² seconds.
    Timeval,
    /// Seconds, as units of 2⁻³² seconds.
    Seconds,
}

impl Part {
    /// Returns its size in the structure, in bytes.
    pub fn bytes(self) -> usize {
        match self {
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 => 4,
            Self::I64 | Self::Seconds => 8,
            Self::Timespec | Self::Timeval => 16,
        }
    }
}

/// A place in a structure behind a pointer argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Index of the argument.
    pub argument: u8,
    /// Selects one of the argument's buffers.
    pub side: Side,
    /// The offset in the structure, in bytes.
    pub offset: u16,
    /// The layout of the number there.
    pub part: Part,
}

/// The source of a field's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// An argument register, cut to the size of the field.
    Argument(u8),
    /// Whether the bits `mask` of an argument are `value`.
    Bits {
        /// Index of the argument.
        argument: u8,
        /// The mask of the bits.
        mask: u64,
        /// The value that they must have.
        value: u64,
    },
    /// Whether an argument, as 32 bits, is one of these values.
    OneOf(u8, &'static [u32]),
    /// Whether a directory descriptor is `AT_FDCWD`.
    CurrentDirectory(u8),
    /// The kind of file that a mode argument asks for: 0 regular, 1 character device, 2 block
    /// device, 3 FIFO, 4 socket.
    FileKind(u8),
    /// The string behind an argument, with its NUL. The field replaces the buffer.
    Text(u8),
    /// The absolute path that a string argument means. It is joined to the directory of a
    /// descriptor argument, or to the working directory. Symbolic links are not followed.
    FullPath {
        /// The index of the descriptor, if there is one.
        directory: Option<u8>,
        /// The index of the string.
        path: u8,
    },
    /// The buffer behind an argument. The field replaces the buffer.
    Data {
        /// Index of the argument.
        argument: u8,
        /// Selects one of its buffers.
        direction: BufferDirection,
        /// The argument that bounds the length, which is the result. Without one, the field has the
        /// whole buffer.
        counted: Option<u8>,
    },
    /// A copy of the buffer behind an argument.
    Copy(u8),
    /// The size of the buffer behind an argument.
    CopyBytes(u8),
    /// A member of a structure.
    Member(Member),
    /// Whether the bits `mask` of a member are `value`.
    MemberBits {
        /// The member.
        member: Member,
        /// The mask of the bits.
        mask: u64,
        /// The value that they must have.
        value: u64,
    },
    /// Whether one of the two times behind an argument has these nanoseconds.
    TimesHave(u8, u32),
    /// The result of the call.
    Result,
    /// The number of this row's vector element, from 0. It is -1 in the first row, which is about
    /// the whole call.
    VectorIndex,
    /// The length of this row's vector element. In the first row it is the result.
    VectorBytes,
    /// The data that were transferred through this row's vector element.
    VectorData,
    /// The number of this row: 0 has the path, then come arguments and environment, and -1 has the
    /// result.
    ExecIndex,
    /// An argument of the program, with its NUL.
    ExecArgument,
    /// A string of the program's environment, with its NUL.
    ExecEnvironment,
    /// The value is not known: null, or false.
    Unknown,
}

/// The condition for a field to have a value. Without one it is null, or zero if it cannot be null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Always.
    Always,
    /// If an argument has any of these bits.
    AnyBit(u8, u64),
    /// If an argument, as 32 bits, is one of these values.
    OneOf(u8, &'static [u32]),
    /// In the first row of a call.
    FirstRow,
}

/// One field of a call's type.
#[derive(Debug, Clone, Copy)]
pub struct FieldRule {
    /// Its name.
    pub name: &'static str,
    /// The kind of its values.
    pub kind: Kind,
    /// Whether it can be null.
    pub nullable: bool,
    /// The source of its value.
    pub source: Source,
    /// The condition for it to have a value.
    pub when: When,
}
