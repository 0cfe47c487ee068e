//! Types for the calls for which RE-ANIMATOR has none. They are made from the system-call table.
//!
//! Names of fields follow RE-ANIMATOR's: `descriptor`, `given_pathname`, `full_pathname`,
//! `flags_value`, `mode_value`.

use retake_model::table::{
    Argument, ArgumentKind, CallRow, Direction, LengthRule, Pointer, Shape, ValueType, call_by_name,
};

use super::describe_type::{CallType, Rows, call};
use super::rule::{Member, Part, Side, Source, When};
use crate::BufferDirection::{Input, Output};

/// The calls with a type of their own. All others share one type.
const CALLS: &[&str] = &[
    "preadv",
    "pwritev",
    "preadv2",
    "pwritev2",
    "getdents64",
    "statx",
    "renameat",
    "renameat2",
    "readlinkat",
    "fchmodat2",
    "faccessat2",
    "fchown",
    "lchown",
    "fchownat",
    "futimesat",
    "openat2",
    "open_by_handle_at",
    "name_to_handle_at",
    "pipe2",
    "close_range",
    "copy_file_range",
    "sendfile",
    "splice",
    "tee",
    "vmsplice",
    "sync",
    "syncfs",
    "fadvise64",
    "getcwd",
    "mremap",
    "mprotect",
    "msync",
    "madvise",
    "brk",
    "mount",
    "umount2",
    "setxattrat",
    "getxattrat",
    "listxattrat",
    "removexattrat",
    "file_getattr",
    "file_setattr",
    "clone3",
    "execveat",
    "wait4",
    "waitid",
    "kill",
    "prlimit64",
    "memfd_create",
    "eventfd2",
    "signalfd4",
    "timerfd_create",
    "inotify_init1",
    "inotify_add_watch",
    "epoll_ctl",
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "poll",
    "ppoll",
    "futex",
    "getrandom",
    "recvmmsg",
    "sendmmsg",
    "io_setup",
    "io_submit",
    "io_getevents",
    "io_destroy",
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
];

/// Returns our own types.
pub(super) fn types() -> Vec<CallType> {
    CALLS
        .iter()
        .map(|name| own_type(call_by_name(name).expect("the system-call table has it")))
        .collect()
}

fn own_type(row: &'static CallRow) -> CallType {
    let mut this = call(row.name);
    for (index, argument) in row.row.arguments.iter().enumerate() {
        this = add_argument(this, row, index as u8, argument);
    }
    match row.name {
        "copy_file_range" | "splice" => this.read("data_moved", 4, 4),
        "sendfile" => this.read("data_moved", 3, 3),
        "tee" => this.read("data_moved", 2, 2),
        "statx" => statx(this),
        "openat2" => openat2(this),
        "clone3" => clone3(this),
        "prlimit64" => prlimit64(this),
        _ => this,
    }
}

fn add_argument(
    this: CallType,
    row: &'static CallRow,
    index: u8,
    argument: &'static Argument,
) -> CallType {
    let name = argument.name;
    match &argument.kind {
        ArgumentKind::Value(value_type) => add_value(this, index, name, *value_type),
        ArgumentKind::Pointer(pointer) => add_pointer(this, row, index, name, pointer),
    }
}

fn add_value(this: CallType, index: u8, name: &'static str, value_type: ValueType) -> CallType {
    let source = Source::Argument(index);
    match value_type {
        ValueType::DirectoryDescriptor => {
            let name = descriptor_name(name);
            this.i32(name, source).bool(
                format!("{name}_current_working_directory").leak(),
                Source::CurrentDirectory(index),
            )
        }
        ValueType::Descriptor => this.i32(descriptor_name(name), source),
        ValueType::Mode => this.mode(index, When::Always),
        ValueType::Flags(_) | ValueType::Command => this.i32(value_name(name), source),
        ValueType::Int
        | ValueType::Uint
        | ValueType::Pid
        | ValueType::Uid
        | ValueType::Gid
        | ValueType::Signal
        | ValueType::Clock => this.i32(name, source),
        _ => this.i64(name, source),
    }
}

/// Renames `flags` to `flags_value`, because the field is the number, not a bit.
fn value_name(name: &'static str) -> &'static str {
    match name {
        "flags" => "flags_value",
        "mode" => "mode_value",
        other => other,
    }
}

/// Renames `in_fd` to `in_descriptor`, and `old_directory` to `old_descriptor`.
fn descriptor_name(name: &'static str) -> &'static str {
    for short in ["directory", "fd"] {
        if let Some(start) = name.strip_suffix(short) {
            return format!("{start}descriptor").leak();
        }
    }
    name
}

fn add_pointer(
    this: CallType,
    row: &'static CallRow,
    index: u8,
    name: &'static str,
    pointer: &'static Pointer,
) -> CallType {
    match pointer.shape {
        Shape::String if pointer.element == "path" => add_path(this, row, index, name),
        Shape::String => this.bytes(name, Source::Text(index)),
        Shape::Iovec if pointer.direction != Direction::InOut => {
            let direction = if pointer.direction == Direction::In { Input } else { Output };
            let data = if direction == Input { "iov_data_written" } else { "iov_data_read" };
            this.i32("iov_number", Source::VectorIndex)
                .i64("bytes_requested", Source::VectorBytes)
                .bytes(data, Source::VectorData)
                .rows(Rows::Vector { argument: index, message: false, direction })
        }
        // The first list of strings has added the second one, too.
        Shape::Strings if this.rows != Rows::One => this,
        Shape::Strings => this
            .i32("continuation_number", Source::ExecIndex)
            .bytes("argument", Source::ExecArgument)
            .bytes("environment", Source::ExecEnvironment)
            .rows(Rows::Exec { path: index - 1 }),
        Shape::Plain => add_plain(this, index, name, pointer),
        _ => this,
    }
}

/// Adds a path. It is relative to the directory in the argument before it, if that is one.
fn add_path(this: CallType, row: &'static CallRow, index: u8, name: &'static str) -> CallType {
    let before = index.checked_sub(1).filter(|before| {
        let argument = &row.row.arguments[usize::from(*before)];
        matches!(argument.kind, ArgumentKind::Value(ValueType::DirectoryDescriptor))
    });
    let name =
        if name.ends_with("path") { format!("{name}name") } else { format!("{name}_pathname") };
    this.path_named(format!("given_{name}").leak(), format!("full_{name}").leak(), before, index)
}

fn add_plain(this: CallType, index: u8, name: &'static str, pointer: &'static Pointer) -> CallType {
    let number = match (pointer.element, pointer.length) {
        ("i32" | "u32", LengthRule::Constant) => Some(Part::I32),
        ("i64" | "u64", LengthRule::Constant) => Some(Part::I64),
        _ => None,
    };
    match (number, pointer.count) {
        (Some(part), 1) => add_number(this, index, name, pointer.direction, part),
        (Some(Part::I32), 2) if name == "fds" => this
            .i32("read_descriptor", CallType::output_member(index, 0, Part::I32))
            .i32("write_descriptor", CallType::output_member(index, 4, Part::I32)),
        _ => add_buffer(this, index, name, pointer),
    }
}

fn add_number(
    this: CallType,
    index: u8,
    name: &'static str,
    direction: Direction,
    part: Part,
) -> CallType {
    let input = CallType::input_member(index, 0, part);
    let output = CallType::output_member(index, 0, part);
    match direction {
        Direction::In => this.opt_i64(name, input),
        Direction::Out => this.opt_i64(name, output),
        Direction::InOut => {
            this.opt_i64(name, input).opt_i64(format!("{name}_after").leak(), output)
        }
    }
}

fn add_buffer(
    this: CallType,
    index: u8,
    name: &'static str,
    pointer: &'static Pointer,
) -> CallType {
    match (pointer.direction, pointer.length) {
        (Direction::In, _) => this.whole(name, index, Input),
        (Direction::Out, LengthRule::ResultMaxArgument(size)) if pointer.element_bytes == 1 => {
            this.read(name, index, size)
        }
        (Direction::Out, _) => this.whole(name, index, Output),
        (Direction::InOut, _) => {
            this.whole(name, index, Input).whole(format!("{name}_after").leak(), index, Output)
        }
    }
}

/// Adds the members of `struct statx` behind argument 4.
fn statx(this: CallType) -> CallType {
    let member =
        |offset, part| Source::Member(Member { argument: 4, side: Side::Output, offset, part });
    this.opt_i32("stat_result_mode", member(28, Part::U16))
        .opt_i32("stat_result_nlink", member(16, Part::U32))
        .opt_i32("stat_result_uid", member(20, Part::U32))
        .opt_i32("stat_result_gid", member(24, Part::U32))
        .opt_i64("stat_result_ino", member(32, Part::I64))
        .opt_i64("stat_result_size", member(40, Part::I64))
        .opt_i64("stat_result_blocks", member(48, Part::I64))
        .opt_i64("stat_result_atime", member(64, Part::Timespec))
        .opt_i64("stat_result_btime", member(80, Part::Timespec))
        .opt_i64("stat_result_ctime", member(96, Part::Timespec))
        .opt_i64("stat_result_mtime", member(112, Part::Timespec))
        .opt_i32("stat_result_dev_major", member(136, Part::U32))
        .opt_i32("stat_result_dev_minor", member(140, Part::U32))
}

/// Adds the members of `struct open_how` behind argument 2.
fn openat2(this: CallType) -> CallType {
    this.opt_i64("open_value", CallType::input_member(2, 0, Part::I64))
        .opt_i64("mode_value", CallType::input_member(2, 8, Part::I64))
        .opt_i64("resolve_value", CallType::input_member(2, 16, Part::I64))
}

/// Adds the members of `struct clone_args` behind argument 0.
fn clone3(this: CallType) -> CallType {
    const MEMBERS: [&str; 8] = [
        "flag_value",
        "pidfd_address",
        "child_thread_id_address",
        "parent_thread_id_address",
        "exit_signal",
        "stack_address",
        "stack_size",
        "new_tls",
    ];
    let numbered = MEMBERS.iter().zip(0_u16..);
    numbered.fold(this, |this, (name, index)| {
        this.opt_i64(name, CallType::input_member(0, index * 8, Part::I64))
    })
}

/// Adds the members of `struct rlimit64` behind arguments 2 and 3.
fn prlimit64(this: CallType) -> CallType {
    this.opt_i64("new_soft_limit", CallType::input_member(2, 0, Part::I64))
        .opt_i64("new_hard_limit", CallType::input_member(2, 8, Part::I64))
        .opt_i64("old_soft_limit", CallType::output_member(3, 0, Part::I64))
        .opt_i64("old_hard_limit", CallType::output_member(3, 8, Part::I64))
}
