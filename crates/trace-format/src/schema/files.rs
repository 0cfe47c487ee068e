//! Calls on files by path, and on the contents of files.

use super::describe_type::{CallType, call};
use super::rule::Source::{self, Argument, OneOf};
use super::rule::{Part, When};
use crate::BufferDirection::Input;

/// The flags with which `open` has a mode: `O_CREAT`, and the bit by which `O_TMPFILE` differs from
/// `O_DIRECTORY`.
const CREATES: u64 = 0x40 | 0x40_0000;

/// Flags of `open`, under names that begin with `flag_` or with `argument_status_flag_`.
macro_rules! open_bits {
    ($prefix:literal) => {
        [
            (concat!($prefix, "append"), 0x400),
            (concat!($prefix, "async"), 0x2000),
            (concat!($prefix, "create"), 0x40),
            (concat!($prefix, "direct"), 0x4000),
            (concat!($prefix, "directory"), 0x1_0000),
            (concat!($prefix, "exclusive"), 0x80),
            (concat!($prefix, "largefile"), 0x8000),
            (concat!($prefix, "no_access_time"), 0x4_0000),
            (concat!($prefix, "no_controlling_terminal"), 0x100),
            (concat!($prefix, "no_follow"), 0x2_0000),
            (concat!($prefix, "no_blocking_mode"), 0x800),
            (concat!($prefix, "no_delay"), 0x800),
            (concat!($prefix, "synchronous"), 0x10_1000),
            (concat!($prefix, "truncate"), 0x200),
        ]
    };
}
pub(super) use open_bits;

fn open_flags(this: CallType, argument: u8) -> CallType {
    this.opt_i32("open_value", Argument(argument))
        .is("flag_read_only", argument, 3, 0)
        .is("flag_write_only", argument, 3, 1)
        .is("flag_read_and_write", argument, 3, 2)
        .bits(argument, &[("flag_close_on_exec", 0x8_0000)])
        .bits(argument, &open_bits!("flag_"))
        .mode(argument + 1, When::AnyBit(argument, CREATES))
}

fn access_mode(this: CallType, argument: u8) -> CallType {
    this.opt_i32("mode_value", Argument(argument))
        .bits(argument, &[("mode_read", 4), ("mode_write", 2), ("mode_execute", 1)])
        .is("mode_exist", argument, 7, 0)
}

fn xattr_flags(this: CallType, argument: u8) -> CallType {
    this.opt_i32("flag_value", Argument(argument))
        .bits(argument, &[("flag_xattr_create", 1), ("flag_xattr_replace", 2)])
}

fn node(this: CallType, mode: u8) -> CallType {
    this.i32("mode_value", Argument(mode))
        .byte("type", Source::FileKind(mode))
        .mode_bits(mode, When::Always)
        .opt_i32("dev", Argument(mode + 1))
}

fn set_xattr(this: CallType) -> CallType {
    xattr_flags(
        this.bytes("xattr_name", Source::Text(1)).i64("value_size", Argument(3)).whole(
            "value_written",
            2,
            Input,
        ),
        4,
    )
}

fn get_xattr(this: CallType) -> CallType {
    this.bytes("xattr_name", Source::Text(1)).i64("value_size", Argument(3)).read(
        "value_read",
        2,
        3,
    )
}

fn list_xattr(this: CallType) -> CallType {
    this.read("xattr_list", 1, 2).i64("list_size", Argument(2))
}

fn times(this: CallType, argument: u8, part: Part, step: u16) -> CallType {
    this.opt_i64("access_time", CallType::input_member(argument, 0, part))
        .opt_i64("mod_time", CallType::input_member(argument, step, part))
}

/// Returns RE-ANIMATOR's types for these calls.
pub(super) fn types() -> Vec<CallType> {
    let mut types = opening();
    types.extend(names());
    types.extend(attributes());
    types.extend(xattrs());
    types
}

fn opening() -> Vec<CallType> {
    vec![
        open_flags(call("open").path(0), 1),
        open_flags(call("openat").directory().path_at(1), 2),
        call("creat").path(0).mode(1, When::Always),
        node(call("mknod").path(0), 1),
        node(call("mknodat").descriptor().path_at(1), 2),
        call("chdir").path(0),
        call("chroot").path(0),
        call("umask").mode(0, When::Always),
        call("truncate").path(0).i64("truncate_length", Argument(1)),
        call("statfs").path(0).statfs(1).bool(
            "statfs_result_flags_valid",
            Source::MemberBits {
                member: super::rule::Member {
                    argument: 1,
                    side: super::rule::Side::Output,
                    offset: 80,
                    part: Part::I64,
                },
                mask: 0x20,
                value: 0x20,
            },
        ),
    ]
}

fn names() -> Vec<CallType> {
    vec![
        call("mkdir").path(0).mode(1, When::Always),
        call("mkdirat").directory().path_at(1).mode(2, When::Always),
        call("rmdir").path(0),
        call("link")
            .required_bytes("given_oldpathname", Source::Text(0))
            .bytes("full_oldpathname", Source::FullPath { directory: None, path: 0 })
            .path_named("given_newpathname", "full_newpathname", None, 1),
        call("linkat")
            .i32("old_descriptor", Argument(0))
            .bool("old_descriptor_current_working_directory", Source::CurrentDirectory(0))
            .path_named("given_oldpathname", "full_oldpathname", Some(0), 1)
            .i32("new_descriptor", Argument(2))
            .bool("new_descriptor_current_working_directory", Source::CurrentDirectory(2))
            .path_named("given_newpathname", "full_newpathname", Some(2), 3)
            .opt_i32("flag_value", Argument(4))
            .bits(4, &[("flag_empty_path", 0x1000), ("flag_symlink_follow", 0x400)]),
        call("unlink").path(0),
        call("unlinkat")
            .directory()
            .path_at(1)
            .opt_i32("flag_value", Argument(2))
            .bits(2, &[("flag_remove_directory", 0x200)]),
        call("symlink").bytes("target_pathname", Source::Text(0)).path(1),
        call("symlinkat")
            .bytes("target_pathname", Source::Text(0))
            .i32("new_descriptor", Argument(1))
            .bool("new_descriptor_current_working_directory", Source::CurrentDirectory(1))
            .path_named("given_pathname", "full_pathname", Some(1), 2),
        call("readlink").path(0).read("link_value", 1, 2).opt_i32("buffer_size", Argument(2)),
        call("rename").path_named("given_oldname", "full_oldname", None, 0).path_named(
            "given_newname",
            "full_newname",
            None,
            1,
        ),
    ]
}

fn attributes() -> Vec<CallType> {
    const NOW_OR_OMIT: [u32; 2] = [0x3fff_ffff, 0x3fff_fffe];
    vec![
        call("stat").path(0).stat(1),
        call("lstat").path(0).stat(1),
        call("fstatat")
            .of(&["newfstatat"])
            .descriptor()
            .bytes("given_pathname", Source::Text(1))
            .stat(2)
            .opt_i32("flags_value", Argument(3))
            .bits(
                3,
                &[
                    ("flags_at_empty_path", 0x1000),
                    ("flags_at_no_automount", 0x800),
                    ("flags_at_symlink_nofollow", 0x100),
                ],
            ),
        access_mode(call("access").path(0), 1),
        // The kernel's call has no flags. The C library handles those of its function itself.
        access_mode(call("faccessat").descriptor().path_at(1), 2)
            .opt_i32("flags_value", Source::Unknown)
            .bool("flags_at_eaccess", Source::Unknown)
            .bool("flags_at_symlink_nofollow", Source::Unknown),
        call("chmod").path(0).mode(1, When::Always),
        call("fchmodat")
            .descriptor()
            .bytes("given_pathname", Source::Text(1))
            .mode(2, When::Always)
            .opt_i32("flag_value", Source::Unknown)
            .bool("flag_at_symlink_nofollow", Source::Unknown),
        call("chown").path(0).i32("new_owner", Argument(1)).i32("new_group", Argument(2)),
        times(call("utime").path(0), 1, Part::Seconds, 8),
        times(call("utimes").path(0), 1, Part::Timeval, 16),
        times(
            call("utimensat")
                .descriptor()
                .opt_bool("descriptor_current_working_directory", Source::CurrentDirectory(0))
                .path_at(1),
            2,
            Part::Timespec,
            16,
        )
        .opt_i32("flag_value", Argument(3))
        .bits(3, &[("flag_symlink_nofollow", 0x100)])
        .bool("utime_now", Source::TimesHave(2, NOW_OR_OMIT[0]))
        .bool("utime_omit", Source::TimesHave(2, NOW_OR_OMIT[1])),
    ]
}

fn xattrs() -> Vec<CallType> {
    vec![
        set_xattr(call("setxattr").path(0)),
        set_xattr(call("lsetxattr").path(0)),
        set_xattr(call("fsetxattr").descriptor()),
        get_xattr(call("getxattr").path(0)),
        get_xattr(call("lgetxattr").path(0)),
        get_xattr(call("fgetxattr").descriptor()),
        list_xattr(call("listxattr").path(0)),
        list_xattr(call("llistxattr").path(0)),
        list_xattr(call("flistxattr").descriptor()),
        call("removexattr").path(0).bytes("xattr_name", Source::Text(1)),
        call("lremovexattr").path(0).bytes("xattr_name", Source::Text(1)),
        call("fremovexattr").descriptor().bytes("xattr_name", Source::Text(1)),
    ]
}

/// Returns a field that tells whether `fcntl` has one of these commands.
pub(super) fn command(commands: &'static [u32]) -> Source {
    OneOf(1, commands)
}
