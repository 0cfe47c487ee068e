//! The Debug Adapter Protocol, which editors speak, on top of gdb's machine interface.
//!
//! One thread reads requests, and two read gdb's output. The adapter takes these messages one by
//! one from a channel. gdb does not listen while the program runs. What needs gdb then interrupts
//! the program first.

mod adapter;
mod breakpoints;
mod client;
mod debugger;
mod gdb;
mod mi;
mod protocol;
mod scripts;
mod shown;
mod stack;
mod stopped;
mod values;

pub use protocol::Launch;

use adapter::Adapter;
use protocol::Request;
use std::io::{BufRead, Write};
use std::process::Command;
use std::sync::mpsc;

/// Returns the command that starts gdb, connected to a replay, with its machine interface on
/// standard input and output; or the reason of a failure.
pub type Backend<'a> = &'a mut dyn FnMut(&Launch) -> std::result::Result<Command, String>;

/// A message to the adapter.
pub(crate) enum Incoming {
    Request(Request),
    /// The client's input has ended.
    ClientGone,
    Gdb(mi::Record),
    /// A line of standard error.
    Said(String),
    GdbGone,
}

/// Serves one client until it goes.
pub fn serve(
    mut input: impl BufRead + Send + 'static,
    output: impl Write + 'static,
    backend: Backend<'_>,
) {
    let (sender, receiver) = mpsc::channel();
    let requests = sender.clone();
    std::thread::spawn(move || {
        while let Some(request) = protocol::read(&mut input) {
            if requests.send(Incoming::Request(request)).is_err() {
                return;
            }
        }
        // The receiver may be gone.
        let _ = requests.send(Incoming::ClientGone);
    });
    Adapter::new(Box::new(output), sender, receiver, backend).run();
}
