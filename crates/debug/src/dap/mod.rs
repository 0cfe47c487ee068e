//! The Debug Adapter Protocol, which editors speak, in front of gdb's machine interface.
//!
//! One thread reads requests, two read what gdb says, and the adapter takes one thing after another
//! from a channel. gdb does not listen while the program runs; what must be done then waits until
//! it was interrupted.

mod adapter;
mod breakpoints;
mod client;
mod debugger;
mod gdb;
mod mi;
mod protocol;

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

/// Makes the command that starts gdb with its machine interface on standard input and output,
/// connected to a replay; or says why not.
pub type Backend<'a> = &'a mut dyn FnMut(&Launch) -> std::result::Result<Command, String>;

/// What the adapter is told.
pub(crate) enum Incoming {
    Request(Request),
    /// The client will say nothing more.
    ClientGone,
    Gdb(mi::Record),
    /// On standard error.
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
        // Nobody may be left to be told.
        let _ = requests.send(Incoming::ClientGone);
    });
    Adapter::new(Box::new(output), sender, receiver, backend).run();
}
