//! Calls on processes and their limits.

use super::describe_type::{CallType, Rows, call};
use super::rule::Source::{self, Argument};
use super::rule::{Part, When};

/// Returns RE-ANIMATOR's types for these calls.
pub(super) fn types() -> Vec<CallType> {
    vec![
        call("munmap").i64("start_address", Argument(0)).i64("length", Argument(1)),
        // `generated` marks ends without a call.
        call("exit")
            .of(&["exit", "exit_group"])
            .i32("exit_status", Argument(0))
            .bool("generated", Source::Unknown),
        call("fork"),
        call("vfork"),
        clone(),
        call("execve")
            .path(0)
            .i32("continuation_number", Source::ExecIndex)
            .bytes("argument", Source::ExecArgument)
            .bytes("environment", Source::ExecEnvironment)
            .rows(Rows::Exec { path: 0 }),
        call("setsid"),
        call("setpgid").i32("pid", Argument(0)).i32("pgid", Argument(1)),
        limit(call("getrlimit"), CallType::output_member),
        limit(call("setrlimit"), CallType::input_member),
    ]
}

fn limit(this: CallType, member: fn(u8, u16, Part) -> Source) -> CallType {
    this.opt_i32("resource_value", Argument(0))
        .byte("resource", Argument(0))
        .i64("resource_soft_limit", member(1, 0, Part::I64))
        .i64("resource_hard_limit", member(1, 8, Part::I64))
}

fn clone() -> CallType {
    const SET_PARENT: u64 = 0x10_0000;
    const SET_CHILD: u64 = 0x100_0000;
    const SET_TLS: u64 = 0x8_0000;
    let this = call("clone")
        .opt_i64("flag_value", Argument(0))
        .i64("child_stack_address", Argument(1))
        .opt_i64("parent_thread_id", CallType::output_member(2, 0, Part::I32))
        .when(When::AnyBit(0, SET_PARENT))
        .opt_i64("child_thread_id", Source::Result)
        .when(When::AnyBit(0, SET_CHILD))
        .opt_i64("new_tls", Argument(4))
        .when(When::AnyBit(0, SET_TLS))
        .bits(0, &CLONE_BITS);
    SIGNALS.iter().fold(this, |this, &(name, number)| this.is(name, 0, 0xff, number))
}

const CLONE_BITS: [(&str, u64); 21] = [
    ("flag_child_cleartid", 0x20_0000),
    ("flag_child_settid", 0x100_0000),
    ("flag_files", 0x400),
    ("flag_filesystem", 0x200),
    ("flag_io", 0x8000_0000),
    ("flag_newipc", 0x800_0000),
    ("flag_newnet", 0x4000_0000),
    ("flag_newns", 0x2_0000),
    ("flag_newpid", 0x2000_0000),
    ("flag_newuser", 0x1000_0000),
    ("flag_newuts", 0x400_0000),
    ("flag_parent", 0x8000),
    ("flag_parent_settid", 0x10_0000),
    ("flag_ptrace", 0x2000),
    ("flag_settls", 0x8_0000),
    ("flag_sighand", 0x800),
    ("flag_sysvsem", 0x4_0000),
    ("flag_thread", 0x1_0000),
    ("flag_untraced", 0x80_0000),
    ("flag_vfork", 0x4000),
    ("flag_vm", 0x100),
];

/// The signals that the parent can get when the child ends.
const SIGNALS: [(&str, u64); 31] = [
    ("signal_hangup", 1),
    ("signal_terminal_interrupt", 2),
    ("signal_terminal_quit", 3),
    ("signal_illegal", 4),
    ("signal_trace_trap", 5),
    ("signal_abort", 6),
    ("signal_iot_trap", 6),
    ("signal_bus", 7),
    ("signal_floating_point_exception", 8),
    ("signal_kill", 9),
    ("signal_user_defined_1", 10),
    ("signal_segv", 11),
    ("signal_user_defined_2", 12),
    ("signal_pipe", 13),
    ("signal_alarm", 14),
    ("signal_termination", 15),
    ("signal_stack_fault", 16),
    ("signal_child", 17),
    ("signal_continue", 18),
    ("signal_stop", 19),
    ("signal_terminal_stop", 20),
    ("signal_tty_read", 21),
    ("signal_tty_write", 22),
    ("signal_urgent", 23),
    ("signal_cpu_exceeded", 24),
    ("signal_file_size_exceeded", 25),
    ("signal_virtual_alarm", 26),
    ("signal_prof_alarm", 27),
    ("signal_window_size_change", 28),
    ("signal_io", 29),
    ("signal_power", 30),
];
