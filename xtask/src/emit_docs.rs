//! Writes `docs/SYSCALLS.md`, the list of supported calls for people.

use std::fmt::Write;

use crate::emit_c::NOTICE;
use crate::table::{Call, Policy, SubRow, Table};

const INTRODUCTION: &str = "\
Every system call of x86-64 Linux up to 6.18, and what Retake does with it.

* **emulated**: executed when recording; at replay the result and everything the kernel wrote come from the recording.
* **custom**: changes the program's memory, threads or signals, so the runtime has code of its own for it.
* **refused**: never executed; the program sees the error, as on a kernel or machine without the feature.

A number that is not in the tables below does not exist in Linux 6.18 and gets `ENOSYS`. An `ioctl` command that is not in them is
decoded by the size and direction bits of its number. To add a call see [HOWTO_ADD_SYSCALL.md](HOWTO_ADD_SYSCALL.md).
";

const GAPS: &str = "
## Known gaps

* `getsockopt(SO_GET_FILTER)` counts in filter instructions, not bytes, and `TCP_ZEROCOPY_RECEIVE` maps memory: neither is recorded right.
* `futex` with priority inheritance is refused: the kernel changes the word of a thread that is not calling. AIO, io_uring and
  restartable sequences are refused, too: the kernel writes their memory at any time.
* `process_vm_writev` and `ptrace` are refused: they write to memory of a process that is not calling.
* Commands with pointers inside structures (`SG_IO`, `SIOCETHTOOL`, `I2C_RDWR` and others above) are refused; the program sees a device or a
  driver that does not know them.
* An `ioctl` command that has no row and no size in its number is taken to read and write nothing. If a driver writes memory all the same,
  the memory comparison at replay shows it; the command then needs a row.
";

/// Returns `docs/SYSCALLS.md`.
pub fn coverage(table: &Table) -> String {
    let mut out = format!("<!-- {NOTICE} -->\n\n# System calls\n\n{INTRODUCTION}\n");
    summary(&mut out, table);
    out.push_str(
        "\n## Calls\n\n| number | call | handling | may wait | commands |\n|---|---|---|---|---|\n",
    );
    for call in table.calls.iter().filter(|call| call.named) {
        let waits = if call.row.waits { "yes" } else { "" };
        let commands = if call.sub_rows.is_empty() { String::new() } else { commands_link(call) };
        let handling = handling(&call.row.policy);
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "| {} | `{}` | {handling} | {waits} | {commands} |",
            call.number, call.name
        );
    }
    for call in table.calls.iter().filter(|call| !call.sub_rows.is_empty()) {
        commands(&mut out, call);
    }
    out.push_str(
        "\n## ioctl commands refused by range\n\n| low 16 bits | commands | error \
    |\n|---|---|---|\n",
    );
    for range in &table.ranges {
        let _ = writeln!(
            out,
            "| {:#06x} to {:#06x} | `{}` | {} |",
            range.first, range.last, range.name, range.errno.name
        );
    }
    out.push_str(GAPS);
    out
}

fn summary(out: &mut String, table: &Table) {
    let count = |wanted: fn(&Policy) -> bool| {
        table.calls.iter().filter(|call| call.named && wanted(&call.row.policy)).count()
    };
    let emulated = count(|policy| matches!(policy, Policy::Emulate));
    let custom = count(|policy| matches!(policy, Policy::Custom));
    let refused = count(|policy| matches!(policy, Policy::Refuse(_)));
    let commands: usize = table.calls.iter().map(|call| distinct(call).len()).sum();
    let _ = writeln!(
        out,
        "{emulated} calls are emulated, {custom} custom, {refused} refused; {commands} commands \
        have rows."
    );
}

fn handling(policy: &Policy) -> String {
    match policy {
        Policy::Emulate => "emulated".to_string(),
        Policy::Custom => "custom".to_string(),
        Policy::Refuse(errno) => format!("refused, {}", errno.name),
    }
}

fn commands_link(call: &Call) -> String {
    format!("[{}](#commands-of-{})", distinct(call).len(), call.name)
}

/// Returns the commands, without those that only add modifiers.
fn distinct(call: &Call) -> Vec<&SubRow> {
    let modifiers = call.modifiers.iter().fold(0, |all, (bit, _)| all | bit);
    call.sub_rows.iter().filter(|sub| sub.command & modifiers == 0).collect()
}

fn commands(out: &mut String, call: &Call) {
    let _ = writeln!(out, "\n## Commands of {}\n", call.name);
    for title in ["emulated", "custom", "refused"] {
        let of_title = |sub: &&SubRow| handling(&sub.row.policy).starts_with(title);
        let names: Vec<String> = distinct(call)
            .into_iter()
            .filter(of_title)
            .map(|sub| format!("`{}`", sub.name))
            .collect();
        if !names.is_empty() {
            let _ = writeln!(out, "* {title}: {}", names.join(" "));
        }
    }
}
