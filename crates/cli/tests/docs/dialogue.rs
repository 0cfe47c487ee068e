//! A debugger that runs commands for the tests.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use crate::cli_support::started::Started;

const PROMPT: &str = "(gdb) ";
/// The time limit of an answer.
const PATIENCE: Duration = Duration::from_secs(120);

/// The debugger, and its output in pieces.
pub struct Dialogue {
    started: Started,
    pieces: Receiver<Vec<u8>>,
}

impl Dialogue {
    /// Starts a command that runs a debugger. Also returns what it prints before its first prompt.
    pub fn open(mut command: Command) -> (Self, String) {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut started = Started::new(&mut command);
        let pieces = pieces(&mut started.0);
        let dialogue = Self { started, pieces };
        let printed = dialogue.printed();
        (dialogue, printed)
    }

    /// Sends a command to the debugger, and returns what it prints.
    pub fn ask(&mut self, command: &str) -> String {
        let stdin = self.started.0.stdin.as_mut().expect("it is piped");
        writeln!(stdin, "{command}").expect("the debugger reads");
        self.printed()
    }

    /// The output up to the next prompt.
    fn printed(&self) -> String {
        let mut text = Vec::new();
        while !text.ends_with(PROMPT.as_bytes()) {
            match self.pieces.recv_timeout(PATIENCE) {
                Ok(piece) => text.extend(piece),
                Err(_) => break,
            }
        }
        let text = String::from_utf8_lossy(&text).into_owned();
        text.strip_suffix(PROMPT).map_or(format!("{text}\nand no prompt"), str::to_owned)
    }
}

impl Drop for Dialogue {
    /// Closes standard input, which ends the debugger.
    fn drop(&mut self) {
        drop(self.started.0.stdin.take());
        self.started.wait(PATIENCE);
    }
}

fn pieces(child: &mut Child) -> Receiver<Vec<u8>> {
    let mut stdout = child.stdout.take().expect("it is piped");
    let (sender, pieces) = mpsc::channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(bytes @ 1..) = stdout.read(&mut buffer) {
            if sender.send(buffer[..bytes].to_vec()).is_err() {
                return;
            }
        }
    });
    pieces
}
