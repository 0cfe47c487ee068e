//! Describes the type of a call field by field.

use super::rule::{FieldRule, Kind, Member, Part, Side, Source, When};
use crate::BufferDirection::{self, Input, Output};

/// The rows that a call takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// One row.
    One,
    /// One row for the call, then one for each element of the vector behind this argument.
    Vector {
        /// The index of the argument, a vector or a message.
        argument: u8,
        /// Whether it is a `struct msghdr` that points to the vector.
        message: bool,
        /// Whether the call reads or writes the pieces.
        direction: BufferDirection,
    },
    /// One row with the path, one for each string, and one with the result.
    Exec {
        /// The index of the path. The strings follow it.
        path: u8,
    },
}

/// The type of one call, from which the DataSeries type is made.
#[derive(Debug, Clone)]
pub struct CallType {
    /// The last part of the type's name.
    pub name: &'static str,
    /// The calls of the system-call table that have this type. Empty for calls that x86-64 lacks.
    pub calls: Vec<&'static str>,
    /// The call's own fields.
    pub fields: Vec<FieldRule>,
    /// The rows that a call takes.
    pub rows: Rows,
}

/// Begins the type of the call with this name.
pub fn call(name: &'static str) -> CallType {
    CallType { name, calls: vec![name], fields: Vec::new(), rows: Rows::One }
}

impl CallType {
    /// Names the calls that have this type, if their names differ from the type's.
    pub fn of(mut self, calls: &[&'static str]) -> Self {
        self.calls = calls.to_vec();
        self
    }

    fn push(mut self, name: &'static str, kind: Kind, nullable: bool, source: Source) -> Self {
        self.fields.push(FieldRule { name, kind, nullable, source, when: When::Always });
        self
    }

    /// Sets when the last field has a value.
    pub fn when(mut self, when: When) -> Self {
        self.fields.last_mut().expect("a field comes before its condition").when = when;
        self
    }

    /// Adds a field of one bit.
    pub fn bool(self, name: &'static str, source: Source) -> Self {
        self.push(name, Kind::Bool, false, source)
    }

    /// Adds a field of one bit that can be null.
    pub fn opt_bool(self, name: &'static str, source: Source) -> Self {
        self.push(name, Kind::Bool, true, source)
    }

    /// Adds a field of eight bits.
    pub fn byte(self, name: &'static str, source: Source) -> Self {
        self.push(name, Kind::Byte, false, source)
    }

    /// Adds a field of 32 bits.
    pub fn i32(self, name: &'static str, source: Source) -> Self {
        self.push(name, Kind::Int32, false, source)
    }

    /// Adds a field of 32 bits that can be null.
    pub fn opt_i32(self, name: &'static str, source: Source) -> Self {
        self.push(name, Kind::Int32, true, source)
    }

    /// Adds a field of 64 bits.
    pub fn i64(self, name: &'static str, source: Source) -> Self {
        self.push(name, Kind::Int64, false, source)
    }

    /// Adds a field of 64 bits that can be null.
    pub fn opt_i64(self, name: &'static str, source: Source) -> Self {
        self.push(name, Kind::Int64, true, source)
    }

    /// Adds a field of bytes, which can be null.
    pub fn bytes(self, name: &'static str, source: Source) -> Self {
        self.push(name, Kind::Bytes, true, source)
    }

    /// Adds a field of bytes that cannot be null.
    pub fn required_bytes(self, name: &'static str, source: Source) -> Self {
        self.push(name, Kind::Bytes, false, source)
    }

    /// Adds fields that tell whether bits of an argument are set.
    pub fn bits(self, argument: u8, bits: &[(&'static str, u64)]) -> Self {
        bits.iter().fold(self, |this, &(name, mask)| {
            this.bool(name, Source::Bits { argument, mask, value: mask })
        })
    }

    /// Adds a field that tells whether the masked bits of an argument equal a value.
    pub fn is(self, name: &'static str, argument: u8, mask: u64, value: u64) -> Self {
        self.bool(name, Source::Bits { argument, mask, value })
    }

    /// Adds argument 0 as a descriptor.
    pub fn descriptor(self) -> Self {
        self.i32("descriptor", Source::Argument(0))
    }

    /// Adds argument 0 as the descriptor of a directory, or `AT_FDCWD`.
    pub fn directory(self) -> Self {
        self.descriptor().bool("descriptor_current_working_directory", Source::CurrentDirectory(0))
    }

    /// Adds a path below the working directory.
    pub fn path(self, argument: u8) -> Self {
        self.path_named("given_pathname", "full_pathname", None, argument)
    }

    /// Adds a path below the directory of argument 0.
    pub fn path_at(self, argument: u8) -> Self {
        self.path_named("given_pathname", "full_pathname", Some(0), argument)
    }

    /// Adds a path under field names of its own.
    pub fn path_named(
        self,
        given: &'static str,
        full: &'static str,
        directory: Option<u8>,
        path: u8,
    ) -> Self {
        self.bytes(given, Source::Text(path)).bytes(full, Source::FullPath { directory, path })
    }

    /// Adds the whole buffer behind an argument.
    pub fn whole(self, name: &'static str, argument: u8, direction: BufferDirection) -> Self {
        self.bytes(name, Source::Data { argument, direction, counted: None })
    }

    /// Adds the bytes that the call wrote from a buffer, at most as many as argument `size` says.
    pub fn written(self, name: &'static str, argument: u8, size: u8) -> Self {
        self.bytes(name, Source::Data { argument, direction: Input, counted: Some(size) })
    }

    /// Adds the bytes that the call read into a buffer, at most as many as argument `size` says.
    pub fn read(self, name: &'static str, argument: u8, size: u8) -> Self {
        self.bytes(name, Source::Data { argument, direction: Output, counted: Some(size) })
    }

    /// Adds the bits of a mode.
    pub fn mode_bits(self, argument: u8, when: When) -> Self {
        MODE_BITS
            .iter()
            .fold(self, |this, &(name, mask)| this.is(name, argument, mask, mask).when(when))
    }

    /// Adds a mode that can be absent, and its bits.
    pub fn mode(self, argument: u8, when: When) -> Self {
        self.opt_i32("mode_value", Source::Argument(argument)).when(when).mode_bits(argument, when)
    }

    /// Adds the members of the `struct stat` behind an argument.
    pub fn stat(self, argument: u8) -> Self {
        let member =
            |offset, part| Source::Member(Member { argument, side: Side::Output, offset, part });
        self.whole("stat_result_raw", argument, Output)
            .opt_i32("stat_result_dev", member(0, Part::I64))
            .opt_i32("stat_result_ino", member(8, Part::I64))
            .opt_i32("stat_result_mode", member(24, Part::U32))
            .opt_i32("stat_result_nlink", member(16, Part::I64))
            .opt_i32("stat_result_uid", member(28, Part::U32))
            .opt_i32("stat_result_gid", member(32, Part::U32))
            .opt_i32("stat_result_rdev", member(40, Part::I64))
            .opt_i64("stat_result_size", member(48, Part::I64))
            .opt_i32("stat_result_blksize", member(56, Part::I64))
            .opt_i32("stat_result_blocks", member(64, Part::I64))
            .opt_i64("stat_result_atime", member(72, Part::Timespec))
            .opt_i64("stat_result_mtime", member(88, Part::Timespec))
            .opt_i64("stat_result_ctime", member(104, Part::Timespec))
    }

    /// Adds the members of the `struct statfs` behind an argument.
    pub fn statfs(self, argument: u8) -> Self {
        let place = |offset, part| Member { argument, side: Side::Output, offset, part };
        let member = |offset, part| Source::Member(place(offset, part));
        let this = self
            .whole("statfs_result_raw", argument, Output)
            .opt_i32("statfs_result_type", member(0, Part::I64))
            .opt_i32("statfs_result_bsize", member(8, Part::I64))
            .opt_i64("statfs_result_blocks", member(16, Part::I64))
            .opt_i64("statfs_result_bfree", member(24, Part::I64))
            .opt_i64("statfs_result_bavail", member(32, Part::I64))
            .opt_i64("statfs_result_files", member(40, Part::I64))
            .opt_i64("statfs_result_ffree", member(48, Part::I64))
            .opt_i32("statfs_result_fsid", member(56, Part::I32))
            .opt_i64("statfs_result_namelen", member(64, Part::I64))
            .opt_i64("statfs_result_frsize", member(72, Part::I64))
            .opt_i64("statfs_result_flags", member(80, Part::I64));
        let flags = place(80, Part::I64);
        STATFS_BITS.iter().fold(this, |this, &(name, mask)| {
            this.bool(name, Source::MemberBits { member: flags, mask, value: mask })
        })
    }

    /// Returns a member of a structure that the kernel wrote.
    pub fn output_member(argument: u8, offset: u16, part: Part) -> Source {
        Source::Member(Member { argument, side: Side::Output, offset, part })
    }

    /// Returns a member of a structure that the call read.
    pub fn input_member(argument: u8, offset: u16, part: Part) -> Source {
        Source::Member(Member { argument, side: Side::Input, offset, part })
    }

    /// Sets the rows that the call takes.
    pub fn rows(mut self, rows: Rows) -> Self {
        self.rows = rows;
        self
    }
}

const MODE_BITS: [(&str, u64); 12] = [
    ("mode_uid", 0o4000),
    ("mode_gid", 0o2000),
    ("mode_sticky_bit", 0o1000),
    ("mode_R_user", 0o400),
    ("mode_W_user", 0o200),
    ("mode_X_user", 0o100),
    ("mode_R_group", 0o40),
    ("mode_W_group", 0o20),
    ("mode_X_group", 0o10),
    ("mode_R_others", 0o4),
    ("mode_W_others", 0o2),
    ("mode_X_others", 0o1),
];

/// The bits that `fstatfs` has, too. `statfs` has one more.
const STATFS_BITS: [(&str, u64); 9] = [
    ("statfs_result_flags_mandatory_lock", 0x40),
    ("statfs_result_flags_no_access_time", 0x400),
    ("statfs_result_flags_no_dev", 4),
    ("statfs_result_flags_no_directory_access_time", 0x800),
    ("statfs_result_flags_no_exec", 8),
    ("statfs_result_flags_no_set_uid", 2),
    ("statfs_result_flags_read_only", 1),
    ("statfs_result_flags_relative_access_time", 0x1000),
    ("statfs_result_flags_synchronous", 0x10),
];
