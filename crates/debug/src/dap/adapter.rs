//! The adapter: passes each request to the code that answers it.

use super::breakpoints::{self, Breakpoints};
use super::client::{Answer, Client};
use super::debugger::Debugger;
use super::protocol::{Launch, Request};
use super::{Backend, Incoming, stack, stopped, values};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::io::Write;
use std::sync::mpsc::{Receiver, Sender};

pub(super) struct Adapter<'backend> {
    debugger: Debugger,
    breakpoints: Breakpoints,
    backend: Backend<'backend>,
    launch: Launch,
    /// The threads as gdb listed them last.
    threads: Value,
    has_ended: bool,
}

impl<'backend> Adapter<'backend> {
    pub fn new(
        output: Box<dyn Write>,
        sender: Sender<Incoming>,
        receiver: Receiver<Incoming>,
        backend: Backend<'backend>,
    ) -> Self {
        Self {
            debugger: Debugger::new(Client::new(output), sender, receiver),
            breakpoints: Breakpoints::default(),
            backend,
            launch: Launch::default(),
            threads: json!([]),
            has_ended: false,
        }
    }

    /// Serves requests until the client goes.
    pub fn run(mut self) {
        while !self.has_ended && !self.debugger.client.is_gone() {
            match self.debugger.next() {
                Some(Incoming::Request(request)) => self.answer(request),
                Some(Incoming::ClientGone) | None => break,
                Some(other) => self.debugger.heard(other),
            }
        }
    }

    fn answer(&mut self, request: Request) {
        let Request { seq, command, arguments } = request;
        let answer = self.handle(&command, arguments);
        let is_launched = answer.is_ok() && matches!(command.as_str(), "launch" | "attach");
        let is_configured = answer.is_ok() && command == "configurationDone";
        self.debugger.client.answer(seq, command, answer);
        if is_launched {
            self.debugger.client.event("initialized", Value::Null);
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
                self.debugger.end();
                self.debugger.client.event("terminated", Value::Null);
                self.has_ended = command == "disconnect";
                Ok(Value::Null)
            }
            _ if !self.debugger.is_there() => {
                Err("nothing is being debugged: launch first".to_owned())
            }
            "configurationDone" => Ok(Value::Null),
            "pause" => {
                self.debugger.interrupt();
                Ok(Value::Null)
            }
            "threads" => self.threads(),
            _ if command.starts_with("set") => self.set_breakpoints(command, arguments),
            _ if self.debugger.running.is_some() => Err("the program is running".to_owned()),
            _ => self.look_or_run(command, arguments),
        }
    }

    fn set_breakpoints(&mut self, command: &str, arguments: Value) -> Answer {
        let Self { debugger, breakpoints, .. } = self;
        match command {
            "setBreakpoints" => breakpoints.set_in_source(debugger, parsed(arguments)?),
            "setFunctionBreakpoints" => breakpoints.set_at_functions(debugger, parsed(arguments)?),
            "setExceptionBreakpoints" => breakpoints.set_at_exceptions(debugger, &arguments),
            "setDataBreakpoints" => breakpoints.set_on_data(debugger, parsed(arguments)?),
            _ if debugger.running.is_some() => Err("the program is running".to_owned()),
            _ => Err(format!("there is no request {command}")),
        }
    }

    /// Answers requests that need a stopped program.
    fn look_or_run(&mut self, command: &str, arguments: Value) -> Answer {
        let debugger = &mut self.debugger;
        match command {
            "dataBreakpointInfo" => breakpoints::watchable(debugger, &parsed(arguments)?),
            "stackTrace" => stack::trace(debugger, &parsed(arguments)?),
            "scopes" => stack::scopes(debugger, &parsed(arguments)?),
            "variables" => values::variables(debugger, &parsed(arguments)?),
            "evaluate" => values::evaluate(debugger, &parsed(arguments)?),
            "exceptionInfo" => debugger.exception_info(),
            "continue" | "reverseContinue" | "next" | "stepIn" | "stepOut" | "stepBack" => {
                stopped::resume(debugger, command, &parsed(arguments)?)
            }
            _ => Err(format!("there is no request {command}")),
        }
    }

    fn threads(&mut self) -> Answer {
        // gdb does not listen while the program runs.
        if self.debugger.running.is_none() {
            self.threads = stack::threads(&mut self.debugger)?;
        }
        Ok(json!({"threads": self.threads}))
    }

    fn launch(&mut self, launch: Launch, is_attach: bool) -> Answer {
        if self.debugger.is_there() {
            return Err("something is being debugged already".to_owned());
        }
        if is_attach && launch.address.is_none() {
            return Err("attach needs an address, at which `retake debug --serve` waits".to_owned());
        }
        let launch = Launch { address: launch.address.clone().filter(|_| is_attach), ..launch };
        let command = (self.backend)(&launch)?;
        self.debugger.start(command)?;
        self.launch = launch;
        self.prepare().inspect_err(|_| self.debugger.end())?;
        Ok(Value::Null)
    }

    fn prepare(&mut self) -> Result<(), String> {
        for setting in ["confirm off", "width 0", "print elements 200", "breakpoint pending on"] {
            self.debugger.mi(&format!("-gdb-set {setting}"))?;
        }
        self.debugger.mi("-enable-pretty-printing")?;
        self.threads()?;
        if self.threads.as_array().is_none_or(Vec::is_empty) {
            return Err(self.debugger.with_errors("gdb shows no program"));
        }
        Ok(())
    }

    /// Begins once the client has set its breakpoints.
    fn begin(&mut self) {
        let debugger = &mut self.debugger;
        debugger.holds_stops = false;
        // gdb has found a program. The client learns of that below.
        debugger.held_stop = None;
        if self.launch.stop_on_entry == Some(false) {
            if let Err(error) = debugger.execute("-exec-continue") {
                debugger.client.print("important", &error);
            }
            return;
        }
        let crash = debugger.console("monitor crash").unwrap_or_default();
        let is_there = debugger.console("monitor ends").is_ok_and(|answer| answer.trim() == "yes");
        let body = match crash.trim() {
            crash if !crash.is_empty() && is_there => {
                let name = crash.split_whitespace().nth(2).unwrap_or_default().to_owned();
                debugger.last_signal = Some((name.clone(), crash.to_owned()));
                json!({"reason": "exception", "description": format!("Crash: {name}"),
                    "text": crash})
            }
            _ => json!({"reason": "entry"}),
        };
        debugger.stopped(body);
    }
}

fn parsed<T: DeserializeOwned>(arguments: Value) -> Result<T, String> {
    let arguments = if arguments.is_null() { json!({}) } else { arguments };
    serde_json::from_value(arguments).map_err(|error| format!("cannot read the arguments: {error}"))
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
