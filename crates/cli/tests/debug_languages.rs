//! Frames of Java and other languages in the debugger and in backtraces.

mod cli_support;

use cli_support::debugging::{compile as compile_c, gdb, in_order};
use cli_support::{Place, source_file};
use retake_testing::needs;
use serde_json::Value;
use std::process::Stdio;

/// A frame as the language itself tells it: function, and line or what stands for it.
type Told = (String, i64);

/// How a program tells its stacks.
#[derive(Clone, Copy)]
struct Teller {
    /// The function that tells them.
    function: &'static str,
    /// Whether functions without a line count, too. Optimised JavaScript does the work of V8's own
    /// functions without calling them.
    has_all: bool,
}

const JAVA: Teller = Teller { function: "Moments.tell", has_all: true };
const NODE: Teller = Teller { function: "tell", has_all: false };

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
fn told(printed: &str, teller: Teller) -> Vec<Vec<Vec<Told>>> {
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

fn sorted(mut stacks: Vec<Vec<Told>>, teller: Teller) -> Vec<Vec<Told>> {
    for stack in &mut stacks {
        if let Some(at) = stack.iter().position(|(function, _)| function == teller.function) {
            stack.drain(..=at);
        }
        stack.retain(|(_, line)| teller.has_all || *line != NO_LINE);
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
fn compare(place: &Place, printed: &str, teller: Teller, some: &[usize]) {
    let moments = told(printed, teller);
    let dump = place.run(&["dump", "--call", "write"]).stdout;
    let (mut events, mut thread) = (Vec::new(), "");
    for line in dump.lines() {
        match line.split_once(", thread ") {
            Some((_, rest)) if line.starts_with('#') => thread = rest.split(',').next().unwrap(),
            _ if line.contains(" write(1, ") => {
                // One event later, the call has been made, and nothing has been executed since.
                let event: u64 = line.split_whitespace().next().unwrap().parse().unwrap();
                events.push(format!("{thread}:{}", event + 1));
            }
            _ => {}
        }
    }
    assert_eq!(moments.len(), events.len(), "{dump}");
    let all = "python for one in gdb.selected_inferior().threads(): \
               print('stack', python_stack(one.num))";
    let way: Vec<usize> = some.iter().chain(some.iter().rev()).copied().collect();
    let seeks: Vec<String> = way.iter().map(|at| format!("seek {}", events[*at])).collect();
    let steps =
        seeks.iter().flat_map(|seek| [seek.as_str(), "echo moment\\n", all, "echo over\\n"]);
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
fn java(place: &Place, options: &[&str], warm: &str) {
    compile(place);
    let folder = place.work("");
    let shown = ["-XX:+UnlockDiagnosticVMOptions", "-XX:+ShowHiddenFrames", "-cp"];
    let class = [folder.to_str().unwrap(), "Moments", warm, "12"];
    let printed = record(place, &[&["java"], options, &shown, &class].concat());
    compare(place, &printed, JAVA, &[2, 9]);
}

#[test]
fn frames_are_those_that_java_tells() {
    needs!("gdb", "java", "javac");
    java(&Place::new("debug-java-compiled"), &[], "1500");
}

/// A program that crashes in native code, which Java has called.
const CRASH: &str = "
public class Crash {
    static native int crash(int value);

    static int call(int value) {
        return crash(value) + 1;
    }

    public static void main(String[] arguments) {
        System.load(arguments[0]);
        System.out.println(call(1));
    }
}
";
const CRASHING: &str = "
int Java_Crash_crash(void *machine, void *class, int value)
{
	__builtin_trap();
	return value;
}
";

#[test]
fn frames_of_java_stand_between_native_ones() {
    needs!("gdb", "java", "javac");
    let place = Place::new("debug-java-between");
    std::fs::write(place.work("Crash.java"), CRASH).unwrap();
    assert!(place.command_of("javac", &["-g", "Crash.java"]).status().unwrap().success());
    let library = compile_c(&place, "libcrash.so", CRASHING, &["-shared", "-fPIC"]);
    let options = ["java", "-Xint", "-XX:+SuppressFatalErrorMessage", "-cp", "."];
    record(&place, &[&options[..], &["Crash", &library]].concat());
    let text = gdb(&place, &["--at", "crash"], &["bt"]);
    let parts = [
        "abort () ",
        " JVM_handle_linux_signal ",
        "Java_Crash_crash (machine=0x",
        " Crash.crash () at <native method>\n",
        " Crash.call () at Crash.java:6\n",
        " Crash.main () at Crash.java:11\n",
        " in StubRoutines (1) ()\n",
        " in JavaCalls::call_helper",
        " in JavaMain ",
        "start_thread",
    ];
    in_order(&text, &parts);
    let report = place.run_json(&["backtrace", "--json"]);
    let thread = &report["threads"][0];
    let managed = thread["managed"].as_array().unwrap();
    let told = managed.iter().map(|one| (one["function"].as_str().unwrap(), one["line"].as_i64()));
    let expected = [("Crash.crash", None), ("Crash.call", Some(6)), ("Crash.main", Some(11))];
    assert_eq!(told.collect::<Vec<_>>(), expected);
    assert_eq!(managed[0]["language"], "Java");
    let frames = thread["frames"].as_array().unwrap();
    let of_frames = frames.iter().flat_map(|frame| frame["managed"].as_array().unwrap());
    assert!(of_frames.eq(managed), "{thread}");
    let text = place.run(&["backtrace"]).stdout;
    in_order(
        &text,
        &["Crash.call () at Crash.java:6\n", "in Java:\n", "Crash.main (Crash.java:11)\n"],
    );
}

/// A program that looks like a virtual machine of Java whose structures are not known, and crashes.
const UNKNOWN: &str = "
unsigned long none[16], *gHotSpotVMStructs = none, *gHotSpotVMTypes = none, *gHotSpotVMIntConstants = none;
unsigned long gHotSpotVMStructEntryTypeNameOffset, gHotSpotVMStructEntryFieldNameOffset;
unsigned long gHotSpotVMStructEntryIsStaticOffset, gHotSpotVMStructEntryOffsetOffset;
unsigned long gHotSpotVMStructEntryAddressOffset, gHotSpotVMStructEntryArrayStride;
unsigned long gHotSpotVMTypeEntryTypeNameOffset, gHotSpotVMTypeEntrySizeOffset;
unsigned long gHotSpotVMTypeEntryArrayStride, gHotSpotVMIntConstantEntryNameOffset;
unsigned long gHotSpotVMIntConstantEntryValueOffset, gHotSpotVMIntConstantEntryArrayStride;
int main(void)
{
	__builtin_trap();
}
";

#[test]
fn unknown_machines_are_refused() {
    needs!("gdb");
    let place = Place::new("debug-java-unknown");
    let program = compile_c(&place, "unknown", UNKNOWN, &["-rdynamic"]);
    record(&place, &[&program]);
    let reason = "Java: this version of HotSpot has no CodeCache::_heaps";
    let text = place.run(&["backtrace"]).stdout;
    in_order(&text, &["main () at ", &format!("no frames of {reason}")]);
    let text = gdb(&place, &["--at", "end"], &["bt"]);
    in_order(&text, &[&format!("(no frames of {reason})"), "main () at "]);
}

/// Records the program that tells its stack, and compares some.
fn node(name: &str, options: &[&str], warm: &str) {
    let place = Place::new(name);
    let script = source_file("node/moments.js");
    let script = [script.to_str().unwrap(), warm, "12"];
    let printed = record(&place, &[&["node"], options, &script].concat());
    compare(&place, &printed, NODE, &[0, 3, 10]);
}

#[test]
fn frames_are_those_that_node_tells() {
    needs!("gdb", "node");
    node("debug-node-optimised", &[], "20000");
}
