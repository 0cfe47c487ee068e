//! Formats events as text, one line each, in the style of strace.

use crate::describe::describe_call;
use crate::event::{CallRef, Event, EventRef, ThreadAccount, TurnKind};
use crate::signal;

pub use crate::text::{Hexadecimal, TextOptions};
use crate::{Dropped, Reached, StreamId, TimePoint};

/// Formats a call: `read(3, "\177ELF"..., 832) = 832`.
pub fn call_line(call: &CallRef<'_>, options: &TextOptions) -> String {
    let description = describe_call(call, options);
    format!("{} = {}", description.head(), description.result_text)
}

/// Formats any event.
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
            let memory = memory(hash);
            format!("+++ killed by {} +++{memory}", signal::name(signal.number()))
        }
        Event::Exit { status, hash: 0, .. } => format!("+++ exited with {status} +++"),
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
        Event::Passage { count, spins } => passage_line(count, spins),
        Event::Forced { signal, hash, .. } => {
            let at = event.forced_at().map_or(String::new(), |at| format!(" at {at:#x}"));
            let by =
                if signal == 0 { String::new() } else { format!(" by {}", signal::name(signal)) };
            let comma = if hash == 0 { "" } else { "," };
            format!("stopped between events{by}{at}{comma}{}", memory(hash))
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
        Event::Reached { stream, how_far: Reached { turn, sections, operations } } => format!(
            "stream {stream} had come to turn {turn}, section {sections}, operation {operations}"
        ),
        Event::Behind { operations } => format!("signals behind operation {operations}"),
        Event::Binding { slot, beside } => binding_line(slot, beside),
        Event::After { operations, of, own, clock } => {
            format!("operation {own} after {operations} of stream {of}, by clock {clock}")
        }
        Event::End { status } => format!("+++ died +++ wait status {status:#x}"),
        Event::Thread { stream, account } => thread_line(stream, account),
        Event::Time(TimePoint { counter, unix_ns, monotonic_ns }) => {
            let complete = if event.is_complete() { "; all events before it are here" } else { "" };
            let clocks = format!("{unix_ns} ns since 1970, {monotonic_ns} ns monotonic");
            format!("counter {counter} at {clocks}{complete}")
        }
    }
}

fn binding_line(slot: u64, beside: bool) -> String {
    let beside = if beside { ", beside another" } else { "" };
    format!("a function is bound{beside}: slot {slot:#x}")
}

/// Formats a memory hash; empty if none was taken.
fn memory(hash: u64) -> String {
    if hash == 0 { String::new() } else { format!(" memory {hash:016x}") }
}

fn passage_line(count: u64, spins: bool) -> String {
    match spins {
        false => format!("turn given away at passage {count}"),
        true => format!("turn given away in round {count} of spinning"),
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
        event.as_dropped().unwrap_or_default();
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
