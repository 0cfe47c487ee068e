//! How strace writes what the type of an argument does not tell: which registers a command does not use, and texts of single arguments.

use crate::item::ItemRef;
use crate::print::{Hexadecimal, TextOptions};
use std::borrow::Cow;

/// How many of a call's arguments mean something; `None`: all.
pub(crate) fn meaningful(call: &str, command: Option<&str>, arguments: &[(&str, u64)]) -> Option<usize> {
    const O_CREAT_OR_TMPFILE: u64 = 0o100 | 0o20_000_000;
    let value = |name: &str| arguments.iter().find(|(other, _)| *other == name).map_or(0, |(_, value)| *value);
    let command = command.map_or("", |command| command.split('|').next().unwrap_or(command).trim_end_matches("_PRIVATE"));
    match (call, command) {
        // The mode of a file that is not made, whatever the register holds.
        ("open" | "openat", _) if value("flags") & O_CREAT_OR_TMPFILE == 0 => Some(arguments.len() - 1),
        // Without MREMAP_FIXED and MREMAP_DONTUNMAP.
        ("mremap", _) if value("flags") & 6 == 0 => Some(4),
        ("fcntl", "F_GETFD" | "F_GETFL" | "F_GETOWN" | "F_GETSIG" | "F_GETLEASE" | "F_GETPIPE_SZ" | "F_GET_SEALS") => Some(2),
        ("futex", "FUTEX_WAKE" | "FUTEX_UNLOCK_PI" | "FUTEX_TRYLOCK_PI") => Some(3),
        ("futex", "FUTEX_WAIT" | "FUTEX_LOCK_PI" | "FUTEX_LOCK_PI2") => Some(4),
        _ => None,
    }
}

/// How texts of a call look: what is random is never text.
pub(crate) fn text_options<'a>(call: &str, options: &'a TextOptions) -> Cow<'a, TextOptions> {
    match call {
        "getrandom" => Cow::Owned(TextOptions { hexadecimal: Hexadecimal::Always, ..options.clone() }),
        _ => Cow::Borrowed(options),
    }
}

/// The text of an argument that is no more than a register.
pub(crate) fn register_text(call: &str, argument: &str, value: u64) -> Option<String> {
    match (call, argument) {
        ("mmap", "offset") if value != 0 => Some(format!("{value:#x}")),
        ("rseq", "length" | "signature") => Some(format!("{:#x}", value as u32)),
        ("epoll_create1", "flags") if value as u32 == 0o2_000_000 => Some("EPOLL_CLOEXEC".to_owned()),
        _ => None,
    }
}

/// The text of an argument that points to memory.
pub(crate) fn memory_text(call: &str, argument: &str, address: u64, inputs: &[ItemRef<'_>], outputs: &[ItemRef<'_>]) -> Option<String> {
    match (call, argument) {
        ("wait4", "status") => outputs.first()?.inline_bytes().first_chunk().map(|bytes| wait_status(u32::from_le_bytes(*bytes))),
        ("execve" | "execveat", "environment") => {
            let array = inputs.first().filter(|array| array.address() == address)?;
            Some(format!("{address:#x} /* {} vars */", array.total_bytes() / 8))
        }
        _ => None,
    }
}

/// `[{WIFEXITED(s) && WEXITSTATUS(s) == 0}]`.
fn wait_status(status: u32) -> String {
    use crate::signal::name;
    let (signal, code) = ((status & 0x7f) as u16, (status >> 8 & 0xff) as u16);
    let text = match signal {
        0 => format!("WIFEXITED(s) && WEXITSTATUS(s) == {code}"),
        0x7f if status == 0xffff => "WIFCONTINUED(s)".to_owned(),
        0x7f => format!("WIFSTOPPED(s) && WSTOPSIG(s) == {}", name(code)),
        _ if status & 0x80 != 0 => format!("WIFSIGNALED(s) && WTERMSIG(s) == {} && WCOREDUMP(s)", name(signal)),
        _ => format!("WIFSIGNALED(s) && WTERMSIG(s) == {}", name(signal)),
    };
    format!("[{{{text}}}]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_became_of_a_child() {
        let cases = [
            (0, "[{WIFEXITED(s) && WEXITSTATUS(s) == 0}]"),
            (0x300, "[{WIFEXITED(s) && WEXITSTATUS(s) == 3}]"),
            (9, "[{WIFSIGNALED(s) && WTERMSIG(s) == SIGKILL}]"),
            (0x8b, "[{WIFSIGNALED(s) && WTERMSIG(s) == SIGSEGV && WCOREDUMP(s)}]"),
            (0x137f, "[{WIFSTOPPED(s) && WSTOPSIG(s) == SIGSTOP}]"),
            (0xffff, "[{WIFCONTINUED(s)}]"),
        ];
        for (status, text) in cases {
            assert_eq!(wait_status(status), text);
        }
    }
}
