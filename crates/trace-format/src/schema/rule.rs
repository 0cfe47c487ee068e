//! Where the value of a field comes from.

use crate::BufferDirection;

/// What a field of a call's type holds, as DataSeries has it.
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

/// Which of an argument's buffers is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// What the call read.
    Input,
    /// What the kernel wrote.
    Output,
    /// What the kernel wrote, or else what the call read.
    Either,
}

/// How a number lies in a structure.
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
    /// Bytes it takes in the structure.
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
    /// Which of its buffers.
    pub side: Side,
    /// Where in the structure, in bytes.
    pub offset: u16,
    /// What is there.
    pub part: Part,
}

/// Where the value of a field comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// An argument register, cut to the size of the field.
    Argument(u8),
    /// Whether the bits `mask` of an argument are `value`.
    Bits {
        /// Index of the argument.
        argument: u8,
        /// Which bits.
        mask: u64,
        /// What they must be.
        value: u64,
    },
    /// Whether an argument, as 32 bits, is one of these.
    OneOf(u8, &'static [u32]),
    /// Whether a directory descriptor is `AT_FDCWD`.
    CurrentDirectory(u8),
    /// Which kind of file a mode argument asks for: 0 regular, 1 character device, 2 block device,
    /// 3 FIFO, 4 socket.
    FileKind(u8),
    /// The string behind an argument, with its NUL. The field stands for the buffer.
    Text(u8),
    /// The absolute path that a string argument means: joined to the directory of a descriptor
    /// argument, or to the working directory. Symbolic links are not followed.
    FullPath {
        /// Index of the descriptor, if there is one.
        directory: Option<u8>,
        /// Index of the string.
        path: u8,
    },
    /// The buffer behind an argument. The field stands for it.
    Data {
        /// Index of the argument.
        argument: u8,
        /// Which of its buffers.
        direction: BufferDirection,
        /// As long as the result, but at most this argument; otherwise the whole buffer.
        counted: Option<u8>,
    },
    /// A copy of the buffer behind an argument.
    Copy(u8),
    /// How long the buffer behind an argument is.
    CopyBytes(u8),
    /// A member of a structure.
    Member(Member),
    /// Whether the bits `mask` of a member are `value`.
    MemberBits {
        /// The member.
        member: Member,
        /// Which bits.
        mask: u64,
        /// What they must be.
        value: u64,
    },
    /// Whether one of the two times behind an argument has these nanoseconds.
    TimesHave(u8, u32),
    /// The result.
    Result,
    /// Number of the vector element of this row, from 0; -1 in the first row of a call, which is
    /// about the whole call.
    VectorIndex,
    /// Length of the vector element of this row; in the first row the result.
    VectorBytes,
    /// What was transferred through the vector element of this row.
    VectorData,
    /// Number of this row of the call: 0 has the path, then come arguments and environment, -1 has
    /// the result.
    ExecIndex,
    /// An argument of the program, with its NUL.
    ExecArgument,
    /// A string of the program's environment, with its NUL.
    ExecEnvironment,
    /// Not known: null, or false.
    Unknown,
}

/// When a field has a value; otherwise it is null, or zero if it cannot be null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Always.
    Always,
    /// If an argument has any of these bits.
    AnyBit(u8, u64),
    /// If an argument, as 32 bits, is one of these.
    OneOf(u8, &'static [u32]),
    /// In the first row of a call.
    FirstRow,
}

/// One field of a call's type.
#[derive(Debug, Clone, Copy)]
pub struct FieldRule {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Whether it can be null.
    pub nullable: bool,
    /// Where its value comes from.
    pub source: Source,
    /// When it has one.
    pub when: When,
}
