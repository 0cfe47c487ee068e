//! Lets the program run, forwards and backwards, and tells the client of its stops.

use super::client::Answer;
use super::debugger::Debugger;
use super::mi;
use super::protocol::Run;
use serde_json::{Value, json};

/// Lets the program run as a request says.
///
/// # Errors
/// gdb cannot do that here.
pub(super) fn resume(debugger: &mut Debugger, request: &str, run: &Run) -> Answer {
    let by_instruction = run.granularity.as_deref() == Some("instruction");
    let thread = run.thread_id;
    let command = match (request, by_instruction) {
        ("continue", _) => "-exec-continue".to_owned(),
        ("reverseContinue", _) => "-exec-continue --reverse".to_owned(),
        ("next", false) => format!("-exec-next --thread {thread}"),
        ("next", true) => format!("-exec-next-instruction --thread {thread}"),
        ("stepIn", false) => format!("-exec-step --thread {thread}"),
        ("stepIn", true) => format!("-exec-step-instruction --thread {thread}"),
        ("stepBack", false) => format!("-exec-next --thread {thread} --reverse"),
        ("stepBack", true) => format!("-exec-next-instruction --thread {thread} --reverse"),
        _ => format!("-exec-finish --thread {thread} --frame 0"),
    };
    if request == "stepBack" {
        // Do as the commands of gdb's prompt: see `hook_lines` in retake.py.
        debugger.console(if by_instruction {
            "python by_line(False)"
        } else {
            "python by_line(True)"
        })?;
    }
    debugger.execute(&command)?;
    Ok(if request == "continue" { json!({"allThreadsContinued": true}) } else { Value::Null })
}

impl Debugger {
    /// Handles gdb's report that the program stopped.
    pub(super) fn gdb_stopped(&mut self, results: &Value) {
        self.running = None;
        let signal = mi::text(results, "signal-name").to_owned();
        let body = match mi::text(results, "reason") {
            "breakpoint-hit" => {
                let numbers: Vec<i64> = mi::number(results, "bkptno").into_iter().collect();
                json!({"reason": "breakpoint", "hitBreakpointIds": numbers})
            }
            "watchpoint-trigger" | "read-watchpoint-trigger" | "access-watchpoint-trigger" => {
                json!({"reason": "data breakpoint", "text": change(results)})
            }
            "end-stepping-range" | "function-finished" | "location-reached" => {
                json!({"reason": "step"})
            }
            "signal-received" if signal == "SIGINT" => json!({"reason": "pause"}),
            "signal-received" => {
                let meaning = mi::text(results, "signal-meaning").to_owned();
                self.last_signal = Some((signal.clone(), meaning.clone()));
                json!({"reason": "exception", "description": signal, "text": meaning})
            }
            "no-history" => {
                json!({"reason": "goto", "description": "The recording begins or ends here"})
            }
            "exited-normally" => return self.exited(0),
            "exited" => {
                return self.exited(
                    i64::from_str_radix(mi::text(results, "exit-code"), 8).unwrap_or_default(),
                );
            }
            "exited-signalled" => return self.exited(-1),
            _ => json!({"reason": "pause"}),
        };
        let body = with_thread(body, mi::number(results, "thread-id"));
        if self.holds_stops {
            self.held_stop = Some(body);
        } else {
            self.stopped(body);
        }
    }

    /// Tells the client that the program stopped.
    pub(super) fn stopped(&mut self, mut body: Value) {
        self.shown.forget_frames();
        body["allThreadsStopped"] = true.into();
        if body.get("threadId").is_none() {
            let current = self.mi("-thread-info").ok();
            body["threadId"] =
                current.and_then(|info| mi::number(&info, "current-thread-id")).unwrap_or(1).into();
        }
        self.client.event("stopped", body);
    }

    fn exited(&mut self, status: i64) {
        self.client.event("exited", json!({"exitCode": status}));
        self.client.event("terminated", Value::Null);
    }

    /// The description of the last signal.
    pub(super) fn exception_info(&self) -> Answer {
        let (name, text) = self.last_signal.clone().ok_or("no signal was received")?;
        Ok(json!({"exceptionId": name, "description": text, "breakMode": "always"}))
    }
}

fn with_thread(mut body: Value, thread: Option<i64>) -> Value {
    if let Some(thread) = thread {
        body["threadId"] = thread.into();
    }
    body
}

/// The old and the new value of a watched variable.
fn change(results: &Value) -> String {
    let name = ["wpt", "hw-rwpt", "hw-awpt"]
        .iter()
        .find_map(|kind| results.get(*kind))
        .map_or("", |watchpoint| mi::text(watchpoint, "exp"));
    let value = results.get("value").cloned().unwrap_or_default();
    match (mi::text(&value, "old"), mi::text(&value, "new"), mi::text(&value, "value")) {
        ("", "", value) => format!("{name} is {value}"),
        (old, new, _) => format!("{name} was {old}, is {new}"),
    }
}
