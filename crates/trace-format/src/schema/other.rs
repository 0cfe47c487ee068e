//! Types that are not for one call: calls without a type of their own, buffers, starts of
//! processes, and the trace itself.

use super::rule::Kind::{self, Bool, Bytes, Int32, Int64};

/// A field that the rules do not fill, but code of its own.
#[derive(Debug, Clone, Copy)]
pub struct PlainField {
    /// Its name.
    pub name: &'static str,
    /// The kind of its values.
    pub kind: Kind,
    /// Whether it can be null.
    pub nullable: bool,
    /// Whether an extent stores equal values once.
    pub unique: bool,
    /// Its meaning and unit.
    pub meaning: &'static str,
}

const fn field(name: &'static str, kind: Kind, meaning: &'static str) -> PlainField {
    PlainField { name, kind, nullable: false, unique: false, meaning }
}

const fn nullable(name: &'static str, kind: Kind, meaning: &'static str) -> PlainField {
    PlainField { name, kind, nullable: true, unique: false, meaning }
}

const fn repeated(name: &'static str, meaning: &'static str) -> PlainField {
    PlainField { name, kind: Bytes, nullable: false, unique: true, meaning }
}

/// The first fields of every call's type, sorted by name.
pub const COMMON: [PlainField; 14] = [
    nullable(
        "buffer_not_captured",
        Bool,
        "whether data that the call read or wrote are missing from the trace, or are cut short",
    ),
    nullable(
        "errno_number",
        Int32,
        "error number; 0 if the call succeeded, null if it never returned",
    ),
    PlainField {
        name: "errno_string",
        kind: Bytes,
        nullable: true,
        unique: true,
        meaning: "name of the error, such as `ENOENT`; null if there is none",
    },
    nullable("executing_pgid", Int32, "process group of the process, if known"),
    nullable("executing_pid", Int32, "process id"),
    nullable("executing_ppid", Int32, "process id of the parent when the process began, if known"),
    nullable("executing_sid", Int32, "session of the process, if known"),
    nullable("executing_tid", Int32, "thread id"),
    nullable(
        "executing_uid",
        Int32,
        "real user id when the process began; null if it is not known, or the process changed it",
    ),
    nullable("return_value", Int64, "result; -1 if the call failed, null if it never returned"),
    nullable(
        "time_called",
        Int64,
        "when the call was entered: real time in nanoseconds since 1970",
    ),
    nullable(
        "time_recorded",
        Int64,
        "when the record was made; always null, since nobody needs it",
    ),
    nullable(
        "time_returned",
        Int64,
        "when the call returned: real time in nanoseconds since 1970; null if it never did",
    ),
    field("unique_id", Int64, "place of the call in the trace; all rows of one call have the same"),
];

/// Every call's type ends with this field, [`PROCESSOR`], and sometimes [`ADDRESS`]. The fields of
/// [`ARGUMENTS`] come before them.
pub const NUMBER: PlainField = nullable(
    "retake_call_number",
    Int32,
    "system call number of x86-64; null in rows that were made for other programs and stand for \
    no call",
);
/// See [`NUMBER`].
pub const PROCESSOR: PlainField =
    nullable("retake_processor", Int32, "number of the processor on which the call returned");
/// The address of a row's buffer, in types with several rows for a call.
pub const ADDRESS: PlainField = nullable(
    "retake_address",
    Int64,
    "where the data of this row were in memory; null if the row stands for no buffer",
);

/// The names of the fields for argument registers.
pub const ARGUMENTS: [&str; 6] = [
    "retake_argument_0",
    "retake_argument_1",
    "retake_argument_2",
    "retake_argument_3",
    "retake_argument_4",
    "retake_argument_5",
];

/// A type that is not made from rules.
#[derive(Debug)]
pub struct PlainType {
    /// Its full name.
    pub name: &'static str,
    /// The meaning of its records.
    pub meaning: &'static str,
    /// Its fields.
    pub fields: &'static [PlainField],
    /// Whether RE-ANIMATOR defined it. Then its first fields are [`COMMON`].
    pub is_foreign: bool,
}

const ID: PlainField = field("unique_id", Int64, "id of the record that this belongs to");
const TIME: PlainField = field("time_ns", Int64, "real time in nanoseconds since 1970");
const PROCESS: PlainField = field("executing_pid", Int32, "process id");
const THREAD: PlainField = field("executing_tid", Int32, "thread id");

const MAPPED_BYTES: PlainField = field("bytes_requested", Int64, "how many bytes");
const MAPPED_DESCRIPTOR: PlainField = field("descriptor", Int32, "-1: mapped pages have none");
const MAPPED_OFFSET: PlainField = field("offset", Int64, "offset in the file, in bytes");
const MAPPED_PATH: PlainField = nullable("retake_path", Bytes, "absolute path of the file");

/// All types that are not made from rules. The constants below are positions in it.
pub const PLAIN: [PlainType; 9] = [
    PlainType {
        name: "Retake::Trace::Header",
        meaning: "What the file is: one record, the first.",
        fields: &[
            field("format_version", Int32, "version of these types: 1"),
            field(
                "table_hash",
                Int64,
                "hash of the system-call table that the trace was made with",
            ),
            field("producer", Bytes, "what wrote the file"),
        ],
        is_foreign: false,
    },
    PlainType {
        name: "Retake::Trace::Buffer",
        meaning: "Memory behind a pointer argument that no field of the call's own record stands \
                  for. A field stands for a buffer if it is not null and no such record has the \
                  same `unique_id`, `argument` and `is_output`.",
        fields: &[
            field("unique_id", Int64, "id of the call"),
            field("position", Int32, "place of this buffer among all buffers of the call, from 0"),
            field("argument", Kind::Byte, "index of the argument, from 0"),
            field("is_output", Bool, "whether the kernel wrote it; otherwise the call read it"),
            field("address", Int64, "where it was in memory"),
            field("total_bytes", Int64, "how long it was"),
            field("data", Bytes, "its bytes, or the first of them if the trace keeps no more"),
        ],
        is_foreign: false,
    },
    PlainType {
        name: "Retake::Trace::ProcessStart",
        meaning: "The state that a process had when its part of the trace began.",
        fields: &[
            field("unique_id", Int64, "place of the record in the trace"),
            TIME,
            PROCESS,
            THREAD,
            field("parent_pid", Int32, "process id of the parent"),
            field("session", Int32, "session id; 0 if unknown"),
            field("process_group", Int32, "process group id; 0 if unknown"),
            repeated("how", "`exec`, `fork` or `attach`: why it begins here"),
            repeated("working_directory", "absolute path of the working directory"),
            repeated("root", "absolute path of the root directory"),
            field("umask", Int32, "mode bits that new files do not get"),
            field("uid", Int32, "real user id"),
            field("effective_uid", Int32, "effective user id"),
            field("saved_uid", Int32, "saved user id"),
            field("filesystem_uid", Int32, "user id for access to files"),
            field("gid", Int32, "real group id"),
            field("effective_gid", Int32, "effective group id"),
            field("saved_gid", Int32, "saved group id"),
            field("filesystem_gid", Int32, "group id for access to files"),
            field(
                "groups",
                Bytes,
                "supplementary groups as decimal numbers with a space between them",
            ),
            field("executable", Bytes, "absolute path of the program"),
            field("arguments", Bytes, "arguments of the program, each with a NUL behind it"),
        ],
        is_foreign: false,
    },
    PlainType {
        name: "Retake::Trace::Descriptor",
        meaning: "A descriptor that was open when a process began.",
        fields: &[
            ID,
            field("descriptor", Int32, "its number"),
            field(
                "path",
                Bytes,
                "what `/proc/PID/fd` says: a path, or a text such as `pipe:[123]`",
            ),
            repeated(
                "kind",
                "`file`, `directory`, `character-device`, `block-device`, `pipe`, `socket`, \
                `symbolic-link`, `anonymous` or `unknown`",
            ),
            field("offset", Int64, "file position in bytes"),
            field("flags_value", Int32, "flags of `open`, with `O_CLOEXEC` if it closes on exec"),
        ],
        is_foreign: false,
    },
    PlainType {
        name: "Retake::Trace::Limit",
        meaning: "A resource limit of a process when it began.",
        fields: &[
            ID,
            field("resource", Int32, "number of the resource: `RLIMIT_*`"),
            field("soft_limit", Int64, "soft limit; -1 is unlimited"),
            field("hard_limit", Int64, "hard limit; -1 is unlimited"),
        ],
        is_foreign: false,
    },
    PlainType {
        name: "Retake::Trace::Incomplete",
        meaning: "Records are missing from the trace.",
        fields: &[
            nullable(
                "after_id",
                Int64,
                "id of the last record before the gap; null if it is at the beginning",
            ),
            field("reason", Bytes, "why"),
        ],
        is_foreign: false,
    },
    PlainType {
        name: "Retake::Trace::End",
        meaning: "The trace was written to its end: one record, the last. A trace without it was \
        cut off.",
        fields: &[
            field("records", Int64, "how many records with an id the trace has"),
            nullable("last_id", Int64, "the id of the last of them; null if there are none"),
        ],
        is_foreign: false,
    },
    PlainType {
        name: "IOTTAFSL::Trace::Syscall::mmappread",
        meaning: "Pages of a file that were read through a mapping. Its first fields are those \
        common to all calls.",
        fields: &[
            field("address", Int64, "where the bytes were in memory"),
            MAPPED_BYTES,
            nullable("data_read", Bytes, "the bytes"),
            MAPPED_DESCRIPTOR,
            MAPPED_OFFSET,
            MAPPED_PATH,
        ],
        is_foreign: true,
    },
    PlainType {
        name: "IOTTAFSL::Trace::Syscall::mmappwrite",
        meaning: "Pages of a file that were written through a mapping. Its first fields are those \
        common to all calls.",
        fields: &[
            MAPPED_BYTES,
            nullable("data_written", Bytes, "the bytes"),
            MAPPED_DESCRIPTOR,
            MAPPED_OFFSET,
            MAPPED_PATH,
            ADDRESS,
        ],
        is_foreign: true,
    },
];

/// Positions in [`PLAIN`].
pub const HEADER: usize = 0;
/// See [`HEADER`].
pub const BUFFER: usize = 1;
/// See [`HEADER`].
pub const PROCESS_START: usize = 2;
/// See [`HEADER`].
pub const DESCRIPTOR: usize = 3;
/// See [`HEADER`].
pub const LIMIT: usize = 4;
/// See [`HEADER`].
pub const INCOMPLETE: usize = 5;
/// See [`HEADER`].
pub const END: usize = 6;
/// See [`HEADER`].
pub const MAPPED_READ: usize = 7;
/// See [`HEADER`].
pub const MAPPED_WRITE: usize = 8;
