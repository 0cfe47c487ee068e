//! Habits of strace that do not follow from the type of an argument: registers that a command does
//! not use, and the texts of single arguments.

use crate::bytes::read_u64;
use crate::flags;
use crate::item::ItemRef;
use crate::text::{Hexadecimal, TextOptions, quote};
use std::borrow::Cow;

/// Returns how many of a call's arguments have a meaning; `None` for all.
pub(crate) fn meaningful(
    call: &str,
    command: Option<&str>,
    arguments: &[(&str, u64)],
) -> Option<usize> {
    const O_CREAT_OR_TMPFILE: u64 = 0o100 | 0o20_000_000;
    let value = |name: &str| {
        arguments.iter().find(|(other, _)| *other == name).map_or(0, |(_, value)| *value)
    };
    let command = command.map_or("", |command| {
        command.split('|').next().unwrap_or(command).trim_end_matches("_PRIVATE")
    });
    match (call, command) {
        // The mode has no meaning if no file is created.
        ("open" | "openat", _) if value("flags") & O_CREAT_OR_TMPFILE == 0 => {
            Some(arguments.len() - 1)
        }
        // Neither MREMAP_FIXED nor MREMAP_DONTUNMAP is set.
        ("mremap", _) if value("flags") & 6 == 0 => Some(4),
        (
            "fcntl",
            "F_GETFD" | "F_GETFL" | "F_GETOWN" | "F_GETSIG" | "F_GETLEASE" | "F_GETPIPE_SZ"
            | "F_GET_SEALS",
        ) => Some(2),
        ("futex", "FUTEX_WAKE" | "FUTEX_UNLOCK_PI" | "FUTEX_TRYLOCK_PI") => Some(3),
        ("futex", "FUTEX_WAIT" | "FUTEX_LOCK_PI" | "FUTEX_LOCK_PI2") => Some(4),
        _ => None,
    }
}

/// Returns how to format the texts of a call. Random bytes are never shown as text.
pub(crate) fn text_options<'a>(call: &str, options: &'a TextOptions) -> Cow<'a, TextOptions> {
    match call {
        "getrandom" => {
            Cow::Owned(TextOptions { hexadecimal: Hexadecimal::Always, ..options.clone() })
        }
        _ => Cow::Borrowed(options),
    }
}

/// Formats an argument that is only a register.
pub(crate) fn register_text(call: &str, argument: &str, value: u64) -> Option<String> {
    match (call, argument) {
        ("mmap", "offset") if value != 0 => Some(format!("{value:#x}")),
        ("rseq", "length" | "signature") => Some(format!("{:#x}", value as u32)),
        ("statx", "flags") => Some(flags::AT_STATX.format(value as u32)),
        ("getrusage", "who") => {
            named(value, &[(0, "RUSAGE_SELF"), (-1, "RUSAGE_CHILDREN"), (1, "RUSAGE_THREAD")])
        }
        ("getpriority" | "setpriority", "which") => {
            named(value, &[(0, "PRIO_PROCESS"), (1, "PRIO_PGRP"), (2, "PRIO_USER")])
        }
        ("epoll_create1", "flags") if value as u32 == 0o2_000_000 => {
            Some("EPOLL_CLOEXEC".to_owned())
        }
        _ => None,
    }
}

fn named(value: u64, names: &[(i32, &str)]) -> Option<String> {
    names.iter().find(|(number, _)| *number == value as i32).map(|(_, name)| (*name).to_owned())
}

/// Formats an argument that points to memory.
pub(crate) fn memory_text(
    call: &str,
    argument: &str,
    address: u64,
    inputs: &[ItemRef<'_>],
    outputs: &[ItemRef<'_>],
    options: &TextOptions,
) -> Option<String> {
    match (call, argument) {
        ("getcwd", "path") => {
            let path = outputs.first()?.inline_bytes();
            let path = path.strip_suffix(&[0]).unwrap_or(path);
            Some(quote(
                path,
                path.len(),
                &TextOptions { string_bytes: usize::MAX, ..options.clone() },
            ))
        }
        ("getdents64", "entries") if address != 0 => {
            let cut_off = || {
                format!(
                    "{address:#x} /* entries in {} bytes */",
                    outputs.first().map_or(0, ItemRef::total_bytes)
                )
            };
            let text = |entries: Vec<String>| match options.unabbreviated {
                true => format!("[{}]", entries.join(", ")),
                false => format!("{address:#x} /* {} entries */", entries.len()),
            };
            Some(entries(outputs.first(), options).map_or_else(cut_off, text))
        }
        ("wait4", "status") => outputs
            .first()?
            .inline_bytes()
            .first_chunk()
            .map(|bytes| wait_status(u32::from_le_bytes(*bytes))),
        ("execve" | "execveat", "environment") if !options.environment => {
            let array = inputs.first().filter(|array| array.address() == address)?;
            Some(format!("{address:#x} /* {} vars */", array.total_bytes() / 8))
        }
        _ => None,
    }
}

/// Formats the entries of a directory listing; `None` if not all of it was recorded.
fn entries(listing: Option<&ItemRef<'_>>, options: &TextOptions) -> Option<Vec<String>> {
    const KINDS: [(u8, &str); 7] =
        [(1, "FIFO"), (2, "CHR"), (4, "DIR"), (6, "BLK"), (8, "REG"), (10, "LNK"), (12, "SOCK")];
    const NAME: usize = 19;
    let mut rest = listing.map_or(&[][..], |item| item.inline_bytes());
    if listing.is_some_and(|item| rest.len() < item.total_bytes() as usize) {
        return None;
    }
    let mut entries = Vec::new();
    while !rest.is_empty() {
        let size = usize::from(u16::from_le_bytes([*rest.get(16)?, *rest.get(17)?]));
        let entry = rest.get(..size).filter(|entry| entry.len() > NAME)?;
        let name = entry[NAME..].split(|byte| *byte == 0).next().unwrap_or_default();
        let kind =
            KINDS.iter().find(|(kind, _)| *kind == entry[18]).map_or("UNKNOWN", |(_, name)| name);
        let name =
            quote(name, name.len(), &TextOptions { string_bytes: usize::MAX, ..options.clone() });
        let (number, offset) = (read_u64(entry, 0), read_u64(entry, 8) as i64);
        entries.push(format!(
            "{{d_ino={number}, d_off={offset}, d_reclen={size}, d_type=DT_{kind}, d_name={name}}}"
        ));
        rest = &rest[size..];
    }
    Some(entries)
}

/// Formats a wait status: `[{WIFEXITED(s) && WEXITSTATUS(s) == 0}]`.
fn wait_status(status: u32) -> String {
    use crate::signal::name;
    let (signal, code) = ((status & 0x7f) as u16, (status >> 8 & 0xff) as u16);
    let text = match signal {
        0 => format!("WIFEXITED(s) && WEXITSTATUS(s) == {code}"),
        0x7f if status == 0xffff => "WIFCONTINUED(s)".to_owned(),
        0x7f => format!("WIFSTOPPED(s) && WSTOPSIG(s) == {}", name(code)),
        _ if status & 0x80 != 0 => {
            format!("WIFSIGNALED(s) && WTERMSIG(s) == {} && WCOREDUMP(s)", name(signal))
        }
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
