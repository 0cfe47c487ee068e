//! The contents of the tables, read and checked.

/// One line of `syscalls.tbl`, or one of the numbers of a range line.
#[derive(Debug, Clone)]
pub struct Call {
    pub number: u32,
    pub name: String,
    /// False for the numbers of a range line, for which the kernel has no call.
    pub named: bool,
    pub row: Row,
    /// The index of the argument whose value selects a sub-row.
    pub selector: Option<usize>,
    /// Bits that combine with every sub-row's number, each with the suffix it adds to the name.
    pub modifiers: Vec<(u32, String)>,
    /// Sorted by command, modifiers expanded.
    pub sub_rows: Vec<SubRow>,
}

/// One command of a multiplexing call.
#[derive(Debug, Clone)]
pub struct SubRow {
    pub command: u32,
    pub name: String,
    pub row: Row,
}

/// A range of ioctl commands, by the low 16 bits, that are refused.
#[derive(Debug, Clone)]
pub struct RefusedRange {
    pub first: u16,
    pub last: u16,
    pub name: String,
    pub errno: Errno,
}

/// The common part of calls and sub-rows.
#[derive(Debug, Clone)]
pub struct Row {
    pub policy: Policy,
    pub waits: bool,
    pub arguments: Vec<Argument>,
    pub result: ValueType,
    pub descriptors: DescriptorEffect,
    pub classes: Vec<String>,
    pub resources: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Policy {
    Emulate,
    Custom,
    Refuse(Errno),
}

/// An error number and its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Errno {
    pub name: String,
    pub number: i16,
}

#[derive(Debug, Clone)]
pub struct Argument {
    pub name: String,
    pub kind: Kind,
}

#[derive(Debug, Clone)]
pub enum Kind {
    Value(ValueType),
    Pointer(Pointer),
}

/// The type of a value argument or of a result; `set` names the flags or the enumeration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueType {
    pub name: String,
    pub set: Option<String>,
}

#[derive(Debug, Clone)]
pub struct Pointer {
    pub direction: Direction,
    pub shape: Shape,
    /// The element as the table names it.
    pub element: String,
    pub element_bytes: u16,
    pub length: Length,
    /// Whether it is captured also when the call fails.
    pub always: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    In,
    Out,
    InOut,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Plain,
    String,
    Strings,
    Iovec,
    Msghdr,
    Mmsghdr,
    Fdset,
    Sigmask,
    SigmaskPair,
    Ifconf,
    Semarray,
}

/// The source of the number of elements. Indexes are positions of arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LengthRule {
    Constant,
    Argument(usize),
    Result,
    ResultMaxArgument(usize),
    Pointee32(usize),
    Pointee64(usize),
    Bits(usize),
    Pages(usize),
    Product(usize, usize),
    /// A little-endian integer of `width` bytes at `offset` in the buffer itself.
    Counted {
        offset: u8,
        width: u8,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Length {
    pub rule: LengthRule,
    /// The number of elements for [`LengthRule::Constant`], else bytes to add.
    pub count: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DescriptorEffect {
    Unchanged,
    Makes,
    MakesPair,
    Closes,
    ClosesRange,
    Dups,
    DupsOnto,
    Receives,
}

/// One line of `layouts.tbl`.
#[derive(Debug, Clone)]
pub struct Layout {
    pub name: String,
    pub bytes: u16,
    /// The header and the C type to check the size against.
    pub source: Option<(String, String)>,
}

/// Everything in `tables/`.
#[derive(Debug, Clone)]
pub struct Table {
    /// Dense: `calls[n].number == n`.
    pub calls: Vec<Call>,
    pub ranges: Vec<RefusedRange>,
    pub layouts: Vec<Layout>,
}
