//! Frames of Java and other languages in the debugger and in backtraces.

mod cli_support;

use cli_support::debugging::gdb;
use cli_support::{Place, source_file};
use retake_testing::needs;
use serde_json::Value;
use std::process::Stdio;

/// A frame as the language itself tells it: function, and line or what stands for it.
type Told = (String, i64);

/// What a language tells instead of a line where there is none.
const NO_LINE: i64 = -1;
const NATIVE: i64 = -2;

/// Compiles the program that tells its stacks.
fn compile(place: &Place) {
    let (source, folder) = (source_file("java/Moments.java"), place.work(""));
    let arguments = ["-g", "-d", folder.to_str().unwrap(), source.to_str().unwrap()];
    assert!(place.command_of("javac", &arguments).status().unwrap().success());
}

/// Records a program. Returns what it printed.
fn record(place: &Place, program: &[&str]) -> String {
    let arguments = [&["record"], program].concat();
    let output = place.command(&arguments).stdin(Stdio::null()).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// The stacks of all threads at each moment, as the program told them. The function that tells
/// them, and what it calls, are left out.
fn told(printed: &str, teller: &str) -> Vec<Vec<Vec<Told>>> {
    let mut moments: Vec<_> = printed
        .split("look\n")
        .map(|moment| {
            let threads = moment.split("thread ").skip(1);
            let stack = |text: &str| {
                let lines = text.lines().skip(1).map(|line| line.rsplit_once(' ').unwrap());
                lines.map(|(function, line)| (function.to_owned(), line.parse().unwrap())).collect()
            };
            sorted(threads.map(stack).collect(), teller)
        })
        .collect();
    moments.pop();
    moments
}

fn sorted(mut stacks: Vec<Vec<Told>>, teller: &str) -> Vec<Vec<Told>> {
    for stack in &mut stacks {
        if let Some(at) = stack.iter().position(|(function, _)| function == teller) {
            stack.drain(..=at);
        }
    }
    stacks.retain(|stack| !stack.is_empty());
    stacks.sort();
    stacks
}

/// The frames of a stack as the debugger tells it.
fn seen(stack: &str) -> Vec<Told> {
    let stack: Vec<Value> = serde_json::from_str(stack).unwrap();
    let frame = |one: &Value| {
        let other = if one["file"] == "<native method>" { NATIVE } else { NO_LINE };
        (one["function"].as_str().unwrap().to_owned(), one["line"].as_i64().unwrap_or(other))
    };
    stack.iter().map(frame).collect()
}

/// Compares the stacks at some of the moments, forwards and backwards.
fn compare(place: &Place, printed: &str, teller: &str, some: &[usize]) {
    let moments = told(printed, teller);
    let dump = place.run(&["dump", "--call", "write"]).stdout;
    let (mut events, mut thread) = (Vec::new(), "");
    for line in dump.lines() {
        match line.split_once(", thread ") {
            Some((_, rest)) if line.starts_with('#') => thread = rest.split(',').next().unwrap(),
            _ if line.contains(" write(1, ") => {
                events.push(format!("{thread}:{}", line.split_whitespace().next().unwrap()));
            }
            _ => {}
        }
    }
    assert_eq!(moments.len(), events.len(), "{dump}");
    let all = "python for one in gdb.selected_inferior().threads(): print('stack', python_stack(one.num))";
    let way: Vec<usize> = some.iter().chain(some.iter().rev()).copied().collect();
    let seeks: Vec<String> = way.iter().map(|at| format!("seek {}", events[*at])).collect();
    let steps = seeks.iter().flat_map(|seek| [seek.as_str(), "echo moment\\n", all, "echo over\\n"]);
    let text = gdb(place, &[], &steps.collect::<Vec<_>>());
    let parts: Vec<&str> = text.split("moment\n").skip(1).collect();
    assert_eq!(parts.len(), way.len(), "{text}");
    for (at, part) in way.iter().zip(parts) {
        let part = part.split("over\n").next().unwrap();
        let stacks = part.lines().filter_map(|line| line.strip_prefix("stack ")).map(seen);
        assert_eq!(sorted(stacks.collect(), teller), moments[*at], "moment {at}");
    }
}

/// Records the program that tells its stacks, and compares some.
fn java(name: &str, options: &[&str], warm: &str) {
    let place = Place::new(name);
    compile(&place);
    let folder = place.work("");
    let shown = ["-XX:+UnlockDiagnosticVMOptions", "-XX:+ShowHiddenFrames", "-cp"];
    let class = [folder.to_str().unwrap(), "Moments", warm, "40"];
    let printed = record(&place, &[&["java"], options, &shown, &class].concat());
    compare(&place, &printed, "Moments.tell", &[3, 21, 38]);
}

#[test]
fn frames_are_those_that_java_tells_where_it_is_interpreted() {
    needs!("gdb", "java", "javac");
    java("debug-java-interpreted", &["-Xint"], "2");
}

#[test]
fn frames_are_those_that_java_tells_where_it_is_compiled() {
    needs!("gdb", "java", "javac");
    java("debug-java-compiled", &[], "2000");
}
