//! Messages of the Debug Adapter Protocol: JSON after a header with its length.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::{self, BufRead, Read, Write};

/// The longest message.
const MOST_BYTES: usize = 64 << 20;
const LONGEST_HEADER: u64 = 4096;

/// A request of the client.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Request {
    pub seq: i64,
    pub command: String,
    #[serde(default)]
    pub arguments: Value,
}

/// A message to the client.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(crate) enum Message {
    Response {
        seq: i64,
        request_seq: i64,
        success: bool,
        command: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        #[serde(skip_serializing_if = "Value::is_null")]
        body: Value,
    },
    Event {
        seq: i64,
        event: &'static str,
        #[serde(skip_serializing_if = "Value::is_null")]
        body: Value,
    },
}

/// Reads a request. Returns `None` at the end, or after malformed input.
pub(crate) fn read(input: &mut impl BufRead) -> Option<Request> {
    loop {
        let length = read_header(input)?;
        let mut bytes = Vec::new();
        input.take(length as u64).read_to_end(&mut bytes).ok()?;
        let message: Value =
            serde_json::from_slice(&bytes).ok().filter(|_| bytes.len() == length)?;
        // The adapter asks clients nothing, so skip all messages but requests.
        if message.get("type").and_then(Value::as_str) == Some("request") {
            return serde_json::from_value(message).ok();
        }
    }
}

/// Reads the header. Returns the size of the message after it.
fn read_header(input: &mut impl BufRead) -> Option<usize> {
    let mut length = None;
    loop {
        let mut line = String::new();
        input.take(LONGEST_HEADER).read_line(&mut line).ok().filter(|count| *count > 0)?;
        let line = line.trim_end();
        if line.is_empty() {
            return length.filter(|length| *length <= MOST_BYTES);
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("Content-Length")
        {
            length = Some(value.trim().parse().ok()?);
        }
    }
}

/// Writes a message.
///
/// # Errors
/// The client is gone.
pub(crate) fn write(output: &mut dyn Write, message: &Message) -> io::Result<()> {
    let text = serde_json::to_vec(message)?;
    write!(output, "Content-Length: {}\r\n\r\n", text.len())?;
    output.write_all(&text)?;
    output.flush()
}

/// The arguments of a launch, which opens a recording, and of an attach.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Launch {
    /// The name or the path of a recording; the latest one if absent.
    pub recording: Option<String>,
    /// A process of it, by number or name.
    pub process: Option<String>,
    /// Where to begin.
    pub at: Option<String>,
    /// The gdb to use.
    pub gdb: Option<String>,
    /// What an attach asks for: the address at which `retake debug --serve` waits.
    pub address: Option<String>,
    /// Whether to stay there until the user goes on; true if absent.
    pub stop_on_entry: Option<bool>,
}

/// Where a breakpoint is wanted.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SourceBreakpoint {
    pub line: i64,
    pub condition: Option<String>,
    pub hit_condition: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FunctionBreakpoint {
    pub name: String,
    pub condition: Option<String>,
    pub hit_condition: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DataBreakpoint {
    pub data_id: String,
    pub access_type: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Source {
    pub path: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct SetBreakpoints {
    pub source: Source,
    #[serde(default)]
    pub breakpoints: Vec<SourceBreakpoint>,
}

/// The arguments of the requests that replace all breakpoints of a kind.
#[derive(Debug, Deserialize)]
pub(crate) struct Breakpoints<T> {
    pub breakpoints: Vec<T>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StackTrace {
    pub thread_id: i64,
    pub start_frame: Option<i64>,
    pub levels: Option<i64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Scopes {
    pub frame_id: i64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Variables {
    pub variables_reference: i64,
    pub start: Option<i64>,
    pub count: Option<i64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Evaluate {
    pub expression: String,
    pub frame_id: Option<i64>,
    pub context: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DataInfo {
    pub variables_reference: Option<i64>,
    pub name: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Run {
    pub thread_id: i64,
    pub granularity: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_framed() {
        let body = r#"{"seq":1,"type":"request","command":"x","arguments":{"a":1}}"#;
        let event = r#"{"seq":1,"type":"event"}"#;
        let text = format!(
            "Content-Length: {}\r\n\r\n{event}content-length: {}\r\nOther: \
            1\r\n\r\n{body}Content-Length: 99\r\n\r\n{{",
            event.len(),
            body.len()
        );
        let mut input = text.as_bytes();
        let request = read(&mut input).unwrap();
        assert_eq!(
            (request.seq, request.command.as_str(), &request.arguments["a"]),
            (1, "x", &1.into())
        );
        assert!(read(&mut input).is_none());
        for bad in [
            "",
            "\r\n",
            "Content-Length: x\r\n\r\n",
            "Content-Length: 99999999999\r\n\r\n",
            "Content-Length: 1\r\n\r\n{",
        ] {
            assert!(read(&mut bad.as_bytes()).is_none(), "{bad:?}");
        }
        let mut output = Vec::new();
        write(&mut output, &Message::Event { seq: 3, event: "initialized", body: Value::Null })
            .unwrap();
        assert_eq!(
            String::from_utf8(output).unwrap(),
            "Content-Length: 46\r\n\r\n{\"type\":\"event\",\"seq\":3,\"event\":\"initialized\"}"
        );
    }
}
