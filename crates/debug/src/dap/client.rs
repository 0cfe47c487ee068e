//! The client: the answers, events and texts that it gets.

use super::protocol::{self, Message};
use serde_json::{Value, json};
use std::io::Write;

/// The answer to a request: a body, or the reason of a failure.
pub(super) type Answer = Result<Value, String>;

/// The connection to the client.
pub(super) struct Client {
    output: Box<dyn Write>,
    next_seq: i64,
    is_gone: bool,
}

impl Client {
    pub fn new(output: Box<dyn Write>) -> Self {
        Self { output, next_seq: 1, is_gone: false }
    }

    /// Whether the client is gone.
    pub fn is_gone(&self) -> bool {
        self.is_gone
    }

    fn number(&mut self) -> i64 {
        self.next_seq += 1;
        self.next_seq - 1
    }

    fn send(&mut self, message: &Message) {
        self.is_gone |= protocol::write(self.output.as_mut(), message).is_err();
    }

    /// Answers a request.
    pub fn answer(&mut self, request_seq: i64, command: String, answer: Answer) {
        let (success, message, body) = match answer {
            Ok(body) => (true, None, body),
            Err(message) => (false, Some(message), Value::Null),
        };
        let seq = self.number();
        self.send(&Message::Response { seq, request_seq, success, command, message, body });
    }

    /// Sends an event.
    pub fn event(&mut self, event: &'static str, body: Value) {
        let seq = self.number();
        self.send(&Message::Event { seq, event, body });
    }

    /// Shows a text to the user.
    pub fn print(&mut self, category: &str, text: &str) {
        self.event("output", json!({"category": category, "output": text}));
    }
}
