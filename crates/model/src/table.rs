//! The system-call table as data. `gen.rs` holds the rows, generated from `tables/`.

use crate::flags::FlagSet;
pub use crate::r#gen::{CALLS, REFUSED_RANGES, TABLE_HASH, number};

/// A system call.
#[derive(Debug)]
pub struct CallRow {
    pub number: u16,
    pub name: &'static str,
    /// Whether the kernel has a call with this number.
    pub named: bool,
    pub row: Row,
    /// The index of the argument whose low 32 bits pick a sub-row.
    pub selector: Option<u8>,
    /// The sub-rows, sorted by command.
    pub sub_rows: &'static [SubRow],
}

/// A command of a multiplexing call.
#[derive(Debug)]
pub struct SubRow {
    pub command: u32,
    pub name: &'static str,
    pub row: Row,
}

/// The effects of a call or a command.
#[derive(Debug)]
pub struct Row {
    pub policy: Policy,
    /// Whether the call can block while other threads run.
    pub waits: bool,
    pub arguments: &'static [Argument],
    pub result: ValueType,
    pub descriptors: DescriptorEffect,
    pub classes: Classes,
    pub resources: Resources,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Executed while recording, and answered from the log in replay.
    Emulate,
    /// Handled by a function of the runtime.
    Custom,
    /// Never executed. The program gets this error number.
    Refuse(u16),
}

#[derive(Debug)]
pub struct Argument {
    pub name: &'static str,
    pub kind: ArgumentKind,
}

#[derive(Debug)]
pub enum ArgumentKind {
    Value(ValueType),
    Pointer(Pointer),
}

/// The type of a value in a register.
#[derive(Debug, Clone, Copy)]
pub enum ValueType {
    /// A result that is 0 or an error.
    None,
    Descriptor,
    /// A descriptor or `AT_FDCWD`.
    DirectoryDescriptor,
    Int,
    Uint,
    Long,
    Ulong,
    Size,
    Offset,
    Mode,
    Device,
    Pid,
    Uid,
    Gid,
    Signal,
    Address,
    Clock,
    /// A command, which picks a sub-row.
    Command,
    /// Seconds since 1970.
    Time,
    Flags(&'static FlagSet),
}

/// Memory that the kernel reads or writes.
#[derive(Debug)]
pub struct Pointer {
    pub direction: Direction,
    pub shape: Shape,
    /// The name of the element in the table: an integer type, a structure, or the shape.
    pub element: &'static str,
    pub element_bytes: u16,
    pub length: LengthRule,
    /// The number of elements for [`LengthRule::Constant`]; otherwise a number of bytes to add.
    pub count: u32,
    /// Whether the kernel writes the memory even if the call fails.
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
    /// Elements without pointers.
    Plain,
    /// Bytes up to and including a NUL.
    String,
    /// Pointers to strings, ending with a null pointer.
    Strings,
    Iovec,
    Msghdr,
    Mmsghdr,
    Fdset,
    /// A signal mask that holds during the call.
    Sigmask,
    /// The address and size of such a mask.
    SigmaskPair,
    Ifconf,
    /// 16 bits for each semaphore of the set.
    Semarray,
}

/// How the number of elements is determined. Indexes are positions of arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LengthRule {
    Constant,
    Argument(u8),
    Result,
    ResultMaxArgument(u8),
    Pointee32(u8),
    Pointee64(u8),
    Bits(u8),
    Pages(u8),
    Product(u8, u8),
    /// A little-endian integer of `width` bytes at `offset` in the buffer itself.
    Counted {
        offset: u8,
        width: u8,
    },
}

/// The effect of a successful call on the table of descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DescriptorEffect {
    Unchanged,
    /// The result is a new descriptor.
    Makes,
    /// The call writes two new descriptors.
    MakesPair,
    /// Closes argument 0.
    Closes,
    /// Closes the descriptors from argument 0 to argument 1.
    ClosesRange,
    /// The result is a duplicate of argument 0.
    Dups,
    /// Argument 1 becomes a duplicate of argument 0.
    DupsOnto,
    /// Control messages may bring descriptors.
    Receives,
}

/// The classes of a call, for filters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Classes(pub u16);

impl Classes {
    pub const CLOCK: Self = Self(1);
    pub const CREDS: Self = Self(2);
    pub const DESC: Self = Self(4);
    pub const FILE: Self = Self(8);
    pub const IPC: Self = Self(16);
    pub const MEMORY: Self = Self(32);
    pub const NETWORK: Self = Self(64);
    pub const PROCESS: Self = Self(128);
    pub const SIGNAL: Self = Self(256);

    /// All classes with their names in filters.
    pub const ALL: [(Self, &'static str); 9] = [
        (Self::CLOCK, "clock"),
        (Self::CREDS, "creds"),
        (Self::DESC, "desc"),
        (Self::FILE, "file"),
        (Self::IPC, "ipc"),
        (Self::MEMORY, "memory"),
        (Self::NETWORK, "network"),
        (Self::PROCESS, "process"),
        (Self::SIGNAL, "signal"),
    ];

    /// Returns the class with this name, which has no `%`.
    pub fn by_name(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, other)| *other == name);
        found.map(|(class, _)| *class)
    }

    /// Whether the two sets have a class in common.
    pub fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// The resources that order a call. Paper: [SCRIBE §5, Table 2].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resources(pub u8);

impl Resources {
    pub const DESCRIPTORS: Self = Self(1);
    pub const GLOBAL: Self = Self(2);
    pub const INODE: Self = Self(4);
    pub const IPC: Self = Self(8);
    pub const MEMORY: Self = Self(16);
    pub const MOUNT: Self = Self(32);
    pub const PROCESS: Self = Self(64);

    /// Whether the two sets have a resource in common.
    pub fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// A range of refused ioctl commands, by their low 16 bits.
#[derive(Debug)]
pub struct RefusedRange {
    pub first: u16,
    pub last: u16,
    pub name: &'static str,
    pub errno: u16,
}

/// Returns the call with this number.
pub fn call(number: u16) -> Option<&'static CallRow> {
    CALLS.get(usize::from(number))
}

/// Returns the call with this name.
pub fn call_by_name(name: &str) -> Option<&'static CallRow> {
    CALLS.iter().find(|call| call.named && call.name == name)
}

impl CallRow {
    /// Returns the sub-row for a command.
    pub fn sub_row(&self, command: u32) -> Option<&'static SubRow> {
        let index = self.sub_rows.binary_search_by_key(&command, |sub| sub.command);
        index.ok().map(|index| &self.sub_rows[index])
    }

    /// Returns the row for these argument registers, and the sub-row if it comes from one.
    ///
    /// Missing registers count as 0. The runtime makes the same choice.
    pub fn resolve(&'static self, arguments: &[u64]) -> (&'static Row, Option<&'static SubRow>) {
        let Some(selector) = self.selector else {
            return (&self.row, None);
        };
        let command = arguments.get(usize::from(selector)).copied().unwrap_or(0) as u32;
        match self.sub_row(command) {
            Some(sub) => (&sub.row, Some(sub)),
            None => (&self.row, None),
        }
    }

    /// Returns the range that refuses an ioctl command without a row, for its name.
    pub fn refused_range(&self, command: u32) -> Option<&'static RefusedRange> {
        // Only ioctl has such ranges.
        if self.number != number::IOCTL {
            return None;
        }
        let low = command as u16;
        REFUSED_RANGES.iter().find(|range| (range.first..=range.last).contains(&low))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_its_row() {
        assert!(CALLS.len() >= 470);
        for (index, call) in CALLS.iter().enumerate() {
            assert_eq!(usize::from(call.number), index);
            assert!(call.row.arguments.len() <= 6, "{}", call.name);
        }
    }

    #[test]
    fn sub_rows_are_sorted_and_hold_their_selector() {
        for call in CALLS {
            assert!(call.sub_rows.is_sorted_by(|a, b| a.command < b.command), "{}", call.name);
            for sub in call.sub_rows {
                let selector = usize::from(call.selector.expect("sub-rows need a selector"));
                assert!(selector < sub.row.arguments.len(), "{}", sub.name);
                assert!(sub.row.arguments.len() <= call.row.arguments.len(), "{}", sub.name);
            }
        }
    }

    #[test]
    fn lengths_name_value_or_pointer_arguments_that_exist() {
        let rows = CALLS.iter().flat_map(|call| {
            std::iter::once(&call.row).chain(call.sub_rows.iter().map(|sub| &sub.row))
        });
        for row in rows {
            for argument in row.arguments {
                let ArgumentKind::Pointer(pointer) = &argument.kind else {
                    continue;
                };
                let index = match pointer.length {
                    LengthRule::Argument(index)
                    | LengthRule::ResultMaxArgument(index)
                    | LengthRule::Bits(index)
                    | LengthRule::Pages(index)
                    | LengthRule::Pointee32(index)
                    | LengthRule::Pointee64(index) => index,
                    _ => continue,
                };
                let named = &row.arguments[usize::from(index)];
                let points =
                    matches!(pointer.length, LengthRule::Pointee32(_) | LengthRule::Pointee64(_));
                assert_eq!(
                    matches!(named.kind, ArgumentKind::Pointer(_)),
                    points,
                    "{}",
                    argument.name
                );
            }
        }
    }

    #[test]
    fn lookups_find_calls_and_commands() {
        assert_eq!(call(0).unwrap().name, "read");
        assert_eq!(call(u16::MAX).map(|call| call.number), None);
        assert_eq!(call_by_name("file_setattr").unwrap().number, 469);
        assert!(call_by_name("reserved_337").is_none());
        let ioctl = call_by_name("ioctl").unwrap();
        assert_eq!(ioctl.resolve(&[0, 0x5401, 0]).1.unwrap().name, "TCGETS");
        // Commands have 32 bits, whatever the upper half of the register holds.
        assert_eq!(ioctl.resolve(&[0, 0xffff_ffff_0000_5401, 0]).1.unwrap().name, "TCGETS");
        assert!(ioctl.resolve(&[0, 0x1234_5678, 0]).1.is_none());
        assert!(ioctl.resolve(&[]).1.is_none());
        assert_eq!(ioctl.refused_range(0xae01).unwrap().name, "KVM_*");
        let futex = call_by_name("futex").unwrap();
        assert_eq!(
            futex.sub_row(0x189).unwrap().name,
            "FUTEX_WAIT_BITSET_PRIVATE|FUTEX_CLOCK_REALTIME"
        );
    }

    #[test]
    fn classes_follow_from_arguments() {
        let class = |name: &str| call_by_name(name).unwrap().row.classes;
        assert!(class("openat").intersects(Classes::FILE));
        assert!(class("read").intersects(Classes::DESC));
        assert!(!class("read").intersects(Classes::FILE));
        assert!(class("connect").intersects(Classes::by_name("network").unwrap()));
        assert_eq!(Classes::by_name("nonsense"), None);
    }
}
