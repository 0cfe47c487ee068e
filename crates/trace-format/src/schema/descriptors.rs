//! Calls on open descriptors.

use super::describe_type::{CallType, Rows, call};
use super::files::{command, open_bits};
use super::rule::Source::{self, Argument};
use super::rule::{Member, Part, Side, When};
use crate::BufferDirection::{Input, Output};

/// Returns RE-ANIMATOR's types for these calls.
pub(super) fn types() -> Vec<CallType> {
    let mut types = transfers();
    types.extend(files());
    types.extend([fcntl(), mmap()]);
    types
}

fn sized(name: &'static str) -> CallType {
    call(name).descriptor().i64("bytes_requested", Argument(2))
}

fn vector(name: &'static str) -> CallType {
    call(name)
        .opt_i32("descriptor", Argument(0))
        .when(When::FirstRow)
        .opt_i32("count", Argument(2))
        .when(When::FirstRow)
        .i32("iov_number", Source::VectorIndex)
        .i64("bytes_requested", Source::VectorBytes)
}

fn transfers() -> Vec<CallType> {
    vec![
        sized("read").read("data_read", 1, 2),
        sized("write").written("data_written", 1, 2),
        sized("pread").of(&["pread64"]).i64("offset", Argument(3)).read("data_read", 1, 2),
        sized("pwrite").of(&["pwrite64"]).i64("offset", Argument(3)).written("data_written", 1, 2),
        vector("readv").bytes("iov_data_read", Source::VectorData).rows(Rows::Vector {
            argument: 1,
            message: false,
            direction: Output,
        }),
        vector("writev").bytes("iov_data_written", Source::VectorData).rows(Rows::Vector {
            argument: 1,
            message: false,
            direction: Input,
        }),
        call("getdents").descriptor().read("dirent_buffer", 1, 2).i32("count", Argument(2)),
        call("ioctl")
            .descriptor()
            .i32("request", Argument(1))
            .opt_i64("parameter", Argument(2))
            .bytes("ioctl_buffer", Source::Copy(2))
            .i64("buffer_size", Source::CopyBytes(2)),
    ]
}

fn files() -> Vec<CallType> {
    vec![
        call("close").descriptor(),
        call("lseek")
            .descriptor()
            .i64("offset", Argument(1))
            .opt_i32("whence_value", Argument(2))
            .byte("whence", Argument(2)),
        call("fstat").descriptor().stat(1),
        call("fstatfs").descriptor().statfs(1),
        call("fsync").descriptor(),
        call("fdatasync").descriptor(),
        call("ftruncate").descriptor().i64("truncate_length", Argument(1)),
        call("fallocate")
            .descriptor()
            .i32("mode_value", Argument(1))
            .i64("allocate_offset", Argument(2))
            .i64("allocate_len", Argument(3)),
        call("readahead")
            .descriptor()
            .i64("readahead_size", Argument(2))
            .i64("readahead_off", Argument(1)),
        call("sync_file_range").descriptor().i64("offset", Argument(1)).i32("flags", Argument(3)),
        call("fchdir").descriptor(),
        call("fchmod").descriptor().mode(1, When::Always),
        call("flock")
            .descriptor()
            .i32("operation_value", Argument(1))
            .byte("operation", Argument(1)),
        call("dup").descriptor(),
        call("dup2").i32("old_descriptor", Argument(0)).i32("new_descriptor", Argument(1)),
        call("dup3")
            .i32("old_descriptor", Argument(0))
            .i32("new_descriptor", Argument(1))
            .i32("flags", Argument(2)),
        call("pipe")
            .i32("read_descriptor", CallType::output_member(0, 0, Part::I32))
            .i32("write_descriptor", CallType::output_member(0, 4, Part::I32)),
        call("epoll_create").i32("epoll_size", Argument(0)),
        call("epoll_create1").i32("epoll_flags", Argument(0)),
    ]
}

const GET_LOCK: &[u32] = &[5, 36];
const SET_LOCK: &[u32] = &[6, 37];
const SET_LOCK_WAIT: &[u32] = &[7, 38];
const LOCKS: &[u32] = &[5, 6, 7, 36, 37, 38];
const SET_DESCRIPTOR: &[u32] = &[2];
const SET_STATUS: &[u32] = &[4];
const SET_LEASE: &[u32] = &[1024];
const NOTIFY: &[u32] = &[1026];
/// The commands whose argument is a number.
const NUMBERS: &[u32] = &[0, 2, 4, 8, 10, 1024, 1026, 1027, 1030, 1031, 1033];

fn fcntl() -> CallType {
    let this = call("fcntl")
        .descriptor()
        .opt_i32("command_value", Argument(1))
        .opt_i32("argument_value", Argument(2))
        .when(When::OneOf(1, NUMBERS))
        .bool("command_dup", command(&[0, 1030]))
        .bool("command_get_descriptor_flags", command(&[1]))
        .bool("command_set_descriptor_flags", command(SET_DESCRIPTOR))
        .bool("command_get_status_flags", command(&[3]))
        .bool("command_set_status_flags", command(SET_STATUS))
        .bool("command_get_lock", command(GET_LOCK))
        .bool("command_set_lock", command(SET_LOCK))
        .bool("command_set_lock_wait", command(SET_LOCK_WAIT))
        .bool("command_set_process_id", command(&[8]))
        .bool("command_get_process_id", command(&[9]))
        .bool("command_set_signal", command(&[10]))
        .bool("command_get_signal", command(&[11]))
        .bool("command_set_lease", command(SET_LEASE))
        .bool("command_get_lease", command(&[1025]))
        .bool("command_notify", command(NOTIFY))
        .is("argument_descriptor_flag_exec_close", 2, 1, 1)
        .when(When::OneOf(1, SET_DESCRIPTOR));
    fcntl_lock(fcntl_argument(this))
}

/// Adds fields for values of argument 2 that mean something only with some commands.
fn with(this: CallType, commands: &'static [u32], names: &[(&'static str, u64, u64)]) -> CallType {
    names.iter().fold(this, |this, &(name, mask, value)| {
        this.is(name, 2, mask, value).when(When::OneOf(1, commands))
    })
}

fn fcntl_argument(this: CallType) -> CallType {
    let status = open_bits!("argument_status_flag_").map(|(name, mask)| (name, mask, mask));
    let access = [
        ("argument_status_flag_read_only", 3, 0),
        ("argument_status_flag_write_only", 3, 1),
        ("argument_status_flag_read_and_write", 3, 2),
    ];
    let lease = [
        ("argument_lease_read", 3, 0),
        ("argument_lease_write", 3, 1),
        ("argument_lease_remove", 3, 2),
    ];
    let notify = [
        ("argument_notify_access", 1, 1),
        ("argument_notify_modify", 2, 2),
        ("argument_notify_create", 4, 4),
        ("argument_notify_delete", 8, 8),
        ("argument_notify_rename", 0x10, 0x10),
        ("argument_notify_attribute", 0x20, 0x20),
    ];
    let this = with(this, SET_STATUS, &access);
    let this = with(this, SET_STATUS, &status);
    with(with(this, SET_LEASE, &lease), NOTIFY, &notify)
}

fn fcntl_lock(this: CallType) -> CallType {
    let place = |offset, part| Member { argument: 2, side: Side::Either, offset, part };
    let (kind, whence) = (place(0, Part::I16), place(2, Part::I16));
    let numbers = [
        ("lock_type", kind),
        ("lock_whence", whence),
        ("lock_start", place(8, Part::I64)),
        ("lock_length", place(16, Part::I64)),
        ("lock_pid", place(24, Part::I32)),
    ];
    let names = [
        ("lock_type_read", kind, 0),
        ("lock_type_write", kind, 1),
        ("lock_type_unlocked", kind, 2),
        ("lock_whence_start", whence, 0),
        ("lock_whence_current", whence, 1),
        ("lock_whence_end", whence, 2),
    ];
    let this = numbers.iter().fold(this, |this, &(name, member)| {
        this.opt_i32(name, Source::Member(member)).when(When::OneOf(1, LOCKS))
    });
    names.iter().fold(this, |this, &(name, member, value)| {
        this.bool(name, Source::MemberBits { member, mask: 0xffff, value })
            .when(When::OneOf(1, LOCKS))
    })
}

fn mmap() -> CallType {
    call("mmap")
        .i64("start_address", Argument(0))
        .i64("length", Argument(1))
        .opt_i32("protection_value", Argument(2))
        .bits(2, &[("protection_exec", 4), ("protection_read", 1), ("protection_write", 2)])
        .is("protection_none", 2, 7, 0)
        .opt_i32("flags_value", Argument(3))
        // Bit 0 is set in MAP_SHARED_VALIDATE (3), too, which is also shared.
        .is("flag_shared", 3, 1, 1)
        .is("flag_private", 3, 3, 2)
        .is("flag_file", 3, 0x20, 0)
        .bits(
            3,
            &[
                ("flag_fixed", 0x10),
                ("flag_anonymous", 0x20),
                ("flag_32bit", 0x40),
                ("flag_grows_down", 0x100),
                ("flag_denywrite", 0x800),
                ("flag_executable", 0x1000),
                ("flag_locked", 0x2000),
                ("flag_no_reserve", 0x4000),
                ("flag_populate", 0x8000),
                ("flag_non_block", 0x1_0000),
                ("flag_stack", 0x2_0000),
                ("flag_huge_tlb", 0x4_0000),
            ],
        )
        .i32("descriptor", Argument(4))
        .i64("offset", Argument(5))
}
