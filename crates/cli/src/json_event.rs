//! An event as a JSON object.

use retake_model::describe::describe_call;
use retake_model::event::{ThreadAccount, TurnKind};
use retake_model::print::{TextOptions, event_line};
use retake_model::{
    CallRef, Dropped, Event, EventRef, EventTime, ItemRef, Reached, TimePoint, TimeScale, signal,
};
use retake_recording::{ByteText, StreamInfo};
use serde::Serialize;

use crate::text::Moment;

/// The fields of every event, and those of its kind. Hashes and addresses are hexadecimal text,
/// because some readers of JSON keep fewer than 64 bits of a number.
#[derive(Debug, Serialize)]
pub struct JsonEvent {
    stream: u32,
    pid: i32,
    tid: i32,
    event: u64,
    kind: String,
    #[serde(flatten)]
    time: Option<JsonTime>,
    #[serde(flatten)]
    details: Details,
    /// The event as `retake dump` prints it.
    text: String,
}

/// The time of the event.
#[derive(Debug, Serialize)]
struct JsonTime {
    time: Moment,
    /// Nanoseconds since recording began.
    elapsed_ns: u64,
    /// If false, the event happened at this time or later.
    time_is_exact: bool,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Details {
    Call(JsonCall),
    Signal {
        signal: String,
        before_call: bool,
        code: i32,
    },
    Fatal {
        signal: String,
        memory_hash: String,
    },
    Exit {
        status: i64,
        memory_hash: String,
        pages: u64,
    },
    Tsc {
        counter: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        aux: Option<u64>,
    },
    Answer {
        instruction: &'static str,
        value: u64,
    },
    Exec {
        program_counter: String,
        stack_pointer: String,
        mappings: Vec<JsonMapping>,
    },
    Start {
        parent: Option<u32>,
        how: String,
    },
    Turn {
        turn: u64,
        how: &'static str,
    },
    Passage {
        count: u64,
        spins: bool,
    },
    Forced {
        /// The signal for which the thread was stopped; absent if it was stopped for the baton.
        #[serde(skip_serializing_if = "Option::is_none")]
        signal: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        program_counter: Option<String>,
        memory_hash: String,
    },
    Memory {
        memory_hash: String,
        pages: u64,
    },
    End {
        wait_status: u64,
    },
    Thread {
        of_stream: u32,
        started_ms: f64,
        ended_ms: f64,
        calls: u64,
        dispatched_calls: u64,
        signals: u64,
        turns: u64,
        forced: u64,
        waits: u64,
        waited_ms: f64,
    },
    Time {
        counter: u64,
        unix_ns: u64,
        monotonic_ns: u64,
        complete: bool,
    },
    State {
        state: String,
    },
    Compare {
        low: String,
        high: String,
    },
    Reached {
        of_stream: u32,
        turn: u64,
        sections: u64,
        operations: u64,
    },
    Behind {
        operations: u64,
    },
    Binding {
        slot: String,
        beside: bool,
    },
    After {
        operations: u64,
        of_stream: u32,
        own_operations: u64,
        clock: u32,
    },
    Dropped {
        processes: u64,
        events: u64,
        bytes: u64,
        streams: Vec<(u64, u64)>,
        cut_streams: Vec<(u64, u64)>,
        console: Vec<(u64, u64)>,
    },
}

#[derive(Debug, Serialize)]
struct JsonCall {
    call: String,
    number: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<&'static str>,
    arguments: Vec<JsonArgument>,
    /// Absent if the next event has the result.
    result: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    child_stream: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    console: Option<JsonConsole>,
}

#[derive(Debug, Serialize)]
struct JsonConsole {
    to: &'static str,
    sequence: u64,
}

#[derive(Debug, Serialize)]
struct JsonArgument {
    name: &'static str,
    value: String,
    text: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    inputs: Vec<JsonData>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    outputs: Vec<JsonData>,
}

/// The memory of an argument. `bytes` may be only its beginning.
#[derive(Debug, Serialize)]
struct JsonData {
    address: String,
    total_bytes: u32,
    bytes: ByteText,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unreadable: bool,
}

#[derive(Debug, Serialize)]
struct JsonMapping {
    start: String,
    end: String,
    protection: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    offset: u64,
}

impl JsonEvent {
    /// Event number `index` of a stream.
    pub fn new(info: &StreamInfo, index: u64, event: &EventRef<'_>, text: &TextOptions) -> Self {
        Self {
            stream: info.id.0,
            pid: info.pid,
            tid: info.tid,
            event: index,
            kind: event.kind().name().to_ascii_lowercase(),
            time: None,
            details: details(event, text),
            text: event_line(event, text),
        }
    }

    /// The same event with its time.
    pub fn at(self, time: Option<(&TimeScale, EventTime)>) -> Self {
        let time = time.map(|(scale, EventTime { ns, is_exact })| JsonTime {
            time: Moment(scale.unix_ns(ns)),
            elapsed_ns: ns,
            time_is_exact: is_exact,
        });
        Self { time, ..self }
    }

    /// Its number in the stream.
    pub fn index(&self) -> u64 {
        self.event
    }

    /// The event as `retake dump` prints it.
    pub fn text(&self) -> &str {
        &self.text
    }
}

fn details(event: &EventRef<'_>, text: &TextOptions) -> Details {
    match event.decode() {
        Event::Call(call) => Details::Call(json_call(&call, event.is_begun_exec(), text)),
        Event::Signal(delivered) => Details::Signal {
            signal: signal::name(delivered.number()).into_owned(),
            before_call: delivered.before_call(),
            code: delivered.siginfo().code(),
        },
        Event::Fatal { signal: fatal, hash } => Details::Fatal {
            signal: signal::name(fatal.number()).into_owned(),
            memory_hash: hash_text(hash),
        },
        Event::Exit { status, hash, pages, .. } => {
            Details::Exit { status, memory_hash: hash_text(hash), pages }
        }
        Event::Tsc { counter, aux } => Details::Tsc { counter, aux },
        Event::Answer { instruction, value } => Details::Answer { instruction, value },
        Event::Exec(exec) => Details::Exec {
            program_counter: address_text(exec.program_counter()),
            stack_pointer: address_text(exec.stack_pointer()),
            mappings: exec
                .mappings()
                .map(|mapping| JsonMapping {
                    start: address_text(mapping.start),
                    end: address_text(mapping.end),
                    protection: mapping.protection,
                    content: (!mapping.content.is_none()).then(|| mapping.content.to_string()),
                    offset: mapping.offset,
                })
                .collect(),
        },
        Event::Start { parent, how, .. } => {
            Details::Start { parent: parent.map(|parent| parent.0), how: address_text(how) }
        }
        Event::Turn { turn, how } => Details::Turn { turn, how: turn_text(how) },
        Event::Passage { count, spins } => Details::Passage { count, spins },
        Event::Forced { signal: number, hash, .. } => Details::Forced {
            signal: (number != 0).then(|| signal::name(number).into_owned()),
            program_counter: event.forced_at().map(address_text),
            memory_hash: hash_text(hash),
        },
        Event::Hash { hash, pages } => Details::Memory { memory_hash: hash_text(hash), pages },
        Event::End { status } => Details::End { wait_status: status },
        Event::Thread { stream, account } => thread(stream.0, &account),
        Event::Time(TimePoint { counter, unix_ns, monotonic_ns }) => {
            Details::Time { counter, unix_ns, monotonic_ns, complete: event.is_complete() }
        }
        Event::Dropped { .. } => {
            let Dropped { processes, events, bytes, streams, cut, console, .. } =
                event.as_dropped().unwrap_or_default();
            let [streams, cut_streams, console] =
                [streams, cut, console].map(|ranges| ranges.iter().collect());
            Details::Dropped { processes, events, bytes, streams, cut_streams, console }
        }
        Event::Compare { low, high } => {
            Details::Compare { low: address_text(low), high: address_text(high) }
        }
        Event::Reached { stream, how_far: Reached { turn, sections, operations } } => {
            Details::Reached { of_stream: stream.0, turn, sections, operations }
        }
        Event::Behind { operations } => Details::Behind { operations },
        Event::Binding { slot, beside } => Details::Binding { slot: address_text(slot), beside },
        Event::After { operations, of, own, clock } => {
            Details::After { operations, of_stream: of.0, own_operations: own, clock }
        }
        Event::State { text } => Details::State {
            state: String::from_utf8_lossy(text).trim_end_matches('\0').to_owned(),
        },
    }
}

fn turn_text(how: TurnKind) -> &'static str {
    match how {
        TurnKind::Again => "again",
        TurnKind::FirstThread => "first thread",
        TurnKind::Shared => "shares memory",
        TurnKind::Given => "given away",
        TurnKind::Unknown(_) => "unknown",
    }
}

fn thread(of_stream: u32, account: &ThreadAccount) -> Details {
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
    } = *account;
    let (started_ms, ended_ms, waited_ms) = (ms(started_ns), ms(ended_ns), ms(wait_ns));
    Details::Thread {
        of_stream,
        started_ms,
        ended_ms,
        calls,
        dispatched_calls: dispatched,
        signals,
        turns,
        forced,
        waits,
        waited_ms,
    }
}

fn json_call(call: &CallRef<'_>, is_begun: bool, text: &TextOptions) -> JsonCall {
    let description = describe_call(call, text);
    let arguments = description
        .arguments
        .iter()
        .map(|argument| JsonArgument {
            name: argument.name,
            value: address_text(argument.value),
            text: argument.text.clone(),
            inputs: argument.inputs.iter().map(json_data).collect(),
            outputs: argument.outputs.iter().map(json_data).collect(),
        })
        .collect();
    JsonCall {
        call: description.name,
        number: call.number(),
        command: description.command,
        arguments,
        result: (!is_begun).then_some(call.result()),
        error: description.error.filter(|_| !is_begun),
        child_stream: call.child().map(|child| child.0),
        console: call.console().map(|(console, sequence)| JsonConsole {
            to: match console {
                retake_model::event::Console::Out => "stdout",
                retake_model::event::Console::Err => "stderr",
            },
            sequence,
        }),
    }
}

fn json_data(item: &ItemRef<'_>) -> JsonData {
    JsonData {
        address: address_text(item.address()),
        total_bytes: item.total_bytes(),
        bytes: ByteText(item.inline_bytes().to_vec()),
        unreadable: item.faulted(),
    }
}

fn address_text(address: u64) -> String {
    format!("{address:#x}")
}

fn hash_text(hash: u64) -> String {
    format!("{hash:016x}")
}
