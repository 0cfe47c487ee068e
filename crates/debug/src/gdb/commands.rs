//! Commands of ours, which gdb passes on with `monitor`. The script in `retake.py` gives them names of their own.

use super::target::Remote;
use crate::error::Result;
use gdbstub::target::ext::monitor_cmd::{ConsoleOutput, MonitorCmd, outputln};

/// Where `seek` goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Destination {
    /// Where the current thread, or this one, has consumed so many events.
    Event(Option<u32>, u64),
    Begin,
    End,
    Checkpoint(u64),
}

const HELP: &str = "\
when                  where the program is in the recording
seek EVENT            go to an event of the current thread
seek THREAD:EVENT     of another one
seek begin|end|crash  to the ends
checkpoint            remember this place
checkpoints           list them
restart NUMBER        go back to one
info                  about the recording";

impl MonitorCmd for Remote {
    fn handle_monitor_cmd(&mut self, command: &[u8], mut out: ConsoleOutput<'_>) -> Result<()> {
        let text = String::from_utf8_lossy(command).into_owned();
        for line in self.answer(text.trim())?.lines() {
            outputln!(out, "{line}");
        }
        Ok(())
    }
}

impl Remote {
    fn answer(&mut self, command: &str) -> Result<String> {
        let (name, argument) = command.split_once(' ').unwrap_or((command, ""));
        Ok(match name {
            "when" => self.when(),
            "seek" => match destination(argument.trim()) {
                Some(destination) => self.go_next(destination),
                None => format!("error: {argument:?} is no place\n  try       seek EVENT, seek THREAD:EVENT, seek begin, seek end or seek crash"),
            },
            "checkpoint" => match self.session.keep_checkpoint()? {
                Some(number) => format!("checkpoint {number} at {}", self.when()),
                None => "error: no copy of the process can be made here: it shares memory with others".to_owned(),
            },
            "checkpoints" => {
                let list = self.session.kept_checkpoints();
                if list.is_empty() { "no checkpoints".to_owned() } else { list.join("\n") }
            }
            "restart" => match argument.trim().parse() {
                Ok(number) if self.session.has_checkpoint(number) => self.go_next(Destination::Checkpoint(number)),
                _ => format!("error: there is no checkpoint {argument}"),
            },
            "info" => self.session.about.clone(),
            _ => HELP.to_owned(),
        })
    }

    fn when(&self) -> String {
        let context = self.session.debuggee.context();
        format!("event {} of thread {}", context.event_count, context.tid)
    }

    /// The next time the program is to run, it goes there instead: so the debugger learns of it as of any stop.
    fn go_next(&mut self, destination: Destination) -> String {
        self.destination = Some(destination);
        String::new()
    }
}

fn destination(text: &str) -> Option<Destination> {
    match text {
        "begin" => return Some(Destination::Begin),
        "end" | "exit" | "crash" => return Some(Destination::End),
        _ => {}
    }
    match text.split_once(':') {
        Some((thread, event)) => Some(Destination::Event(Some(thread.parse().ok()?), event.parse().ok()?)),
        None => Some(Destination::Event(None, text.parse().ok()?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_by_name_and_number() {
        assert_eq!(destination("12"), Some(Destination::Event(None, 12)));
        assert_eq!(destination("4711:12"), Some(Destination::Event(Some(4711), 12)));
        assert_eq!(destination("crash"), Some(Destination::End));
        for bad in ["", "x", "1:", ":1", "-1", "1:2:3"] {
            assert_eq!(destination(bad), None, "{bad}");
        }
    }
}
