//! Calls that strace does not write register by register: calls that wait, with what came, and
//! calls that create processes.

use crate::bytes::{read_u32, read_u64};
use crate::description::{ArgumentDescription, CallDescription};
use crate::errno;
use crate::flags;
use crate::layout::element_text;
use crate::signal;
use crate::status::{date, hexadecimal};
use crate::text::TextOptions;

const CLONE_PIDFD: u64 = 0x1000;
const CLONE_SETTLS: u64 = 0x8_0000;
const CLONE_PARENT_SETTID: u64 = 0x10_0000;
/// CLONE_CHILD_SETTID and CLONE_CHILD_CLEARTID.
const CLONE_CHILD_TID: u64 = 0x120_0000;
/// The bits of `clone3` beyond the low 32.
const CLONE_HIGH: [(u64, &str); 2] =
    [(1 << 32, "CLONE_CLEAR_SIGHAND"), (1 << 33, "CLONE_INTO_CGROUP")];

/// Gives a described call the special form that strace has for it, if it has one.
pub(crate) fn apply(description: &mut CallDescription<'_>, options: &TextOptions) {
    match (description.name.as_str(), description.command) {
        ("poll" | "ppoll", _) => poll(description, options),
        ("select" | "pselect6", _) => select(description, options),
        ("clone", _) => description.shown = Some(clone(description)),
        ("clone3", _) => description.shown = clone3(description),
        ("fcntl", Some("F_GETFL")) if description.error.is_none() => {
            let flags = description.result as u32;
            description.result_text =
                format!("{} (flags {})", hexadecimal(flags.into()), flags::OPEN.format(flags));
        }
        ("fcntl", Some("F_GETFD")) if description.result > 0 => {
            let flags = description.result as u32;
            description.result_text =
                format!("{} (flags {})", hexadecimal(flags.into()), flags::FD_FLAGS.format(flags));
        }
        ("fcntl", Some("F_SETLK" | "F_SETLKW" | "F_OFD_SETLK" | "F_OFD_SETLKW")) => {
            lock(description, false, options)
        }
        ("fcntl", Some("F_GETLK" | "F_OFD_GETLK")) => lock(description, true, options),
        ("socket" | "socketpair", _) => protocol(description),
        ("getsockopt" | "setsockopt", _) => socket_option(description),
        ("getdents64", _) if description.error.is_some() => {
            description.arguments[1].text = address(description.arguments[1].value)
        }
        // These commands have two names.
        ("ioctl", Some("FICLONE")) => {
            description.arguments[1].text = "BTRFS_IOC_CLONE or FICLONE".to_owned()
        }
        ("ioctl", Some("FICLONERANGE")) => {
            description.arguments[1].text = "BTRFS_IOC_CLONE_RANGE or FICLONERANGE".to_owned()
        }
        ("utimensat", _) => file_times(description, options),
        // For offsets in files, shows only the initial value.
        ("copy_file_range" | "splice", _) => {
            for index in [1, 3] {
                if let Some(place) =
                    input(&description.arguments[index]).and_then(|bytes| bytes.first_chunk())
                {
                    description.arguments[index].text = format!("[{}]", i64::from_le_bytes(*place));
                }
            }
        }
        _ => {}
    }
}

/// Shows what was asked, or what the kernel answered. Only an answer has the holder of a lock.
fn lock(description: &mut CallDescription<'_>, is_answered: bool, options: &TextOptions) {
    let Some(argument) = description.arguments.get_mut(2) else { return };
    let bytes = output(argument).filter(|_| is_answered).or_else(|| input(argument));
    let Some(text) = bytes.and_then(|bytes| element_text("flock", bytes, options)) else { return };
    let without_holder = text.split(", l_pid=").next().map(|text| format!("{text}}}"));
    argument.text = if is_answered { text } else { without_holder.unwrap_or_default() };
}

fn protocol(description: &mut CallDescription<'_>) {
    const AF_INET: u64 = 2;
    const AF_INET6: u64 = 10;
    const AF_NETLINK: u64 = 16;
    let [family, _, protocol, ..] = description.arguments.as_mut_slice() else { return };
    match family.value {
        AF_INET | AF_INET6 => {
            protocol.text = flags::INTERNET_PROTOCOL.format(protocol.value as u32)
        }
        AF_NETLINK => protocol.text = flags::NETLINK_PROTOCOL.format(protocol.value as u32),
        _ => {}
    }
}

fn socket_option(description: &mut CallDescription<'_>) {
    let [_, level, option, value, ..] = description.arguments.as_mut_slice() else { return };
    match level.value as u32 {
        1 => option.text = flags::SOCKET_OPTION.format(option.value as u32),
        6 => option.text = flags::TCP_OPTION.format(option.value as u32),
        41 => option.text = flags::IPV6_OPTION.format(option.value as u32),
        _ => return,
    }
    if let Some(number) = output(value)
        .or_else(|| input(value))
        .filter(|bytes| bytes.len() == 4)
        .map(|bytes| read_u32(bytes, 0))
    {
        let error = u16::try_from(number)
            .ok()
            .filter(|number| *number != 0 && option.text == "SO_ERROR")
            .and_then(errno::name);
        value.text =
            error.map_or_else(|| format!("[{}]", number as i32), |error| format!("[{error}]"));
    }
}

/// Shows file times with dates, and the two special values by name.
fn file_times(description: &mut CallDescription<'_>, options: &TextOptions) {
    const UTIME_NOW: u64 = 0x3fff_ffff;
    const UTIME_OMIT: u64 = 0x3fff_fffe;
    let Some(times) = description.arguments.get_mut(2) else { return };
    let Some(bytes) = input(times) else { return };
    let text = |time: &[u8]| match (read_u64(time, 0) as i64, read_u64(time, 8)) {
        (_, UTIME_NOW) => "UTIME_NOW".to_owned(),
        (_, UTIME_OMIT) => "UTIME_OMIT".to_owned(),
        (seconds, nanoseconds) => format!(
            "{{tv_sec={seconds}, tv_nsec={nanoseconds}}}{}",
            date(seconds, nanoseconds, options)
        ),
    };
    times.text = limited(bytes.chunks_exact(16).map(text), options);
}

fn input<'log>(argument: &ArgumentDescription<'log>) -> Option<&'log [u8]> {
    argument.inputs.first().filter(|item| !item.faulted()).map(|item| item.inline_bytes())
}

fn output<'log>(argument: &ArgumentDescription<'log>) -> Option<&'log [u8]> {
    argument.outputs.first().filter(|item| !item.faulted()).map(|item| item.inline_bytes())
}

/// For a time that the kernel counts down, shows only the initial value.
fn show_timeout(argument: &mut ArgumentDescription<'_>, element: &str, options: &TextOptions) {
    if let Some(text) = input(argument).and_then(|bytes| element_text(element, bytes, options)) {
        argument.text = text;
    }
}

/// Adds to the result what came and how much time was left, or that the time was up.
fn add_outcome(
    description: &mut CallDescription<'_>,
    mut parts: Vec<String>,
    timeout: Option<(usize, &str)>,
    options: &TextOptions,
) {
    if description.result == 0 {
        description.result_text += " (Timeout)";
        return;
    }
    let left = timeout.and_then(|(index, element)| {
        output(&description.arguments[index])
            .and_then(|bytes| element_text(element, bytes, options))
    });
    parts.extend(left.map(|left| format!("left {left}")));
    if !parts.is_empty() {
        description.result_text += &format!(" ({})", parts.join(", "));
    }
}

fn limited(parts: impl Iterator<Item = String>, options: &TextOptions) -> String {
    let mut shown: Vec<String> = parts.take(options.element_count.saturating_add(1)).collect();
    if shown.len() > options.element_count {
        shown.truncate(options.element_count);
        shown.push("...".to_owned());
    }
    format!("[{}]", shown.join(", "))
}

fn poll(description: &mut CallDescription<'_>, options: &TextOptions) {
    let Some(asked) = description.arguments.first().and_then(input) else { return };
    let events =
        |entry: &[u8], at: usize| u32::from(u16::from_le_bytes([entry[at], entry[at + 1]]));
    let question = |entry: &[u8]| match read_u32(entry, 0) as i32 {
        descriptor @ ..0 => format!("{{fd={descriptor}}}"),
        descriptor => {
            format!("{{fd={descriptor}, events={}}}", flags::POLL_EVENTS.format(events(entry, 4)))
        }
    };
    description.arguments[0].text = limited(asked.chunks_exact(8).map(question), options);
    let timeout = (description.name == "ppoll").then_some((2, "timespec"));
    if let Some((index, element)) = timeout {
        show_timeout(&mut description.arguments[index], element, options);
    }
    if description.error.is_some() {
        return;
    }
    // Without an output, the kernel left the structure unchanged.
    let answered = output(&description.arguments[0]).unwrap_or(asked);
    let answer = |entry: &[u8]| {
        format!(
            "{{fd={}, revents={}}}",
            read_u32(entry, 0) as i32,
            flags::POLL_EVENTS.format(events(entry, 6))
        )
    };
    let answers = limited(
        answered.chunks_exact(8).filter(|entry| events(entry, 6) != 0).map(answer),
        options,
    );
    add_outcome(description, vec![answers], timeout, options);
}

/// Formats a set of descriptors: `[3 4]`.
fn descriptor_set(bytes: &[u8], count: u64) -> String {
    let is_set = |number: &usize| bytes[number / 8] >> (number % 8) & 1 == 1;
    let numbers =
        (0..bytes.len() * 8).take(usize::try_from(count).unwrap_or(usize::MAX)).filter(is_set);
    format!("[{}]", numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(" "))
}

fn select(description: &mut CallDescription<'_>, options: &TextOptions) {
    let count = description.arguments[0].value;
    for argument in &mut description.arguments[1..4] {
        if let Some(bytes) = input(argument) {
            argument.text = descriptor_set(bytes, count);
        }
    }
    let element = if description.name == "select" { "timeval" } else { "timespec" };
    show_timeout(&mut description.arguments[4], element, options);
    if let Some(mask) = description.arguments.get_mut(5).filter(|mask| mask.value != 0) {
        let size = input(mask).filter(|pair| pair.len() == 16).map(|pair| read_u64(pair, 8));
        let set = mask
            .inputs
            .get(1)
            .and_then(|item| item.inline_bytes().first_chunk())
            .map(|set| crate::layout::signal_set(u64::from_le_bytes(*set)));
        if let Some(size) = size {
            mask.text = format!(
                "{{sigmask={}, sigsetsize={size}}}",
                set.unwrap_or_else(|| "NULL".to_owned())
            );
        }
    }
    if description.error.is_some() {
        return;
    }
    let came = |(argument, name): (&ArgumentDescription<'_>, &str)| {
        let set = descriptor_set(output(argument).or_else(|| input(argument))?, count);
        (set != "[]").then(|| format!("{name} {set}"))
    };
    let parts =
        description.arguments[1..4].iter().zip(["in", "out", "except"]).filter_map(came).collect();
    add_outcome(description, parts, Some((4, element)), options);
}

/// Formats the flags of a clone: `CLONE_VM|CLONE_FS|SIGCHLD`.
fn clone_flags(flags: u64, exit_signal: u64) -> String {
    let low = (flags & 0xffff_ffff & !0xff) as u32;
    let mut parts: Vec<String> = (low != 0).then(|| flags::CLONE.format(low)).into_iter().collect();
    parts.extend(
        CLONE_HIGH.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, name)| (*name).to_owned()),
    );
    parts.extend((exit_signal != 0).then(|| signal::name(exit_signal as u16).into_owned()));
    if parts.is_empty() { "0".to_owned() } else { parts.join("|") }
}

fn address(value: u64) -> String {
    if value == 0 { "NULL".to_owned() } else { format!("{value:#x}") }
}

fn clone(description: &CallDescription<'_>) -> Vec<String> {
    let [flags, stack, parent, child, tls] = [0, 1, 2, 3, 4]
        .map(|index| description.arguments.get(index).map_or(0, |argument| argument.value));
    let mut parts = vec![
        format!("child_stack={}", address(stack)),
        format!("flags={}", clone_flags(flags, flags & 0xff)),
    ];
    if flags & (CLONE_PARENT_SETTID | CLONE_PIDFD) != 0 {
        let told = output(&description.arguments[2])
            .and_then(|bytes| bytes.first_chunk())
            .map(|bytes| format!("[{}]", i32::from_le_bytes(*bytes)));
        parts.push(format!("parent_tid={}", told.unwrap_or_else(|| address(parent))));
    }
    parts.extend((flags & CLONE_SETTLS != 0).then(|| format!("tls={tls:#x}")));
    parts.extend((flags & CLONE_CHILD_TID != 0).then(|| format!("child_tidptr={child:#x}")));
    parts
}

/// Formats the arguments of `clone3`, as far as the structure was recorded.
fn clone3(description: &CallDescription<'_>) -> Option<Vec<String>> {
    let [arguments, size] = description.arguments.as_slice() else { return None };
    let bytes = input(arguments)?;
    let word = |index: usize| bytes.get(index * 8..index * 8 + 8).map(|bytes| read_u64(bytes, 0));
    let flags = word(0)?;
    let only_if = |bit: u64, index: usize, name: &str| {
        word(index).filter(|_| flags & bit != 0).map(|value| format!("{name}={}", address(value)))
    };
    let exit_signal = |value: u64| {
        if value == 0 { "0".to_owned() } else { signal::name(value as u16).into_owned() }
    };
    let fields = [
        Some(format!("flags={}", clone_flags(flags, 0))),
        only_if(CLONE_PIDFD, 1, "pidfd"),
        only_if(CLONE_CHILD_TID, 2, "child_tid"),
        only_if(CLONE_PARENT_SETTID, 3, "parent_tid"),
        word(4).map(|value| format!("exit_signal={}", exit_signal(value))),
        word(5).map(|value| format!("stack={}", address(value))),
        word(6).map(|value| format!("stack_size={}", hexadecimal(value))),
        only_if(CLONE_SETTLS, 7, "tls"),
        (bytes.len() as u64 != size.value).then(|| "...".to_owned()),
    ];
    let made = (description.result > 0 && flags & CLONE_PARENT_SETTID != 0)
        .then(|| format!(" => {{parent_tid=[{}]}}", description.result));
    let text = format!(
        "{{{}}}{}",
        fields.into_iter().flatten().collect::<Vec<_>>().join(", "),
        made.unwrap_or_default()
    );
    Some(vec![text, size.text.clone()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_end_with_the_signal() {
        assert_eq!(
            clone_flags(0x120_0011, 0x11),
            "CLONE_CHILD_CLEARTID|CLONE_CHILD_SETTID|SIGCHLD"
        );
        assert_eq!(clone_flags(0x11, 0x11), "SIGCHLD");
        assert_eq!(clone_flags(1 << 32 | 0x100, 0), "CLONE_VM|CLONE_CLEAR_SIGHAND");
        assert_eq!(clone_flags(0, 0), "0");
    }

    #[test]
    fn sets_are_numbers() {
        assert_eq!(descriptor_set(&[0x18, 0, 1, 0, 0, 0, 0, 0], 20), "[3 4 16]");
        assert_eq!(descriptor_set(&[0x18, 0, 1, 0, 0, 0, 0, 0], 16), "[3 4]");
        assert_eq!(descriptor_set(&[], 16), "[]");
    }
}
