//! What `retake backtrace` tells, for people.

use super::report::{Frame, Report, Thread, Variable};
use crate::commands::ps;
use crate::failure::Result;
use crate::output::{Output, Style};
use crate::processes;
use crate::text::harmless;

/// What gdb says of a variable that is nowhere.
const OPTIMIZED_OUT: &str = "<optimized out>";
/// Frames of other threads that are shown, on one line.
const FRAMES_OF_OTHERS: usize = 4;

/// Prints all of it.
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
        None if threads.is_empty() => print_ends(report, output)?,
        None => {}
    }
    for (index, thread) in threads.iter().enumerate() {
        if index == 1 {
            output.line("")?;
        }
        print_thread(thread, output)?;
    }
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
        let stack: Vec<String> = thread.frames.iter().take(FRAMES_OF_OTHERS).map(short).collect();
        let more = if thread.more_frames || thread.frames.len() > FRAMES_OF_OTHERS {
            " < ..."
        } else {
            ""
        };
        return output.line(format!("thread {}{name}: {}{more}", thread.tid, stack.join(" < ")));
    }
    output.line("")?;
    output.line(output.styled(Style::Bold, format!("thread {}{name}:", thread.tid)))?;
    for frame in &thread.frames {
        output.line(line(frame))?;
        for Variable { name, value } in
            frame.locals.iter().filter(|variable| variable.value != OPTIMIZED_OUT)
        {
            output.line(format!("        {} = {}", harmless(name), harmless(value)))?;
        }
    }
    if thread.more_frames {
        output.line("(more frames follow)")?;
    }
    Ok(())
}

/// `#1  main (argc=2) at plain.c:24`.
fn line(frame: &Frame) -> String {
    let arguments: Vec<String> =
        frame.arguments.iter().map(|Variable { name, value }| format!("{name}={value}")).collect();
    let call = match &frame.function {
        Some(function) => format!("{function} ({})", arguments.join(", ")),
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
