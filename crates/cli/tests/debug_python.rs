//! Frames of Python in the debugger and in backtraces.

mod cli_support;

use cli_support::debugging::{compile, gdb, in_order};
use cli_support::{Place, source_file};
use retake_testing::needs;
use std::process::Stdio;

/// A program that tells its own stacks, and one that crashes in a generator.
const MOMENTS: &str = "python/moments.py";
const ACCOUNT: &str = "../examples/account.py";

/// A frame as Python itself tells it: file, line, function.
type Told = (String, String, String);

/// Records one of the programs. Returns what it printed, or nothing if this version of Python is
/// not known.
fn record(place: &Place, script: &str) -> Option<String> {
    let script = source_file(script);
    let known = "import ctypes, sys; sys.exit(not (3, 8) <= sys.version_info < (3, 14))";
    if !place.command_of("python3", &["-c", known]).status().unwrap().success() {
        return None;
    }
    let script = script.to_str().unwrap();
    let mut command = place.command(&["record", "python3", script]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    Some(String::from_utf8(output.stdout).unwrap())
}

/// The stacks of all threads at each moment, as faulthandler told them.
fn moments(printed: &str) -> Vec<Vec<Vec<Told>>> {
    let parts = printed.split("look\n");
    let mut moments: Vec<_> =
        parts.map(|text| stacks(text, "(most recent call first):", told)).collect();
    moments.pop();
    moments
}

/// The threads of a text. A line with `mark` begins one.
fn stacks(text: &str, mark: &str, frame: fn(&str) -> Option<Told>) -> Vec<Vec<Told>> {
    let mut stacks: Vec<Vec<Told>> = Vec::new();
    for line in text.lines() {
        if line.contains(mark) && !line.starts_with('#') {
            stacks.push(Vec::new());
        } else if let (Some(frame), Some(stack)) = (frame(line), stacks.last_mut()) {
            stack.push(frame);
        }
    }
    stacks.retain(|stack| !stack.is_empty());
    stacks.sort();
    stacks
}

/// `  File "a.py", line 3 in f`.
fn told(line: &str) -> Option<Told> {
    let (file, rest) = line.trim_start().strip_prefix("File \"")?.rsplit_once("\", line ")?;
    let (line, function) = rest.split_once(" in ")?;
    Some((file.to_owned(), line.to_owned(), function.to_owned()))
}

/// `#2  Shape.add (self=1) at a.py:3`, without the class.
fn shown(line: &str) -> Option<Told> {
    let (call, place) = line.strip_prefix('#')?.rsplit_once(" at ")?;
    let (file, line) = place.rsplit_once(':')?;
    let (_, call) = call.split_once(' ')?;
    let (function, _) = call.trim_start().split_once(" (")?;
    let function = function.rsplit('.').next()?;
    Some((file.to_owned(), line.to_owned(), function.to_owned()))
}

#[test]
fn frames_are_those_that_python_tells_forwards_and_backwards() {
    needs!("gdb", "python3");
    let place = Place::new("debug-python");
    let Some(printed) = record(&place, MOMENTS) else { return };
    let moments = moments(&printed);
    let dump = place.run(&["dump", "--call", "write"]).stdout;
    let events: Vec<&str> = dump
        .lines()
        .filter(|line| line.contains("\"look"))
        .map(|line| line.split_whitespace().next().unwrap())
        .collect();
    assert!(moments.len() == events.len() && moments.len() > 30, "{dump}");
    let some: Vec<usize> = (0..moments.len()).step_by(4).collect();
    let way: Vec<usize> = some.iter().chain(some.iter().rev()).copied().collect();
    let mut commands = Vec::new();
    for at in &way {
        commands.push(format!("seek {}", events[*at]));
        commands.push("echo moment\\n".to_owned());
        commands.push("thread apply all py-bt".to_owned());
        commands.push("echo over\\n".to_owned());
    }
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let text = gdb(&place, &[], &commands);
    let parts = text.split("moment\n").skip(1).filter_map(|part| part.split("over\n").next());
    let seen: Vec<_> = parts.map(|part| stacks(part, "Thread ", shown)).collect();
    assert_eq!(seen.len(), way.len(), "{text}");
    for (at, seen) in way.iter().zip(&seen) {
        assert_eq!(seen, &moments[*at], "moment {at}");
    }
}

#[test]
fn frames_stand_between_native_ones() {
    needs!("gdb", "python3");
    let place = Place::new("debug-python-between");
    if record(&place, ACCOUNT).is_none() {
        return;
    }
    let text = gdb(&place, &["--at", "end"], &["bt", "bt -full"]);
    let parts = [
        "abort ()",
        "withdraw (self=<Account at 0x",
        "amount=30) at ",
        "account.py:13\n",
        "customers (account=<Account at 0x",
        ", amounts=[10, 20, 30]) at ",
        "account.py:19\n",
        "<module> () at ",
        "account.py:23\n",
        "main",
    ];
    in_order(&text, &parts);
    assert!(!text.contains("_PyEval_EvalFrameDefault"), "{text}");
    in_order(&text, &["<module> () at ", "before = 20\n"]);
    let report = place.run_json(&["backtrace", "--json"]);
    let frames = report["threads"][0]["frames"].as_array().unwrap();
    let scripts: Vec<_> = frames.iter().flat_map(|one| one["python"].as_array().unwrap()).collect();
    let whole = report["threads"][0]["python"].as_array().unwrap();
    assert!(scripts.len() == 3 && scripts.iter().copied().eq(whole), "{report}");
    assert_eq!(scripts[0]["locals"][0]["value"], "20");
    let evaluating = frames.iter().filter(|one| one["python"][0].is_object());
    assert!(evaluating.clone().count() > 1);
    for frame in evaluating {
        assert_eq!(frame["function"], "_PyEval_EvalFrameDefault");
    }
    let text = place.run(&["backtrace"]).stdout;
    in_order(&text, &["_PyEval_EvalFrameDefault", "withdraw (self=", "before = 20", "in Python:"]);
}

#[test]
fn lines_of_python_can_be_stepped_both_ways() {
    needs!("gdb", "python3");
    let place = Place::new("debug-python-steps");
    if record(&place, ACCOUNT).is_none() {
        return;
    }
    let commands = [
        "py-reverse-next",
        "py-reverse-next",
        "py-locals",
        "py-next",
        "py-reverse-finish",
        "py-up",
        "py-down",
        "py-print amounts",
        "py-finish",
        "py-print nothing",
    ];
    let text = gdb(&place, &["--at", "end"], &commands);
    let parts = [
        "account.py:12\n",
        "account.py:11\n",
        "amount = 30\nbefore = 20\n",
        "account.py:12\n",
        "#0  customers (account=<Account at 0x",
        "account.py:19\n",
        "#1  <module> () at ",
        "#0  customers (",
        "amounts = [10, 20, 30]\n",
        "SIGABRT",
        "withdraw has no variable nothing here",
    ];
    in_order(&text, &parts);
}

/// A program with exceptions that are caught, and one that is not. The former are raised in one of
/// Python's own modules.
const RAISING: &str = r#"import json

def size(text):
    return json.loads(text)["size"]

def total(texts):
    result = 0
    for text in texts:
        try:
            result += size(text)
        except ValueError:
            result += 1
    return result

total(['{"size": 1}', 'x', 'y', '{"width": 2}'])
"#;

#[test]
fn exceptions_are_found_both_ways() {
    needs!("gdb", "python3");
    let place = Place::new("debug-python-raise");
    std::fs::write(place.work("raising.py"), RAISING).unwrap();
    if record(&place, place.work("raising.py").to_str().unwrap()).is_none() {
        return;
    }
    let back = ["py-reverse-raise"; 3];
    let commands = [&back[..], &["py-bt"], &["py-raise"; 3]].concat();
    let text = gdb(&place, &["--at", "end"], &commands);
    let no_json = "raises JSONDecodeError('Expecting value: line 1 column 1 (char 0)')\n";
    let parts = [
        "raises KeyError('size')\n",
        "#0  size (text='{\"width\": 2}') at ",
        "raising.py:4\n",
        no_json,
        "s='y'",
        no_json,
        "s='x'",
        "total (texts=['{\"size\": 1}', 'x', 'y', '{\"width\": 2}']) at ",
        "raising.py:10\n",
        no_json,
        "s='y'",
        "raises KeyError('size')\n",
        "No more reverse-execution history",
    ];
    in_order(&text, &parts);
}

/// A program that looks like a Python whose frames are not known, and crashes.
const UNKNOWN: &str = "
unsigned long _PyRuntime[1000];
const unsigned Py_Version = VERSION;
int main(void)
{
	__builtin_trap();
}
";

#[test]
fn unknown_versions_of_python_are_refused() {
    needs!("gdb");
    let place = Place::new("debug-python-unknown");
    let cases = [
        ("0x030e00f0", "the frames of Python 3.14 are not known, only those of 3.8 to 3.13"),
        ("0x030d00f0", "does not describe itself as Python 3.13 does"),
    ];
    for (version, reason) in cases {
        let define = format!("-DVERSION={version}");
        let program = compile(&place, "unknown", UNKNOWN, &["-rdynamic", &define]);
        place.run(&["record", &program]);
        let text = place.run(&["backtrace"]).stdout;
        in_order(&text, &["main () at ", "no frames of Python: ", reason]);
        let text = gdb(&place, &["--at", "end"], &["bt", "py-bt"]);
        in_order(&text, &["(no frames of Python: ", reason, "main () at ", reason]);
    }
}

#[test]
fn other_programs_have_no_frames_of_python() {
    needs!("gdb");
    let place = Place::new("debug-python-none");
    place.run(&["record", "/bin/true"]);
    let text = gdb(&place, &[], &["py-bt"]);
    assert!(text.contains("does not run Python here"), "{text}");
}
