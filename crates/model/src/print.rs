//! Events as text, a line each, in the manner of strace.

use crate::describe::describe_call;
use crate::event::{CallRef, Event, EventRef, ThreadAccount, TurnKind};
use crate::signal;
use crate::{Dropped, StreamId};

/// How much to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextOptions {
    /// Bytes of a string or buffer; the rest becomes `...`.
    pub string_bytes: usize,
    /// Elements of an array; the rest becomes `...`.
    pub element_count: usize,
    /// Which strings are written in hexadecimal, `\x41`.
    pub hexadecimal: Hexadecimal,
    /// All fields of structures, all elements and strings of lists.
    pub unabbreviated: bool,
    /// The variables of an executed program, which may be secrets, in place of their number.
    pub environment: bool,
    /// Seconds that the time of dates is ahead of UTC.
    pub utc_offset_s: i32,
}

/// Which strings are written in hexadecimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Hexadecimal {
    /// None.
    #[default]
    Never,
    /// Those with bytes that are no ASCII text.
    Binary,
    /// All.
    Always,
}

impl Default for TextOptions {
    fn default() -> Self {
        Self {
            string_bytes: 32,
            element_count: 16,
            hexadecimal: Hexadecimal::Never,
            unabbreviated: false,
            environment: false,
            utc_offset_s: 0,
        }
    }
}

/// `read(3, "\177ELF"..., 832) = 832`.
pub fn call_line(call: &CallRef<'_>, options: &TextOptions) -> String {
    let description = describe_call(call, options);
    format!("{} = {}", description.head(), description.result_text)
}

/// Any event.
pub fn event_line(event: &EventRef<'_>, options: &TextOptions) -> String {
    match event.decode() {
        Event::Call(call) if event.is_begun_exec() => {
            format!("{} = ?", describe_call(&call, options).head())
        }
        Event::Call(call) => call_line(&call, options),
        Event::Signal(signal) => {
            let place = if signal.before_call() { " (before the call)" } else { "" };
            format!(
                "--- {} {}{place} ---",
                signal::name(signal.number()),
                signal.siginfo().describe()
            )
        }
        Event::Fatal { signal, hash } => {
            format!("+++ killed by {} +++ memory {hash:016x}", signal::name(signal.number()))
        }
        Event::Exit { status, hash, pages, .. } => {
            format!("+++ exited with {status} +++ memory {hash:016x}, {pages} pages")
        }
        Event::Tsc { counter, aux: None } => format!("rdtsc = {counter}"),
        Event::Tsc { counter, aux: Some(aux) } => format!("rdtscp = {counter}, {aux:#x}"),
        Event::Answer { instruction, value } => format!("{instruction} = {value:#x}"),
        Event::Exec(exec) => {
            let mappings = exec.mappings().len();
            format!("exec: begins at {:#x} with {mappings} mappings", exec.program_counter())
        }
        Event::Start { parent: None, pid, tid, .. } => {
            format!("start: process {pid}, thread {tid}, the first")
        }
        Event::Start { parent: Some(parent), pid, tid, .. } => {
            format!("start: process {pid}, thread {tid}, made by stream {parent}")
        }
        Event::Turn { turn, how } => turn_line(turn, how),
        Event::Passage { count } => format!("turn given away at passage {count}"),
        Event::Forced { signal, hash, .. } => {
            let at = event.forced_at().map_or(String::new(), |at| format!(" at {at:#x}"));
            let by =
                if signal == 0 { String::new() } else { format!(" by {}", signal::name(signal)) };
            format!("stopped between events{by}{at}, memory {hash:016x}")
        }
        Event::Hash { hash, pages } => format!("memory {hash:016x}, {pages} pages"),
        Event::State { text } => format!(
            "state: {}",
            String::from_utf8_lossy(text).trim_end_matches('\0').escape_default()
        ),
        Event::Dropped { .. } => dropped_line(event),
        Event::Compare { low, high } => {
            format!("compare-and-exchange that failed: saw {low:#x}, {high:#x}")
        }
        Event::End { status } => format!("+++ died +++ wait status {status:#x}"),
        Event::Thread { stream, account } => thread_line(stream, account),
    }
}

fn turn_line(turn: u64, how: TurnKind) -> String {
    match how {
        TurnKind::Again => format!("turn {turn}"),
        TurnKind::FirstThread => {
            format!("turn {turn}, of a process that makes its first thread")
        }
        TurnKind::Shared => format!("turn {turn} among processes that share memory"),
        TurnKind::Given => "turn given away".to_owned(),
        TurnKind::Unknown(kind) => format!("turn {turn} of the unknown kind {kind}"),
    }
}

fn dropped_line(event: &EventRef<'_>) -> String {
    let Dropped { processes, events, bytes, until_ns, streams, cut, .. } =
        Dropped::of_event(event).unwrap_or_default();
    let (gone, cut) = (streams.count(), cut.count());
    format!(
        "dropped: {processes} processes, ended by {:.3} ms: {gone} streams, the rest of \
        {cut}, {events} events, {bytes} bytes",
        until_ns as f64 / 1e6
    )
}

fn thread_line(stream: StreamId, account: ThreadAccount) -> String {
    let ms = |ns: u64| ns as f64 / 1e6;
    let ThreadAccount {
        started_ns,
        ended_ns,
        calls,
        dispatched,
        signals,
        turns,
        forced,
        waits,
        wait_ns,
    } = account;
    format!(
        "thread of stream {stream}: from {:.3} to {:.3} ms, {calls} calls ({dispatched} \
        dispatched), {signals} signals, {turns} turns, \
         {forced} forced, waited {waits} times for {:.3} ms",
        ms(started_ns),
        ms(ended_ns),
        ms(wait_ns)
    )
}

/// Bytes between quotes with the escapes of C. `total` is how many there are in the program; where
/// more than are shown, `...` follows the closing quote.
pub fn quote(bytes: &[u8], total: usize, options: &TextOptions) -> String {
    let shown = &bytes[..bytes.len().min(options.string_bytes)];
    let mut text = String::with_capacity(shown.len() + 2);
    text.push('"');
    if options.hexadecimal == Hexadecimal::Always
        || options.hexadecimal == Hexadecimal::Binary && !is_text(shown)
    {
        shown.iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
        return closed(text, total > shown.len());
    }
    for (index, byte) in shown.iter().enumerate() {
        match byte {
            b'"' => text.push_str("\\\""),
            b'\\' => text.push_str("\\\\"),
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            0x0b => text.push_str("\\v"),
            0x0c => text.push_str("\\f"),
            b' '..=b'~' => text.push(char::from(*byte)),
            // Octal digits that follow would be read as part of a short escape.
            _ if shown.get(index + 1).is_some_and(u8::is_ascii_digit) => {
                text.push_str(&format!("\\{byte:03o}"))
            }
            _ => text.push_str(&format!("\\{byte:o}")),
        }
    }
    closed(text, total > shown.len())
}

fn closed(mut text: String, goes_on: bool) -> String {
    text.push_str(if goes_on { "\"..." } else { "\"" });
    text
}

fn is_text(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\t'..=b'\r'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting() {
        let options = TextOptions { string_bytes: 8, element_count: 4, ..TextOptions::default() };
        let cases: [(&[u8], usize, &str); 6] = [
            (b"", 0, "\"\""),
            (b"abc", 3, "\"abc\""),
            (b"a\"\\\n\t\0", 6, "\"a\\\"\\\\\\n\\t\\0\""),
            (b"\x7fELF\x021", 6, "\"\\177ELF\\0021\""),
            (b"123456789", 9, "\"12345678\"..."),
            (b"abc", 100, "\"abc\"..."),
        ];
        for (bytes, total, text) in cases {
            assert_eq!(quote(bytes, total, &options), text);
        }
        let hexadecimal = |hexadecimal| TextOptions { hexadecimal, ..options.clone() };
        assert_eq!(quote(b"a\n", 2, &hexadecimal(Hexadecimal::Binary)), r#""a\n""#);
        assert_eq!(quote(b"a\0", 9, &hexadecimal(Hexadecimal::Binary)), r#""\x61\x00"..."#);
        assert_eq!(quote(b"a\n", 2, &hexadecimal(Hexadecimal::Always)), r#""\x61\x0a""#);
    }
}
