//! gdb and the program in it, as the client sees them: commands and their answers, whether the
//! program runs, and what the client has been shown since the last stop.

use super::Incoming;
use super::client::{Answer, Client};
use super::gdb::Gdb;
use super::mi::{self, Record};
use super::shown::Shown;
use serde_json::Value;
use std::collections::VecDeque;
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

/// The number of lines of standard error that are kept to explain a failure.
const KEPT_LINES: usize = 20;
/// How long to wait after a failure for lines that explain it.
const LATE: Duration = Duration::from_millis(100);

pub(super) struct Debugger {
    pub client: Client,
    sender: Sender<Incoming>,
    receiver: Receiver<Incoming>,
    /// What arrived while an answer of gdb was awaited.
    waiting: VecDeque<Incoming>,
    gdb: Option<Gdb>,
    errors: Vec<String>,
    /// The command that made the program run, while it runs. gdb does not listen then.
    pub running: Option<String>,
    /// Whether stops are kept instead of told at once.
    pub holds_stops: bool,
    pub held_stop: Option<Value>,
    /// The output of gdb's commands, while it is captured.
    captured: Option<String>,
    pub shown: Shown,
    /// The name and the meaning of the last signal.
    pub last_signal: Option<(String, String)>,
}

impl Debugger {
    pub fn new(client: Client, sender: Sender<Incoming>, receiver: Receiver<Incoming>) -> Self {
        Self {
            client,
            sender,
            receiver,
            waiting: VecDeque::new(),
            gdb: None,
            errors: Vec::new(),
            running: None,
            holds_stops: true,
            held_stop: None,
            captured: None,
            shown: Shown::default(),
            last_signal: None,
        }
    }

    /// Starts gdb. Stops are kept until the client is ready.
    ///
    /// # Errors
    /// gdb cannot be started.
    pub fn start(&mut self, command: Command) -> Result<(), String> {
        self.holds_stops = true;
        self.errors.clear();
        let gdb = Gdb::start(command, &self.sender)
            .map_err(|error| format!("cannot start gdb: {error}"))?;
        self.gdb = Some(gdb);
        Ok(())
    }

    /// Whether gdb runs.
    pub fn is_there(&self) -> bool {
        self.gdb.is_some()
    }

    /// Ends gdb.
    pub fn end(&mut self) {
        self.gdb = None;
    }

    // ---- incoming messages ----

    /// Returns the next message that is not handled here; `None` if nothing more will come.
    pub fn next(&mut self) -> Option<Incoming> {
        self.waiting.pop_front().or_else(|| self.receiver.recv().ok())
    }

    /// Handles a message of gdb.
    pub fn heard(&mut self, incoming: Incoming) {
        match incoming {
            Incoming::Gdb(Record::Exec { class, results }) if class == "stopped" => {
                self.gdb_stopped(&results)
            }
            Incoming::Gdb(Record::Console(text)) => match &mut self.captured {
                Some(captured) => captured.push_str(&text),
                None => self.client.print("console", &text),
            },
            Incoming::Gdb(Record::Target(text)) => match &mut self.captured {
                // Output of `monitor` commands looks like output of the program.
                Some(captured) if self.running.is_none() => captured.push_str(&text),
                _ => self.client.print("stdout", &text),
            },
            Incoming::Said(line) => {
                self.client.print("stderr", &format!("{line}\n"));
                self.errors.push(line);
                if self.errors.len() > KEPT_LINES {
                    self.errors.remove(0);
                }
            }
            Incoming::GdbGone if self.gdb.is_some() => {
                self.gdb = None;
                self.running = None;
                self.client.event("terminated", Value::Null);
            }
            _ => {}
        }
    }

    // ---- commands ----

    /// Sends gdb a command and waits for the answer.
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

    /// Returns the output of a command of gdb's command line.
    pub fn console(&mut self, command: &str) -> Result<String, String> {
        self.captured = Some(String::new());
        let answer = self.mi(&format!("-interpreter-exec console {}", mi::quoted(command)));
        let text = self.captured.take().unwrap_or_default();
        answer.map(|_| text)
    }

    /// Sends a command that lets the program run.
    pub fn execute(&mut self, command: &str) -> Result<(), String> {
        self.forget_values();
        // This comes first because output of the program may arrive before gdb says that it runs.
        self.running = Some(command.to_owned());
        let answer = self.mi(command);
        if answer.is_err() {
            self.running = None;
        }
        answer.map(drop)
    }

    /// Adds the lines of standard error to the description of a failure.
    pub fn with_errors(&mut self, what: &str) -> String {
        while let Ok(incoming) = self.receiver.recv_timeout(LATE) {
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

    // ---- stopping ----

    /// Stops the program if it runs.
    pub fn interrupt(&self) {
        if let (Some(gdb), Some(_)) = (&self.gdb, &self.running) {
            gdb.interrupt();
        }
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

    /// Stops a running program, because gdb does not listen while it runs. Returns the command that
    /// lets it go on, or `None` if it stays where it is.
    pub fn interrupt_for_a_moment(&mut self) -> Option<String> {
        let command = self.running.clone()?;
        self.holds_stops = true;
        self.gdb.as_ref()?.interrupt();
        self.wait_for_stop();
        self.holds_stops = false;
        match self.held_stop.take() {
            // The program stopped for a reason of its own.
            Some(stop) if mi::text(&stop, "reason") != "pause" => {
                self.stopped(stop);
                None
            }
            _ => Some(command),
        }
    }

    /// Deletes what gdb keeps for the client. It is useless once the program goes on.
    pub fn forget_values(&mut self) {
        for object in self.shown.take_objects() {
            // gdb deletes children with their parents, and objects with their frames.
            let _ = self.mi(&format!("-var-delete {}", mi::quoted(&object)));
        }
        self.shown.forget_frames();
    }
}
