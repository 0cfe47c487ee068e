//! Serves a debugger over the gdb remote protocol.

mod arch;
mod breakpoints;
mod commands;
mod files;
mod host_io;
mod inspect;
mod queries;
mod remote;
mod signals;
mod wire;

use crate::error::{DebugError, Result};
use crate::session::DebugSession;
use gdbstub::stub::GdbStub;
use gdbstub::stub::state_machine::GdbStubStateMachine as Machine;
use remote::Remote;
use std::io::Write;
use std::time::{Duration, Instant};
pub use wire::Stream;
use wire::{Printed, Wire};

/// Large enough to transfer a library in few packets.
const PACKET_BYTES: usize = 128 << 10;

/// Serves one debugger until it goes.
///
/// # Errors
/// The replay diverged, or the process can no longer be controlled. It is no error if the debugger
/// goes, in whatever way.
pub fn serve(session: DebugSession, stream: impl Stream + 'static) -> Result<()> {
    match converse(session, stream) {
        Err(Ending::Failed(error)) => Err(error),
        Ok(()) | Err(Ending::Gone) => Ok(()),
    }
}

/// Why a conversation ended prematurely.
enum Ending {
    /// The debugger is gone.
    Gone,
    Failed(DebugError),
}

impl From<DebugError> for Ending {
    fn from(error: DebugError) -> Self {
        Self::Failed(error)
    }
}

fn converse(
    session: DebugSession,
    stream: impl Stream + 'static,
) -> std::result::Result<(), Ending> {
    let mut remote = Remote::new(session);
    let result = answer(&mut remote, stream);
    // This saves time in later sessions, but nothing needs it.
    let _ = remote.session.keep_past();
    result
}

fn answer(remote: &mut Remote, stream: impl Stream + 'static) -> std::result::Result<(), Ending> {
    // Output from before the debugger came is not shown.
    remote.session.replay_mut().console.collect().map_err(DebugError::from)?;
    remote.session.replay_mut().console.listener =
        stream.output().ok().map(|stream| Box::new(Printed(stream)) as Box<dyn Write>);
    let stub =
        GdbStub::builder(Wire::new(Box::new(stream))).packet_buffer_size(PACKET_BYTES).build();
    let stub = stub.map_err(|error| DebugError::Protocol(error.to_string()))?;
    let mut machine = stub.run_state_machine(remote).map_err(failure)?;
    loop {
        machine = match machine {
            Machine::Idle(mut idle) => {
                let wire = idle.borrow_conn();
                while wire.is_silent()
                    && remote.session.timeline().follow_for_a_moment(&mut || !wire.is_silent())
                {
                }
                let Ok(packet) = wire.next() else { return Ok(()) };
                let (packet, conditions) = wire::without_conditions(packet);
                remote.conditions = conditions;
                wire.answer = remote.answer_to(&packet);
                match feed(idle.into(), remote, &packet) {
                    Ok(machine) => machine,
                    Err(error) => return Err(failure(error)),
                }
            }
            Machine::Running(mut running) => {
                let reason = {
                    let wire = running.borrow_conn();
                    let mut looked = Instant::now();
                    remote.act(&mut || {
                        let is_due = looked.elapsed() > LOOK;
                        if is_due {
                            looked = Instant::now();
                        }
                        is_due && wire.is_interrupted()
                    })?
                };
                let console = remote.take_console();
                running.borrow_conn().say(&console).map_err(|_| Ending::Gone)?;
                running.borrow_conn().executed = remote.executed.take();
                running.report_stop(remote, reason).map_err(failure)?
            }
            Machine::CtrlCInterrupt(interrupted) => {
                interrupted.interrupt_handled(remote, None::<remote::Reason>).map_err(failure)?
            }
            Machine::Disconnected(_) => return Ok(()),
        }
    }
}

/// A script for gdb with commands for time travel. It connects to the socket in `RETAKE_SOCKET`.
pub const SCRIPT: &str = concat!(
    include_str!("languages.py"),
    include_str!("python.py"),
    include_str!("waits.py"),
    include_str!("python_commands.py"),
    include_str!("retake.py")
);

/// A script for gdb that connects in the same way, and writes information about the threads to the
/// file in `RETAKE_OUTPUT`, as JSON.
pub const BACKTRACE_SCRIPT: &str = concat!(
    include_str!("languages.py"),
    include_str!("python.py"),
    include_str!("waits.py"),
    include_str!("backtrace.py")
);

/// A script for gdb that connects in the same way and reads the stack at `RETAKE_SAMPLES` places.
/// It writes the number of times that it saw each stack to the file in `RETAKE_OUTPUT`, as folded
/// stacks.
pub const PROFILE_SCRIPT: &str = include_str!("profile.py");

/// How often to check whether the debugger wants to stop the program.
const LOOK: Duration = Duration::from_millis(5);

type Served<'a> = Machine<'a, Remote, Wire>;
type Error = gdbstub::stub::GdbStubError<DebugError, std::io::Error>;

fn feed<'a>(
    mut machine: Served<'a>,
    remote: &mut Remote,
    packet: &[u8],
) -> std::result::Result<Served<'a>, Error> {
    for &byte in packet {
        machine = match machine {
            Machine::Idle(idle) => idle.incoming_data(remote, byte)?,
            other => return Ok(other),
        };
    }
    Ok(machine)
}

fn failure(error: Error) -> Ending {
    if error.is_connection_error() {
        return Ending::Gone;
    }
    if error.is_target_error() {
        return error
            .into_target_error()
            .unwrap_or_else(|| DebugError::Protocol("unknown".to_owned()))
            .into();
    }
    DebugError::Protocol(error.to_string()).into()
}
