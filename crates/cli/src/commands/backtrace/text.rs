//! The report of `retake backtrace`, for people.

use super::report::{Frame, Report, Script, Thread, Variable};
use crate::commands::ps;
use crate::failure::Result;
use crate::output::{Output, Style};
use crate::processes::{self, End};
use crate::text::{self, harmless};
use std::collections::BTreeMap;

/// gdb's text for the value of a variable that is in no register or memory.
const OPTIMIZED_OUT: &str = "<optimized out>";
/// The least number of frames that are shown of other threads, on one line.
const FRAMES_OF_OTHERS: usize = 4;

/// Prints the report.
pub fn print(report: &Report, output: &mut Output) -> Result<()> {
    let Report { crash, threads, events, .. } = report;
    match crash {
        Some(crash) => {
            let program = crash.program.as_deref().unwrap_or("?");
            let line = format!(
                "process {} ({}) crashed: {}",
                crash.pid,
                harmless(program),
                harmless(&crash.text)
            );
            output.line(output.styled(Style::Red, line))?;
        }
        None if threads.is_empty() && report.ended.is_empty() => print_ends(report, output)?,
        None => print_process(report, output)?,
    }
    for (index, ended) in report.ended.iter().enumerate() {
        if index > 0 {
            output.line("")?;
        }
        let program = harmless(ended.program.as_deref().unwrap_or("?"));
        let line = format!("process {} ({program}) was {}", ended.pid, ended.text());
        output.line(output.styled(Style::Yellow, line))?;
        print_threads(&ended.threads, output)?;
    }
    print_threads(threads, output)?;
    print_waits(report, output)?;
    if let Some(reason) = &report.no_threads {
        output.line(format!("\nno stacks: {}", reason.trim_end()))?;
    }
    if let (Some(crash), false) = (crash, events.is_empty()) {
        output.line("")?;
        output.line(output.styled(Style::Bold, format!("last events of thread {}:", crash.tid)))?;
        for event in events {
            output.line(format!("{:>7}  {}", event.index(), harmless(event.text())))?;
        }
    }
    Ok(())
}

/// Names the process whose threads follow, and says how it ended.
fn print_process(report: &Report, output: &mut Output) -> Result<()> {
    let Some(thread) = report.threads.first() else { return Ok(()) };
    let is_of = |one: &&processes::Process| {
        one.threads.iter().any(|known| i64::from(known.tid) == thread.tid)
    };
    let Some(process) = report.processes.iter().find(is_of) else { return Ok(()) };
    let program = harmless(process.program.as_deref().unwrap_or("?"));
    let end = match process.end {
        End::Exited(status) => format!(", which exited with status {status}"),
        End::Killed(signal) => format!(", which was killed by {}", text::signal_name(signal)),
        End::Dropped | End::Unknown | End::Unborn => String::new(),
    };
    output.line(format!("process {} ({program}){end}", process.pid))
}

fn print_threads(threads: &[Thread], output: &mut Output) -> Result<()> {
    for (index, thread) in threads.iter().enumerate() {
        if index == 1 {
            output.line("")?;
        }
        print_thread(thread, output)?;
    }
    Ok(())
}

fn print_waits(report: &Report, output: &mut Output) -> Result<()> {
    if report.told.is_empty() {
        return Ok(());
    }
    output.line("")?;
    output.line(output.styled(Style::Bold, "who waits for whom:"))?;
    for line in &report.told {
        let style = if report.deadlocks.contains(line) { Style::Red } else { Style::Faint };
        output.line(output.styled(style, format!("  {}", harmless(line))))?;
    }
    Ok(())
}

fn print_ends(report: &Report, output: &mut Output) -> Result<()> {
    output.line("nothing crashed")?;
    ps::table_of(&processes::tree(&report.processes)).print(output)
}

fn print_thread(thread: &Thread, output: &mut Output) -> Result<()> {
    let name = thread
        .name
        .as_deref()
        .filter(|name| !name.is_empty())
        .map_or_else(String::new, |name| format!(" ({})", harmless(name)));
    if !thread.current {
        for (language, scripts) in by_language(thread) {
            let stack: Vec<String> = scripts.into_iter().map(of_script).collect();
            let stack = stack.join(" < ");
            output.line(format!("thread {}{name}, in {language}: {stack}", thread.tid))?;
        }
        // The user's own code is always shown, if there is any.
        let own = thread.frames.iter().position(|frame| frame.own).map_or(0, |index| index + 1);
        let shown = own.max(FRAMES_OF_OTHERS);
        let stack: Vec<String> = thread.frames.iter().take(shown).map(short).collect();
        let more = if thread.more_frames || thread.frames.len() > shown { " < ..." } else { "" };
        return output.line(format!("thread {}{name}: {}{more}", thread.tid, stack.join(" < ")));
    }
    output.line("")?;
    output.line(output.styled(Style::Bold, format!("thread {}{name}:", thread.tid)))?;
    for frame in &thread.frames {
        output.line(line(frame))?;
        print_variables(&frame.locals, output)?;
        for script in frame.python.iter().chain(&frame.managed) {
            output.line(call_of_script(script))?;
            print_variables(&script.locals, output)?;
        }
    }
    if thread.more_frames {
        output.line("(more frames follow)")?;
    }
    if let Some(reason) = &thread.no_python {
        output.line(format!("no frames of Python: {}", harmless(reason)))?;
    }
    for reason in &thread.no_managed {
        output.line(format!("no frames of {}", harmless(reason)))?;
    }
    for (language, scripts) in by_language(thread) {
        output.line(format!("in {language}:"))?;
        for script in scripts {
            output.line(format!("     {}", of_script(script)))?;
        }
    }
    Ok(())
}

/// The frames of a thread that are not native, by language.
fn by_language(thread: &Thread) -> BTreeMap<String, Vec<&Script>> {
    let mut found: BTreeMap<String, Vec<&Script>> = BTreeMap::new();
    for script in thread.python.iter().chain(&thread.managed) {
        let language = script.language.as_deref().map_or_else(|| "Python".to_owned(), harmless);
        found.entry(language).or_default().push(script);
    }
    found
}

fn print_variables(variables: &[Variable], output: &mut Output) -> Result<()> {
    for Variable { name, value } in variables.iter().filter(|one| one.value != OPTIMIZED_OUT) {
        output.line(format!("        {} = {}", harmless(name), harmless(value)))?;
    }
    Ok(())
}

/// `take (locks.py:11)`.
fn of_script(Script { function, file, line, .. }: &Script) -> String {
    let file = file.rsplit('/').next().unwrap_or_default();
    harmless(&format!("{function} ({})", place_of_script(file, *line)))
}

/// `     take (first=<lock at 0x7f31>) at locks.py:11`.
fn call_of_script(Script { function, file, line, arguments, .. }: &Script) -> String {
    let place = place_of_script(file, *line);
    harmless(&format!("     {function} ({}) at {place}", listed(arguments)))
}

/// `locks.py:11`. What is no file has no line.
fn place_of_script(file: &str, line: Option<u32>) -> String {
    match line {
        Some(line) => format!("{file}:{line}"),
        None if file.starts_with('<') => file.to_owned(),
        None => format!("{file}:?"),
    }
}

/// `argc=2, argv=0x7ffd`.
fn listed(arguments: &[Variable]) -> String {
    let texts: Vec<String> =
        arguments.iter().map(|Variable { name, value }| format!("{name}={value}")).collect();
    texts.join(", ")
}

/// `#1  main (argc=2) at plain.c:24`.
fn line(frame: &Frame) -> String {
    let call = match &frame.function {
        Some(function) => format!("{function} ({})", listed(&frame.arguments)),
        None => format!("{} in ?? ()", frame.address),
    };
    harmless(&format!("#{:<3}{call}{}", frame.level, place(frame)))
}

/// ` at plain.c:24`, or the library.
fn place(frame: &Frame) -> String {
    match (&frame.file, frame.line, &frame.library) {
        (Some(file), Some(line), _) => format!(" at {file}:{line}"),
        (Some(file), None, _) => format!(" at {file}"),
        (None, _, Some(library)) => format!(" from {library}"),
        (None, _, None) => String::new(),
    }
}

fn short(frame: &Frame) -> String {
    let name = frame.function.as_deref().unwrap_or(&frame.address);
    let file = frame.file.as_deref().and_then(|file| file.rsplit('/').next());
    harmless(&match (file, frame.line) {
        (Some(file), Some(line)) => format!("{name} ({file}:{line})"),
        _ => name.to_owned(),
    })
}
