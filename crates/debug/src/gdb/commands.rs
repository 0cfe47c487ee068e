//! Our own commands, which gdb passes on with `monitor`. The script `retake.py` gives them names of
//! their own.

use super::remote::{Remote, Wish};
use crate::console::readable;
use crate::destination::Destination;
use crate::error::Result;
use crate::inferior::Fate;
use crate::lines::loops::{Function, GoneOver};
use crate::state::hash_of_state;
use crate::waits::{self, Known, Told, Wait};
use gdbstub::target::ext::monitor_cmd::{ConsoleOutput, MonitorCmd, outputln};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use retake_interpreters::Registers;
use retake_model::event::Console;
use serde::Serialize;
use std::fmt::Write;

const HELP: &str = "\
when                  where the program is in the recording, and when that was
elapsed               how long after recording began this place is, and when the process ended
seek PLACE            go to EVENT, THREAD:EVENT, a time such as 1.5s, begin, exit or crash
checkpoint            remember this place
checkpoints           list them
restart NUMBER        go back to one
forks on|off          whether the debugger is told of processes that the program makes
execs on|off          whether a run backwards without a stop goes on past the exec, into the program that executed this one
forget NUMBER         forget one
lines on|off          whether steps back go to the beginning of a line: they may pass over the rounds of a loop in the line. After `on`, three
                      addresses may follow: the function's entry, and the beginning and end of its code. Then also rounds with calls are passed over
events [COUNT]        the events before and after here
origin ADDRESS BYTES  the system call that writes this memory here
stdout, stderr        what the program printed up to here
output                both
crash                 how the process died
waits                 what the threads wait for, as JSON
python THREAD         what a thread does in Python, as JSON: its frames, those together that one native call evaluates, the innermost first; its exception
languages             which other languages the process runs, as JSON, and where the code lies that they have made
walk THREAD PC SP FP  the native frames from there outwards, as long as they are of such code, and what they execute, as JSON
deadlocks JSON        the same in words; the JSON is that of `waits`, with what the debugger has added
reverse-continue      when the program is to run the next time, it runs back, to one of the breakpoints that are set now
reverse-stepi         ... by one instruction
info                  about the recording
hash                  a hash of all registers and memory, to compare visits of a place
followed              for how much of the way the executed instructions are known; this grows while the debugger waits for its user";

/// The most bytes of output in one packet.
const MOST_AT_ONCE: usize = 4096;
/// The number of events shown before and after this place by default.
const EVENTS_BEFORE: u64 = 10;
const EVENTS_AFTER: u64 = 3;

impl MonitorCmd for Remote {
    fn handle_monitor_cmd(&mut self, command: &[u8], mut out: ConsoleOutput<'_>) -> Result<()> {
        let text = String::from_utf8_lossy(command).into_owned();
        let which = match text.trim() {
            "stdout" => Some(Console::Out),
            "stderr" => Some(Console::Err),
            "output" => None,
            command => {
                for line in self.answer(command)?.lines() {
                    outputln!(out, "{line}");
                }
                return Ok(());
            }
        };
        let mut printed = Vec::new();
        self.session.replay_mut().printed(which, &mut |bytes| printed.extend_from_slice(bytes))?;
        for part in readable(&printed).as_bytes().chunks(MOST_AT_ONCE) {
            out.write_raw(part);
            out.flush();
        }
        Ok(())
    }
}

/// A function: its entry, and the beginning and the end of its code.
fn function<'a>(words: impl Iterator<Item = &'a str>) -> Option<Function> {
    let numbers: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
    let &[entry, start, end] = &numbers[..] else { return None };
    (start..end).contains(&entry).then_some(Function { entry, code: start..end })
}

impl Remote {
    fn answer(&mut self, command: &str) -> Result<String> {
        let (name, argument) = command.split_once(' ').unwrap_or((command, ""));
        let argument = argument.trim();
        Ok(match name {
            "when" => self.when(),
            "place" => self.place(),
            "elapsed" => self.elapsed(),
            "seek" => match argument.parse::<Destination>() {
                Ok(destination) => self.go_next(destination),
                Err(error) => format!("error: {error}"),
            },
            "checkpoint" => match self
                .session
                .travel
                .bookmarks
                .add(&mut self.session.travel.timeline)?
            {
                Some(number) => format!("checkpoint {number} at {}", self.place()),
                None => {
                    "error: no copy of the process can be made here: it shares memory with others"
                        .to_owned()
                }
            },
            "checkpoints" => {
                let list = self.session.travel.bookmarks.list(&self.session.inferior().text);
                if list.is_empty() { "no checkpoints".to_owned() } else { list.join("\n") }
            }
            "restart" => self.with_checkpoint(argument, |remote, number| {
                remote.go_next(Destination::Checkpoint(number))
            }),
            "forget" => self.with_checkpoint(argument, |remote, number| {
                remote.session.travel.bookmarks.forget(number);
                String::new()
            }),
            "forks" => {
                self.session.replay_mut().inferior.stops.catches.forks = argument == "on";
                String::new()
            }
            "execs" => {
                self.goes_before_exec = argument == "on";
                String::new()
            }
            "events" => self.events(argument)?,
            "samples" => {
                self.session.replay().history.samples(argument.parse().unwrap_or(1)).join("\n")
            }
            "origin" => self.origin(argument)?,
            "crash" => {
                self.session.replay().history.crash.as_ref().map_or_else(String::new, |crash| {
                    format!("thread {}: {}", crash.tid, crash.describe())
                })
            }
            "ends" => yes_or_no(self.session.inferior().ending.fate != Fate::Open),
            "lines" => self.lines(argument),
            "reverse-continue" => self.turn(Wish::ReverseContinue),
            "reverse-stepi" => self.turn(Wish::ReverseStep),
            "begins" => yes_or_no(self.session.travel.timeline.is_at_begin()?),
            "waits" => self.waits()?,
            "python" => self.python(argument),
            "languages" => json(&self.session.scripts().languages()),
            "walk" => self.walk(argument),
            "deadlocks" => self.deadlocks(argument),
            "hash" => format!("{:016x}", hash_of_state(self.session.inferior())?),
            "followed" => self.session.travel.timeline.followed(),
            "info" => self.session.replay().history.about(),
            _ => HELP.to_owned(),
        })
    }

    fn lines(&mut self, argument: &str) -> String {
        let mut words = argument.split_whitespace();
        self.goes_by_line = words.next() == Some("on");
        self.session.gone_over = GoneOver::of(function(words));
        String::new()
    }

    fn place(&self) -> String {
        let context = self.session.inferior().context();
        format!("event {} of thread {}", context.event_count, context.tid)
    }

    fn when(&self) -> String {
        let replay = self.session.replay();
        let time = replay.here().and_then(|here| replay.history.time(here));
        match time {
            Some((ns, unix_ns)) => format!(
                "{}\nat {}, {} after recording began",
                self.place(),
                local_time(unix_ns),
                seconds(ns, 6)
            ),
            None => self.place(),
        }
    }

    fn elapsed(&self) -> String {
        let replay = self.session.replay();
        match replay.here().and_then(|here| replay.history.elapsed(here)) {
            Some((now, end)) => format!(
                "about {} after recording began; the process ended at {}",
                seconds(now, 3),
                seconds(end, 3)
            ),
            None => "error: the recording does not say when".to_owned(),
        }
    }

    fn with_checkpoint(
        &mut self,
        number: &str,
        act: impl FnOnce(&mut Self, u64) -> String,
    ) -> String {
        match number.parse() {
            Ok(number) if self.session.travel.bookmarks.has(number) => act(self, number),
            _ => format!("error: there is no checkpoint {number}\n  try       info checkpoints"),
        }
    }

    fn events(&self, count: &str) -> Result<String> {
        let (before, after) = match count.parse() {
            Ok(count) => (count, count),
            Err(_) if count.is_empty() => (EVENTS_BEFORE, EVENTS_AFTER),
            Err(_) => return Ok(format!("error: {count:?} is not a number of events")),
        };
        let mut text = self.session.events_around(before, after)?;
        // The data of calls may contain control characters, which must not reach a terminal. The
        // line ends are ours.
        text.retain(|character| character == '\n' || !character.is_control());
        let _ = write!(text, "(thread {})", self.session.inferior().context().tid);
        Ok(text)
    }

    fn origin(&self, arguments: &str) -> Result<String> {
        let numbers = arguments
            .split_once(' ')
            .and_then(|(address, bytes)| Some((address.parse().ok()?, bytes.trim().parse().ok()?)));
        match numbers {
            Some((address, bytes)) => {
                let replay = self.session.replay();
                let Some(here) = replay.here() else { return Ok(String::new()) };
                Ok(replay.history.writing_call(here, address, bytes)?.unwrap_or_default())
            }
            None => Ok("error: origin takes an address and a number of bytes".to_owned()),
        }
    }

    fn waits(&self) -> Result<String> {
        let waits = waits::of_replay(self.session.replay())?;
        Ok(serde_json::to_string_pretty(&waits).expect("keys are strings"))
    }

    fn python(&self, thread: &str) -> String {
        let Ok(thread) = thread.parse() else {
            return format!("error: {thread:?} is not the number of a thread");
        };
        match self.session.scripts().stack(thread) {
            Ok(stack) => json(&stack),
            Err(error) => format!("error: {error}"),
        }
    }

    fn walk(&self, arguments: &str) -> String {
        let numbers: Vec<u64> = arguments.split(' ').filter_map(|one| one.parse().ok()).collect();
        let &[thread, pc, sp, fp] = numbers.as_slice() else {
            return "error: walk takes the number of a thread and three registers".to_owned();
        };
        json(&self.session.scripts().walk(thread as u32, Registers { pc, sp, fp }))
    }

    fn deadlocks(&self, waits: &str) -> String {
        let pid = self.session.replay().history.target.pid;
        let threads: Vec<Known> =
            self.session.inferior().threads().iter().map(|(_, tid)| (pid, *tid as i32)).collect();
        match serde_json::from_str::<Vec<Wait>>(waits) {
            Ok(waits) if waits.is_empty() => "no thread waits here".to_owned(),
            Ok(waits) => Told::new(&waits, &threads).lines().join("\n"),
            Err(error) => format!("error: deadlocks takes the JSON of `waits`: {error}"),
        }
    }

    fn turn(&mut self, wish: Wish) -> String {
        self.turned = Some((wish, self.session.inferior().stops.clone()));
        String::new()
    }

    /// Makes the next run go to this place instead, so that the debugger learns of it as of any
    /// stop.
    fn go_next(&mut self, destination: Destination) -> String {
        match self.session.exact(destination) {
            Ok(destination) => {
                self.destination = Some(destination);
                String::new()
            }
            Err(error) => format!("error: {error}"),
        }
    }
}

fn seconds(ns: u64, digits: usize) -> String {
    format!("{:.digits$} s", ns as f64 / 1e9)
}

/// `2026-11-23 03:30:23.858274`
fn local_time(unix_ns: u64) -> String {
    Timestamp::from_nanosecond(i128::from(unix_ns)).map_or(String::new(), |time| {
        time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S%.6f").to_string()
    })
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("keys are strings")
}

fn yes_or_no(is_so: bool) -> String {
    if is_so { "yes" } else { "no" }.to_owned()
}
