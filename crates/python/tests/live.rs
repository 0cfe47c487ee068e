//! Compares the frames with those that Python itself tells, in running programs.

use retake_python::{Entry, Frame, Interpreter, Memory, Variable, Version};
use retake_testing::needs;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The memory of another process.
struct Live(File);

impl Memory for Live {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        self.0.read_exact_at(bytes, address).is_ok()
    }
}

/// A program that stops at moments.
struct Program {
    child: Child,
    said: BufReader<ChildStdout>,
    go: ChildStdin,
    version: Version,
    runtime: u64,
    memory: Live,
}

/// A frame as faulthandler tells it: file, line, function.
type Told = (String, u32, String);

impl Program {
    fn start(python: &str) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/python/moments.py");
        let mut child = Command::new(python)
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let go = child.stdin.take().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let (minor, runtime) = line.trim().split_once(' ').unwrap();
        let (version, runtime) = (Version(minor.parse().unwrap()), runtime.parse().unwrap());
        let memory = Live(File::open(format!("/proc/{}/mem", child.id())).unwrap());
        Self { child, said, go, version, runtime, memory }
    }

    /// What the program tells of its threads at the next moment, by their thread pointers.
    fn next(&mut self) -> Option<Vec<(u64, Vec<Told>)>> {
        let mut threads = Vec::new();
        loop {
            let mut line = String::new();
            if self.said.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            match line.trim_end() {
                "look" => break,
                "" => {}
                line if line.ends_with("(most recent call first):") => {
                    threads.push((pointer(line), Vec::new()))
                }
                line => threads.last_mut().unwrap().1.push(told(line)),
            }
        }
        Some(threads)
    }

    fn look(&self, pointer: u64) -> Vec<Entry> {
        Interpreter::new(&self.memory, self.runtime, self.version).unwrap().stack(pointer).entries
    }

    fn go(&mut self) {
        self.go.write_all(b".").unwrap();
    }
}

/// `Thread 0x00007f4e (most recent call first):`
fn pointer(line: &str) -> u64 {
    let number = line.split_whitespace().find_map(|word| word.strip_prefix("0x"));
    u64::from_str_radix(number.unwrap(), 16).unwrap()
}

/// `  File "a.py", line 3 in f`.
fn told(line: &str) -> Told {
    let rest = line.trim_start().strip_prefix("File \"").unwrap();
    let (file, rest) = rest.rsplit_once("\", line ").unwrap();
    let (line, function) = rest.split_once(" in ").unwrap();
    (file.to_owned(), line.parse().unwrap(), function.to_owned())
}

fn read(entries: &[Entry]) -> Vec<Told> {
    let frames = entries.iter().flat_map(|entry| &entry.frames);
    let own_name = |frame: &Frame| frame.function.rsplit('.').next().unwrap().to_owned();
    frames.map(|one| (one.file.clone(), one.line.unwrap(), own_name(one))).collect()
}

/// The frame of a function in a thread.
fn frame_of<'a>(entries: &'a [Entry], function: &str) -> Option<&'a Frame> {
    let mut frames = entries.iter().flat_map(|one| &one.frames);
    frames.find(|frame| frame.function == function)
}

fn text(variables: &[Variable]) -> String {
    let texts = variables.iter().map(|one| format!("{}={}", one.name, one.value));
    texts.collect::<Vec<_>>().join(" ")
}

fn compare(python: &str) {
    let mut program = Program::start(python);
    let (mut moments, mut has_values) = (0, false);
    while let Some(expected) = program.next() {
        for (pointer, expected) in expected {
            let entries = program.look(pointer);
            assert_eq!(read(&entries), expected, "moment {moments} of {python}");
            if let Some(frame) = frame_of(&entries, "values") {
                has_values = true;
                check_values(frame);
            }
        }
        moments += 1;
        program.go();
    }
    assert!(program.child.wait().unwrap().success());
    assert!(moments >= 30 && has_values, "{python}: {moments}");
    println!("{python}: 3.{} at {moments} moments", program.version.0);
}

fn check_values(frame: &Frame) {
    let arguments = text(&frame.arguments);
    let all = format!("{arguments} {}", text(&frame.locals));
    assert!(arguments.contains("ratio=0.1"), "{arguments}");
    for expected in [
        "count=2",
        "text='ab\u{e9}\u{20ac}'",
        "none=None",
        "yes=True",
        "data=b'\\x00a\\xff'",
        "items=[1, (2,), {'k': [...]}]",
        "large=1267650600228229401496703205376",
        "negative=-5",
        "wide=\"\u{1f600}'\"",
        "table={1: 'one', 'two': 2.0}",
        "inner=<function at 0x",
    ] {
        assert!(all.contains(expected), "no {expected}: {all}");
    }
}

#[test]
fn frames_are_those_that_python_tells() {
    needs!("python3");
    let named = (8..=13).map(|minor| format!("python3.{minor}"));
    let names = std::iter::once("python3".to_owned()).chain(named);
    let is_known = "import ctypes, sys; sys.exit(not (3, 8) <= sys.version_info < (3, 14))";
    for python in names {
        let tried = Command::new(&python).args(["-c", is_known]).output();
        if tried.is_ok_and(|output| output.status.success()) {
            compare(&python);
        }
    }
}
