//! The adapter: what it knows, how it talks to both sides, and which request is answered where.

use super::gdb::Gdb;
use super::mi::{self, Record};
use super::protocol::{self, Launch, Message, Request};
use super::values::Reference;
use super::{Backend, Incoming};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::io::Write;
use std::sync::mpsc::{Receiver, Sender};

/// What a request is answered with: a body, or why it failed.
pub(super) type Answer = Result<Value, String>;

/// Lines of standard error that are kept to explain a failure.
const KEPT_LINES: usize = 20;

pub(super) struct Adapter<'backend> {
    output: Box<dyn Write>,
    next_seq: i64,
    sender: Sender<Incoming>,
    receiver: Receiver<Incoming>,
    /// What came while an answer of gdb's was waited for.
    waiting: VecDeque<Incoming>,
    backend: Backend<'backend>,
    pub gdb: Option<Gdb>,
    launch: Launch,
    errors: Vec<String>,
    has_ended: bool,
    /// The program runs: gdb does not listen. With the command that made it run.
    pub running: Option<String>,
    /// Stops are not told at once, but kept.
    pub holds_stops: bool,
    pub held_stop: Option<Value>,
    /// What commands print goes here while somebody wants it.
    pub captured: Option<String>,
    /// By number, from 1: thread and level.
    pub frames: Vec<(i64, i64)>,
    /// By number, from 1.
    pub references: Vec<Reference>,
    /// Variable objects of gdb's, to be deleted.
    pub objects: Vec<String>,
    /// Numbers of breakpoints by what asked for them: a source, or a kind.
    pub breakpoints: HashMap<String, Vec<i64>>,
    pub threads: Value,
    pub last_signal: Option<(String, String)>,
}

impl<'backend> Adapter<'backend> {
    pub fn new(
        output: Box<dyn Write>,
        sender: Sender<Incoming>,
        receiver: Receiver<Incoming>,
        backend: Backend<'backend>,
    ) -> Self {
        Self {
            output,
            next_seq: 1,
            sender,
            receiver,
            waiting: VecDeque::new(),
            backend,
            gdb: None,
            launch: Launch::default(),
            errors: Vec::new(),
            has_ended: false,
            running: None,
            holds_stops: true,
            held_stop: None,
            captured: None,
            frames: Vec::new(),
            references: Vec::new(),
            objects: Vec::new(),
            breakpoints: HashMap::new(),
            threads: json!([]),
            last_signal: None,
        }
    }

    /// Until the client goes.
    pub fn run(mut self) {
        while !self.has_ended {
            let next = self.waiting.pop_front().or_else(|| self.receiver.recv().ok());
            match next {
                Some(Incoming::Request(request)) => self.answer(request),
                Some(Incoming::ClientGone) | None => break,
                Some(other) => self.heard(other),
            }
        }
    }

    fn answer(&mut self, request: Request) {
        let Request { seq, command, arguments } = request;
        let answer = self.handle(&command, arguments);
        let (success, message, body) = match answer {
            Ok(body) => (true, None, body),
            Err(message) => (false, Some(message), Value::Null),
        };
        let is_launched = success && matches!(command.as_str(), "launch" | "attach");
        let is_configured = success && command == "configurationDone";
        let seq_of_answer = self.number();
        self.send(&Message::Response {
            seq: seq_of_answer,
            request_seq: seq,
            success,
            command,
            message,
            body,
        });
        if is_launched {
            self.event("initialized", Value::Null);
        }
        if is_configured {
            self.begin();
        }
    }

    fn handle(&mut self, command: &str, arguments: Value) -> Answer {
        match command {
            "initialize" => Ok(capabilities()),
            "launch" | "attach" => self.launch(parsed(arguments)?, command == "attach"),
            "disconnect" | "terminate" => {
                self.gdb = None;
                self.event("terminated", Value::Null);
                self.has_ended = command == "disconnect";
                Ok(Value::Null)
            }
            _ if self.gdb.is_none() => Err("nothing is being debugged: launch first".to_owned()),
            "configurationDone" => Ok(Value::Null),
            "setBreakpoints" => self.set_breakpoints(parsed(arguments)?),
            "setFunctionBreakpoints" => self.set_function_breakpoints(parsed(arguments)?),
            "setExceptionBreakpoints" => self.set_exception_breakpoints(&arguments),
            "setDataBreakpoints" => self.set_data_breakpoints(parsed(arguments)?),
            "pause" => {
                if let (Some(gdb), Some(_)) = (&self.gdb, &self.running) {
                    gdb.interrupt();
                }
                Ok(Value::Null)
            }
            "threads" => self.threads(),
            _ if self.running.is_some() => Err("the program is running".to_owned()),
            "dataBreakpointInfo" => self.data_breakpoint_info(&parsed(arguments)?),
            "stackTrace" => self.stack_trace(&parsed(arguments)?),
            "scopes" => self.scopes(&parsed(arguments)?),
            "variables" => self.variables(&parsed(arguments)?),
            "evaluate" => self.evaluate(&parsed(arguments)?),
            "exceptionInfo" => self.exception_info(),
            "continue" | "reverseContinue" | "next" | "stepIn" | "stepOut" | "stepBack" => {
                self.resume(command, &parsed(arguments)?)
            }
            _ => Err(format!("there is no request {command}")),
        }
    }

    fn launch(&mut self, launch: Launch, is_attach: bool) -> Answer {
        if self.gdb.is_some() {
            return Err("something is being debugged already".to_owned());
        }
        if is_attach && launch.address.is_none() {
            return Err("attach needs an address, at which `retake debug --serve` waits".to_owned());
        }
        let launch = Launch { address: launch.address.clone().filter(|_| is_attach), ..launch };
        self.holds_stops = true;
        self.errors.clear();
        let command = (self.backend)(&launch)?;
        let gdb = Gdb::start(command, &self.sender)
            .map_err(|error| format!("cannot start gdb: {error}"))?;
        self.gdb = Some(gdb);
        self.launch = launch;
        self.prepare().inspect_err(|_| self.gdb = None)?;
        Ok(Value::Null)
    }

    fn prepare(&mut self) -> Result<(), String> {
        for setting in ["confirm off", "width 0", "print elements 200", "breakpoint pending on"] {
            self.mi(&format!("-gdb-set {setting}"))?;
        }
        self.mi("-enable-pretty-printing")?;
        self.threads()?;
        if self.threads.as_array().is_none_or(Vec::is_empty) {
            return Err(self.with_errors("gdb shows no program"));
        }
        Ok(())
    }

    /// The client has set its breakpoints.
    fn begin(&mut self) {
        self.holds_stops = false;
        // gdb has found a program: the client will be told of it in a way of its own
        self.held_stop = None;
        if self.launch.stop_on_entry == Some(false) {
            if let Err(error) = self.execute("-exec-continue") {
                self.print("important", &error);
            }
            return;
        }
        let crash = self.console("monitor crash").unwrap_or_default();
        let is_there = self.console("monitor ends").is_ok_and(|answer| answer.trim() == "yes");
        let body = match crash.trim() {
            crash if !crash.is_empty() && is_there => {
                let name = crash.split_whitespace().nth(2).unwrap_or_default().to_owned();
                self.last_signal = Some((name.clone(), crash.to_owned()));
                json!({"reason": "exception", "description": format!("Crash: {name}"),
                    "text": crash})
            }
            _ => json!({"reason": "entry"}),
        };
        self.stopped(body);
    }

    // ---- to the client ----

    fn number(&mut self) -> i64 {
        self.next_seq += 1;
        self.next_seq - 1
    }

    fn send(&mut self, message: &Message) {
        if protocol::write(self.output.as_mut(), message).is_err() {
            self.has_ended = true; // nobody listens any more
        }
    }

    pub fn event(&mut self, event: &'static str, body: Value) {
        let seq = self.number();
        self.send(&Message::Event { seq, event, body });
    }

    pub fn print(&mut self, category: &str, text: &str) {
        self.event("output", json!({"category": category, "output": text}));
    }

    // ---- to gdb ----

    /// Gives gdb a command and waits for the answer.
    pub fn mi(&mut self, command: &str) -> Answer {
        let gdb = self.gdb.as_mut().ok_or("nothing is being debugged")?;
        let Ok(wanted) = gdb.send(command) else { return Err(self.with_errors("gdb has ended")) };
        loop {
            match self.receiver.recv() {
                Ok(Incoming::Gdb(Record::Result { token, class, results }))
                    if token == Some(wanted) =>
                {
                    return match class.as_str() {
                        "error" => Err(mi::text(&results, "msg").to_owned()),
                        _ => Ok(results),
                    };
                }
                Ok(Incoming::GdbGone) => {
                    self.waiting.push_back(Incoming::GdbGone);
                    return Err(self.with_errors("gdb has ended"));
                }
                Ok(request @ (Incoming::Request(_) | Incoming::ClientGone)) => {
                    self.waiting.push_back(request)
                }
                Ok(other) => self.heard(other),
                Err(_) => return Err("gdb has ended".to_owned()),
            }
        }
    }

    /// What a command of gdb's command line prints.
    pub fn console(&mut self, command: &str) -> Result<String, String> {
        self.captured = Some(String::new());
        let answer = self.mi(&format!("-interpreter-exec console {}", mi::quoted(command)));
        let text = self.captured.take().unwrap_or_default();
        answer.map(|_| text)
    }

    /// Waits until the program has stopped.
    pub fn wait_for_stop(&mut self) {
        while self.running.is_some() {
            match self.receiver.recv() {
                Ok(Incoming::GdbGone) => {
                    self.waiting.push_back(Incoming::GdbGone);
                    self.running = None;
                }
                Ok(request @ (Incoming::Request(_) | Incoming::ClientGone)) => {
                    self.waiting.push_back(request)
                }
                Ok(other) => self.heard(other),
                Err(_) => self.running = None,
            }
        }
    }

    fn heard(&mut self, incoming: Incoming) {
        match incoming {
            Incoming::Gdb(Record::Exec { class, results }) if class == "stopped" => {
                self.gdb_stopped(&results)
            }
            Incoming::Gdb(Record::Console(text)) => match &mut self.captured {
                Some(captured) => captured.push_str(&text),
                None => self.print("console", &text),
            },
            Incoming::Gdb(Record::Target(text)) => match &mut self.captured {
                // Answers of `monitor` come as if the program printed them.
                Some(captured) if self.running.is_none() => captured.push_str(&text),
                _ => self.print("stdout", &text),
            },
            Incoming::Said(line) => {
                self.print("stderr", &format!("{line}\n"));
                self.errors.push(line);
                if self.errors.len() > KEPT_LINES {
                    self.errors.remove(0);
                }
            }
            Incoming::GdbGone if self.gdb.is_some() => {
                self.gdb = None;
                self.running = None;
                self.event("terminated", Value::Null);
            }
            _ => {}
        }
    }

    /// A failure with what was said on standard error.
    fn with_errors(&mut self, what: &str) -> String {
        // What explains it may still be on its way.
        while let Ok(incoming) = self.receiver.recv_timeout(std::time::Duration::from_millis(100)) {
            match incoming {
                Incoming::Said(_) => self.heard(incoming),
                other => self.waiting.push_back(other),
            }
        }
        if self.errors.is_empty() {
            what.to_owned()
        } else {
            format!("{what}\n{}", self.errors.join("\n"))
        }
    }
}

fn parsed<T: DeserializeOwned>(arguments: Value) -> Result<T, String> {
    let arguments = if arguments.is_null() { json!({}) } else { arguments };
    serde_json::from_value(arguments)
        .map_err(|error| format!("the arguments make no sense: {error}"))
}

fn capabilities() -> Value {
    json!({
        "supportsConfigurationDoneRequest": true,
        "supportsFunctionBreakpoints": true,
        "supportsConditionalBreakpoints": true,
        "supportsHitConditionalBreakpoints": true,
        "supportsDataBreakpoints": true,
        "supportsEvaluateForHovers": true,
        "supportsStepBack": true,
        "supportsSteppingGranularity": true,
        "supportsExceptionInfoRequest": true,
        "supportsTerminateRequest": true,
        "supportsDelayedStackTraceLoading": true,
        "exceptionBreakpointFilters": [
            {"filter": "throw", "label": "C++: throw", "default": false},
            {"filter": "catch", "label": "C++: catch", "default": false},
        ],
    })
}
