//! An event as a JSON object.

use retake_model::describe::describe_call;
use retake_model::print::{TextOptions, event_line};
use retake_model::{CallRef, Event, EventRef, ItemRef, signal};
use retake_recording::{ByteText, StreamInfo};
use serde::Serialize;

/// What every event has, and what its kind adds. Hashes and addresses are hexadecimal text: not every reader of JSON keeps
/// 64 bits of a number.
#[derive(Debug, Serialize)]
pub struct JsonEvent {
    stream: u32,
    pid: i32,
    tid: i32,
    event: u64,
    kind: String,
    #[serde(flatten)]
    details: Details,
    /// As `retake dump` prints it.
    text: String,
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
    },
    Memory {
        memory_hash: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        pages: Option<u64>,
    },
    End {
        wait_status: u64,
    },
    Thread {
        of_stream: u32,
    },
    State {
        state: String,
    },
}

#[derive(Debug, Serialize)]
struct JsonCall {
    call: String,
    number: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<&'static str>,
    arguments: Vec<JsonArgument>,
    /// Absent if what became of the call is in the next event.
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

/// Memory that belongs to an argument. `bytes` may be only the beginning.
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
            details: details(event, text),
            text: event_line(event, text),
        }
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
        Event::Fatal { signal: fatal, hash } => Details::Fatal { signal: signal::name(fatal.number()).into_owned(), memory_hash: hash_text(hash) },
        Event::Exit { status, hash, pages, .. } => Details::Exit { status, memory_hash: hash_text(hash), pages },
        Event::Tsc { counter, aux } => Details::Tsc { counter, aux },
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
        Event::Start { parent, how, .. } => Details::Start { parent: parent.map(|parent| parent.0), how: address_text(how) },
        Event::Turn { turn, .. } => Details::Turn { turn },
        Event::Forced { hash, .. } => Details::Memory { memory_hash: hash_text(hash), pages: None },
        Event::Hash { hash, pages } => Details::Memory { memory_hash: hash_text(hash), pages: Some(pages) },
        Event::End { status } => Details::End { wait_status: status },
        Event::Thread { stream, .. } => Details::Thread { of_stream: stream.0 },
        Event::State { text } => Details::State { state: String::from_utf8_lossy(text).trim_end_matches('\0').to_owned() },
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
