//! `retake debug --dap`, driven by a scripted editor.

mod cli_support;

use cli_support::debugging::{PLAIN, compile, left_behind, no_process_is_left, record};
use cli_support::{Place, source_file};
use retake_testing::needs;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

/// The time limit of every wait.
const PATIENCE: Duration = Duration::from_secs(100);

/// The editor's side of a connection.
struct Editor {
    output: Box<dyn Write>,
    messages: Receiver<Value>,
    /// Received events that no test has asked for yet.
    events: Vec<Value>,
    seq: i64,
}

impl Editor {
    fn new(input: impl Read + Send + 'static, output: impl Write + 'static) -> Self {
        let (sender, messages) = mpsc::channel();
        std::thread::spawn(move || {
            let mut input = BufReader::new(input);
            while let Some(message) = read(&mut input) {
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Self { output: Box::new(output), messages, events: Vec::new(), seq: 0 }
    }

    fn next(&self) -> Value {
        self.messages.recv_timeout(PATIENCE).expect("an answer in time")
    }

    /// Sends a request, and returns the whole response.
    fn ask(&mut self, command: &str, arguments: Value) -> Value {
        self.seq += 1;
        let text =
            json!({"seq": self.seq, "type": "request", "command": command, "arguments": arguments})
                .to_string();
        write!(self.output, "Content-Length: {}\r\n\r\n{text}", text.len()).unwrap();
        self.output.flush().unwrap();
        loop {
            let message = self.next();
            if message["type"] == "response" && message["request_seq"] == self.seq {
                return message;
            }
            self.events.push(message);
        }
    }

    /// Sends a request that must succeed, and returns the response's body.
    fn get(&mut self, command: &str, arguments: Value) -> Value {
        let response = self.ask(command, arguments);
        assert_eq!(response["success"], true, "{command}: {response}\n{:?}", self.events);
        response["body"].clone()
    }

    /// Returns the body of the next event with this name.
    fn event(&mut self, name: &str) -> Value {
        loop {
            if let Some(at) = self.events.iter().position(|event| event["event"] == name) {
                return self.events.remove(at)["body"].clone();
            }
            let message = self.next();
            self.events.push(message);
        }
    }

    /// Lets the program run, and returns the reason why it stopped.
    fn run(&mut self, command: &str) -> String {
        self.get(command, json!({"threadId": 1}));
        self.stop()["reason"].as_str().unwrap().to_owned()
    }

    fn stop(&mut self) -> Value {
        self.event("stopped")
    }

    fn frames(&mut self) -> Vec<Value> {
        let threads = self.get("threads", Value::Null);
        let thread = threads["threads"][0]["id"].clone();
        self.get(
            "stackTrace",
            json!({"threadId": thread, "startFrame": 0,
            "levels": 20}),
        )["stackFrames"]
            .as_array()
            .unwrap()
            .clone()
    }

    /// The local variables of a frame.
    fn locals(&mut self, frame: &Value) -> Vec<Value> {
        let scopes = self.get("scopes", json!({"frameId": frame["id"]}));
        let reference = scopes["scopes"][0]["variablesReference"].clone();
        self.get("variables", json!({"variablesReference": reference}))["variables"]
            .as_array()
            .unwrap()
            .clone()
    }

    fn local(&mut self, level: usize, name: &str) -> Value {
        let frames = self.frames();
        let locals = self.locals(&frames[level]);
        locals
            .iter()
            .find(|variable| variable["name"] == name)
            .unwrap_or_else(|| panic!("no {name} in {locals:?}"))
            .clone()
    }

    fn value(&mut self, level: usize, name: &str) -> String {
        self.local(level, name)["value"].as_str().unwrap().to_owned()
    }

    fn evaluate(&mut self, expression: &str, context: &str) -> String {
        let frame = self.frames()[0]["id"].clone();
        let body = self.get(
            "evaluate",
            json!({"expression": expression, "frameId": frame, "context": context}),
        );
        body["result"].as_str().unwrap().to_owned()
    }

    /// The program's output since the last call of this.
    fn printed(&mut self) -> String {
        let is_output =
            |event: &Value| event["event"] == "output" && event["body"]["category"] == "stdout";
        let text = self
            .events
            .iter()
            .filter(|event| is_output(event))
            .filter_map(|event| event["body"]["output"].as_str())
            .collect();
        self.events.retain(|event| !is_output(event));
        text
    }
}

fn read(input: &mut impl BufRead) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if input.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end().split_once(": ") {
            Some((_, value)) => length = value.parse().ok()?,
            None => break,
        }
    }
    let mut bytes = vec![0; length];
    input.read_exact(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// The command, and an editor connected to it by pipes.
fn start(place: &Place) -> (Child, Editor) {
    let mut child = place
        .command(&["debug", "--dap"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let editor = Editor::new(child.stdout.take().unwrap(), child.stdin.take().unwrap());
    (child, editor)
}

fn ends_well(mut child: Child, place: &Place) {
    let since = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if since.elapsed() > PATIENCE => {
                child.kill().unwrap();
                panic!("the adapter does not end");
            }
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    assert!(status.success(), "{status}");
    no_process_is_left(place);
}

/// Opens the recording with one breakpoint in `twice`.
fn launch(editor: &mut Editor, place: &Place, at: &str) -> Value {
    let capabilities = editor.get("initialize", json!({"adapterID": "retake"}));
    assert_eq!(capabilities["supportsStepBack"], true);
    editor.get("launch", json!({"recording": "latest", "at": at}));
    editor.event("initialized");
    breakpoints(editor, place, json!([{"line": 8}]));
    editor.get("configurationDone", Value::Null);
    editor.stop()
}

fn breakpoints(editor: &mut Editor, place: &Place, wanted: Value) -> Value {
    let path = place.work("plain.c");
    editor.get(
        "setBreakpoints",
        json!({"source": {"path": path},
        "breakpoints": wanted}),
    )["breakpoints"]
        .clone()
}

#[test]
fn forwards_and_backwards() {
    needs!("gdb");
    let place = Place::new("dap");
    let program = compile(&place, "plain", PLAIN, &[]);
    record(&place, &[&program, "crash"]);
    let (child, mut editor) = start(&place);
    assert_eq!(launch(&mut editor, &place, "begin")["reason"], "entry");
    to_the_crash(&mut editor, &place);
    back_from_the_crash(&mut editor, &place);
    // Output that was printed before is not printed again. Retake's own commands work, and report
    // where they go.
    assert_eq!(editor.run("continue"), "exception");
    assert_eq!(editor.printed(), "");
    assert!(editor.evaluate("when", "repl").starts_with("event "));
    editor.evaluate("seek begin", "repl");
    editor.stop();
    assert_ne!(editor.frames()[0]["name"], "follow");
    editor.get("disconnect", Value::Null);
    ends_well(child, &place);
}

/// Goes forwards over breakpoints, steps and output.
fn to_the_crash(editor: &mut Editor, place: &Place) {
    assert_eq!(editor.run("continue"), "breakpoint");
    let frames = editor.frames();
    assert_eq!(
        (&frames[0]["name"], &frames[0]["line"], &frames[1]["name"]),
        (&"twice".into(), &8.into(), &"main".into())
    );
    assert_eq!(frames[0]["source"]["path"], place.work("plain.c").to_string_lossy().as_ref());
    assert_eq!((editor.value(0, "x"), editor.value(1, "sum")), ("0".to_owned(), "0".to_owned()));
    assert_eq!(editor.run("next"), "step");
    assert_eq!(editor.frames()[0]["line"], 9);
    // Goes back to the line with the breakpoint.
    assert_eq!(editor.run("stepBack"), "breakpoint");
    assert_eq!(editor.frames()[0]["line"], 8);
    assert_eq!(editor.run("stepOut"), "step");
    assert_eq!(editor.frames()[0]["name"], "main");
    assert_eq!(editor.run("continue"), "breakpoint");
    assert_eq!(editor.value(0, "x"), "1");
    // First with a condition; then without a breakpoint, to the crash.
    assert_eq!(
        breakpoints(
            editor,
            place,
            json!([{"line": 8,
            "condition": "x == 5"}])
        )[0]["verified"],
        true
    );
    assert_eq!(editor.run("continue"), "breakpoint");
    assert_eq!(editor.value(0, "x"), "5");
    breakpoints(editor, place, json!([]));
    assert_eq!(editor.printed(), "");
    assert_eq!(editor.run("continue"), "exception");
    assert!(editor.printed().starts_with("sum 90 of "));
    assert_eq!(editor.get("exceptionInfo", json!({"threadId": 1}))["exceptionId"], "SIGSEGV");
    // A structure, and its members.
    let node = editor.local(1, "node");
    let members = editor
        .get("variables", json!({"variablesReference": node["variablesReference"]}))["variables"]
        .clone();
    assert_eq!(
        (&members[0]["name"], &members[0]["value"], &members[1]["name"]),
        (&"value".into(), &"5".into(), &"next".into())
    );
    assert_eq!(editor.evaluate("node->value + 1", "watch"), "6");
    assert_eq!(
        editor.ask("evaluate", json!({"expression": "nothing", "context": "watch"}))["success"],
        false
    );
}

/// Goes backwards to a breakpoint, and to the write of a variable.
fn back_from_the_crash(editor: &mut Editor, place: &Place) {
    breakpoints(editor, place, json!([{"line": 8}]));
    assert_eq!(editor.run("reverseContinue"), "breakpoint");
    assert_eq!(editor.value(0, "x"), "9");
    breakpoints(editor, place, json!([]));
    // Goes back to the write of a variable.
    let data = editor.get("dataBreakpointInfo", json!({"name": "counter"}));
    let set = editor.get(
        "setDataBreakpoints",
        json!({"breakpoints": [{"dataId": data["dataId"], "accessType": "write"}]}),
    );
    assert_eq!(set["breakpoints"][0]["verified"], true, "{data} {set}");
    assert_eq!(editor.run("reverseContinue"), "data breakpoint");
    assert_eq!(editor.value(0, "x"), "8");
    editor.get("setDataBreakpoints", json!({"breakpoints": []}));
}

#[test]
fn at_the_crash_and_over_a_connection() {
    needs!("gdb");
    let place = Place::new("dap-attach");
    let program = compile(&place, "plain", PLAIN, &[]);
    record(&place, &[&program, "crash"]);
    // A launch that fails says why, and the next one can succeed.
    let (child, mut editor) = start(&place);
    editor.get("initialize", json!({"adapterID": "retake"}));
    for (arguments, reason) in [
        (json!({"recording": "nothing"}), "nothing"),
        (json!({"at": "nowhere"}), "is not a place"),
        (json!({"process": "sh"}), "no process"),
    ] {
        let response = editor.ask("launch", arguments);
        assert!(
            response["success"] == false && response["message"].as_str().unwrap().contains(reason),
            "{response}"
        );
    }
    let stop = launch(&mut editor, &place, "crash");
    assert_eq!(
        (&stop["reason"], &stop["description"]),
        (&"exception".into(), &"Crash: SIGSEGV".into())
    );
    assert_eq!(editor.frames()[0]["name"], "follow");
    // The editor closes the connection without a disconnect.
    drop(editor);
    ends_well(child, &place);

    // A debug server and an adapter each wait at a port.
    let (mut server, address) =
        listening(&place, &["debug", "--at", "begin", "--serve", "127.0.0.1:0"]);
    let (adapter, port) = listening(&place, &["debug", "--dap", "--serve", "127.0.0.1:0"]);
    let stream = TcpStream::connect(port).unwrap();
    let mut editor = Editor::new(stream.try_clone().unwrap(), stream);
    editor.get("initialize", json!({"adapterID": "retake"}));
    editor.get("attach", json!({"address": address}));
    let set = editor.get(
        "setFunctionBreakpoints",
        json!({"breakpoints": [{"name": "twice", "hitCondition": "4"}]}),
    );
    assert_eq!(set["breakpoints"][0]["verified"], true);
    editor.get("configurationDone", Value::Null);
    assert_eq!(editor.stop()["reason"], "entry");
    assert_eq!(editor.run("continue"), "breakpoint");
    assert_eq!(editor.value(0, "x"), "3");
    editor.get("disconnect", Value::Null);
    assert!(server.wait().unwrap().success());
    ends_well(adapter, &place);
}

#[test]
fn frames_of_python() {
    needs!("gdb", "python3");
    let place = Place::new("dap-python");
    let known = "import sys; sys.exit(not (3, 8) <= sys.version_info < (3, 14))";
    if !place.command_of("python3", &["-c", known]).status().unwrap().success() {
        return;
    }
    let script = source_file("../examples/account.py");
    place.run(&["record", "python3", script.to_str().unwrap()]);
    let (child, mut editor) = start(&place);
    editor.get("initialize", json!({"adapterID": "retake"}));
    editor.get("launch", json!({"recording": "latest", "at": "end"}));
    editor.event("initialized");
    editor.get("configurationDone", Value::Null);
    editor.stop();
    let frames = editor.frames();
    let level =
        |name: &str| frames.iter().position(|one| one["name"].as_str().unwrap().ends_with(name));
    let (inner, outer) = (level("withdraw").unwrap(), level("customers").unwrap());
    assert!(inner < outer && level("_PyEval_EvalFrameDefault").is_none(), "{frames:?}");
    assert_eq!((&frames[inner]["line"], &frames[outer]["line"]), (&13.into(), &19.into()));
    assert_eq!(frames[inner]["source"]["name"], "account.py");
    assert_eq!(editor.value(inner, "before"), "20");
    assert_eq!(editor.value(outer, "amounts"), "[10, 20, 30]");
    let thread = editor.get("threads", Value::Null)["threads"][0]["id"].clone();
    let part = json!({"threadId": thread, "startFrame": outer, "levels": 1});
    let part = editor.get("stackTrace", part);
    assert_eq!(part["stackFrames"][0]["name"], frames[outer]["name"]);
    assert!(part["totalFrames"].as_u64().unwrap() >= frames.len() as u64, "{part}");
    let frame = &part["stackFrames"][0]["id"];
    let asked = json!({"expression": "amount", "frameId": frame, "context": "hover"});
    assert_eq!(editor.get("evaluate", asked)["result"], "30");
    editor.get("disconnect", Value::Null);
    ends_well(child, &place);
}

#[test]
fn the_extension_starts_this_adapter() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../editors/vscode/package.json");
    let package: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let debugger = &package["contributes"]["debuggers"][0];
    assert_eq!(
        (&debugger["runtime"], &debugger["runtimeArgs"]),
        (&json!("retake"), &json!(["debug", "--dap"]))
    );
}

/// Starts a command that waits at an address. Returns it with the address.
fn listening(place: &Place, arguments: &[&str]) -> (Child, String) {
    let mut child = place.command(arguments).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    stderr.read_line(&mut line).unwrap();
    // The pipe is read, so that further messages cannot block the command.
    std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
    (child, line.split_whitespace().last().unwrap().to_owned())
}

/// Computes for some seconds.
const LONG: &str = r#"
int main(void)
{
	for (volatile unsigned long i = 0; i < 2000000000; i++)
		;
	return 0;
}
"#;

/// A killed adapter cannot disconnect, and gdb does not look while the program runs.
#[test]
fn a_killed_adapter_takes_its_session_with_it() {
    needs!("gdb");
    const SOON: Duration = Duration::from_secs(2);
    let place = Place::new("debug-dap-killed");
    let program = compile(&place, "long", LONG, &[]);
    record(&place, &[&program]);
    let (mut child, mut editor) = start(&place);
    editor.get("initialize", json!({"adapterID": "retake"}));
    editor.get("launch", json!({"at": "begin"}));
    editor.event("initialized");
    editor.get("configurationDone", Value::Null);
    editor.stop();
    editor.get("continue", json!({"threadId": 1}));
    std::thread::sleep(Duration::from_millis(300));
    child.kill().unwrap();
    child.wait().unwrap();
    let since = Instant::now();
    while !left_behind(&place).is_empty() && since.elapsed() < SOON {
        std::thread::sleep(Duration::from_millis(20));
    }
    no_process_is_left(&place);
}
