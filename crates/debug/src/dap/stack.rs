//! Threads, their stacks, and the variables of a frame.

use super::client::Answer;
use super::debugger::Debugger;
use super::mi;
use super::protocol::{Scopes, StackTrace};
use super::scripts::Script;
use super::shown::Reference;
use serde_json::{Value, json};
use std::ops::Range;

const MOST_FRAMES: i64 = 1000;

/// All threads.
pub(super) fn threads(debugger: &mut Debugger) -> Result<Value, String> {
    let info = debugger.mi("-thread-info")?;
    let threads = mi::list(&info, "threads").iter().map(|thread| {
        let name = [mi::text(thread, "name"), mi::text(thread, "target-id")]
            .into_iter()
            .find(|name| !name.is_empty())
            .unwrap_or("thread");
        json!({"id": mi::number(thread, "id").unwrap_or_default(), "name": name})
    });
    Ok(threads.collect())
}

/// Some frames of a thread's stack.
pub(super) fn trace(debugger: &mut Debugger, asked: &StackTrace) -> Answer {
    let thread = asked.thread_id;
    let first = asked.start_frame.unwrap_or(0).max(0);
    let count = asked.levels.filter(|levels| *levels > 0).unwrap_or(MOST_FRAMES).min(MOST_FRAMES);
    let scripts = scripts_of(debugger, thread);
    if !scripts.is_empty() {
        return with_scripts(debugger, thread, &scripts, first as usize..(first + count) as usize);
    }
    let depth =
        debugger.mi(&format!("-stack-info-depth --thread {thread} {}", first + count + 1))?;
    let depth = mi::number(&depth, "depth").unwrap_or_default();
    if first >= depth {
        return Ok(json!({"stackFrames": [], "totalFrames": depth}));
    }
    let frames = debugger
        .mi(&format!("-stack-list-frames --thread {thread} {first} {}", first + count - 1))?;
    let frames: Vec<Value> =
        mi::list(&frames, "stack").iter().map(|frame| told(debugger, thread, frame)).collect();
    Ok(json!({"stackFrames": frames, "totalFrames": depth}))
}

/// The frames of Python of a thread, the innermost first; none if it does not run Python.
fn scripts_of(debugger: &mut Debugger, thread: i64) -> Vec<Script> {
    let told = debugger.console(&format!("python print(python_stack({thread}))"));
    told.ok().and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default()
}

/// The frames in `range` of a stack with frames of Python.
fn with_scripts(
    debugger: &mut Debugger,
    thread: i64,
    scripts: &[Script],
    range: Range<usize>,
) -> Answer {
    let frames = debugger.mi(&format!("-stack-list-frames --thread {thread} 0 {MOST_FRAMES}"))?;
    let mut stack = Vec::new();
    for native in mi::list(&frames, "stack") {
        let level = mi::number(native, "level");
        let before = stack.len();
        stack.extend(scripts.iter().filter(|one| Some(one.level) == level).map(Either::Script));
        if stack.len() == before {
            stack.push(Either::Native(native));
        }
    }
    let shown = stack.iter().skip(range.start).take(range.len());
    let frames: Vec<Value> = shown
        .map(|one| match one {
            Either::Native(frame) => told(debugger, thread, frame),
            Either::Script(script) => {
                let id = debugger.shown.add_script(thread, script);
                script.told(id)
            }
        })
        .collect();
    Ok(json!({"stackFrames": frames, "totalFrames": stack.len()}))
}

enum Either<'a> {
    Native(&'a Value),
    Script(&'a Script),
}

fn told(debugger: &mut Debugger, thread: i64, frame: &Value) -> Value {
    let level = mi::number(frame, "level").unwrap_or_default();
    let id = debugger.shown.add_frame(thread, level);
    let (name, address) = (mi::text(frame, "func"), mi::text(frame, "addr"));
    let mut told = json!({
        "id": id,
        "name": if name.is_empty() { address } else { name },
        "line": mi::number(frame, "line").unwrap_or_default(),
        "column": 0,
        "instructionPointerReference": address,
    });
    let path = mi::text(frame, "fullname");
    if !path.is_empty() {
        told["source"] = json!({"name": path.rsplit('/').next(), "path": path});
    } else {
        told["presentationHint"] = "subtle".into();
    }
    told
}

/// The kinds of variables of a frame.
pub(super) fn scopes(debugger: &mut Debugger, asked: &Scopes) -> Answer {
    let place = debugger.shown.place_of(asked.frame_id)?;
    if let Some(script) = debugger.shown.script_of(asked.frame_id) {
        let variables = Reference::Script(script.variables());
        return Ok(json!({"scopes": [
            {"name": "Locals", "presentationHint": "locals",
                "variablesReference": debugger.shown.refer(variables), "expensive": false},
        ]}));
    }
    let locals = debugger.shown.refer(Reference::Locals(place.clone()));
    let registers = debugger.shown.refer(Reference::Registers(place));
    Ok(json!({"scopes": [
        {"name": "Locals", "presentationHint": "locals", "variablesReference": locals,
            "expensive": false},
        {"name": "Registers", "presentationHint": "registers", "variablesReference": registers,
            "expensive": true},
    ]}))
}
