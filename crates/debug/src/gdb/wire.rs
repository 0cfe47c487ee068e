//! The connection to the debugger: bytes in and out, and the few packets that the protocol library
//! does not accept in gdb's form.

use crate::console::readable;
use gdbstub::conn::Connection;
use std::collections::VecDeque;
use std::io::{self, Read, Write};

/// The byte that stops a running program.
const INTERRUPT: u8 = 3;
/// The request to send the last packet again.
const RETRANSMIT: &[u8] = b"-";
/// An empty answer.
const UNKNOWN: &[u8] = b"$#00";
const LARGEST_READ: usize = 64 << 10;
const LONGEST_OUTPUT: usize = 1024;

/// A stream to a debugger, with the operations that are needed here.
pub trait Stream: Read + Write {
    /// Sets whether reads wait.
    ///
    /// # Errors
    /// Those of the system.
    fn set_waiting(&self, waits: bool) -> io::Result<()>;

    /// Returns a second handle of the stream, to write to.
    ///
    /// # Errors
    /// Those of the system.
    fn output(&self) -> io::Result<Box<dyn Write>>;
}

impl Stream for std::os::unix::net::UnixStream {
    fn set_waiting(&self, waits: bool) -> io::Result<()> {
        self.set_nonblocking(!waits)
    }

    fn output(&self) -> io::Result<Box<dyn Write>> {
        Ok(Box::new(self.try_clone()?))
    }
}

impl Stream for std::net::TcpStream {
    fn set_waiting(&self, waits: bool) -> io::Result<()> {
        self.set_nonblocking(!waits)
    }

    fn output(&self) -> io::Result<Box<dyn Write>> {
        Ok(Box::new(self.try_clone()?))
    }
}

/// Sends the program's output in packets that a debugger accepts while the program runs.
pub(crate) struct Printed(pub Box<dyn Write>);

impl Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        const PACKET_BYTES: usize = 1024;
        for part in readable(bytes).as_bytes().chunks(PACKET_BYTES) {
            let mut body = vec![b'O'];
            part.iter().for_each(|byte| body.extend(format!("{byte:02x}").bytes()));
            self.0.write_all(&framed(&body))?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The connection.
pub(crate) struct Wire {
    stream: Box<dyn Stream>,
    incoming: VecDeque<u8>,
    outgoing: Vec<u8>,
    /// Whether the debugger's packets are about a child, which does not exist here.
    is_elsewhere: bool,
    /// If set, the next stop is reported as the execution of this program.
    pub executed: Option<String>,
    /// Our answer to a packet that the protocol library does not know.
    pub answer: Option<Vec<u8>>,
}

impl Wire {
    pub fn new(stream: Box<dyn Stream>) -> Self {
        Self {
            stream,
            incoming: VecDeque::new(),
            outgoing: Vec::new(),
            is_elsewhere: false,
            executed: None,
            answer: None,
        }
    }

    /// Waits for the next packet, acknowledgement or interrupt.
    ///
    /// # Errors
    /// The debugger is gone.
    pub fn next(&mut self) -> io::Result<Vec<u8>> {
        loop {
            if let Some(count) = self.complete() {
                let packet: Vec<u8> = self.incoming.drain(..count).collect();
                // Nothing is damaged on the way. The debugger only lost patience, and the answer
                // will come.
                if packet != RETRANSMIT {
                    return Ok(self.adapted(packet));
                }
                continue;
            }
            if !self.fill()? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Whether the debugger is there but has sent nothing.
    pub fn is_silent(&mut self) -> bool {
        if !self.incoming.is_empty() {
            return false;
        }
        let is_set = self.stream.set_waiting(false);
        let open = self.fill();
        let _ = self.stream.set_waiting(true);
        is_set.is_ok() && open.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Whether the debugger wants to stop the program, or is gone. Consumes the interrupt.
    pub fn is_interrupted(&mut self) -> bool {
        if self.is_silent() {
            return false;
        }
        if self.incoming.front() == Some(&INTERRUPT) {
            self.incoming.pop_front();
        }
        true
    }

    /// Prints on the debugger's console while it waits for the program to stop.
    ///
    /// # Errors
    /// The debugger is gone.
    pub fn say(&mut self, text: &str) -> io::Result<()> {
        for piece in text.as_bytes().chunks(LONGEST_OUTPUT) {
            let digits: String = piece.iter().map(|byte| format!("{byte:02x}")).collect();
            self.stream.write_all(&framed(format!("O{digits}").as_bytes()))?;
        }
        Ok(())
    }

    /// Adapts a packet for the library. The selection of all threads before a step backwards
    /// becomes that of any thread: time goes back for all of them. When a debugger removes its
    /// breakpoints from a new child and detaches from it, the packets become ones that have no
    /// effect.
    fn adapted(&mut self, packet: Vec<u8>) -> Vec<u8> {
        const ACCEPTED: &[u8] = b"Hc0";
        let Some(body) =
            packet.strip_prefix(b"$").and_then(|rest| rest.get(..rest.len().saturating_sub(3)))
        else {
            return packet;
        };
        if let Some(thread) = body.strip_prefix(b"Hg") {
            self.is_elsewhere = thread.strip_prefix(b"p").is_some_and(|id| {
                is_child(id.split(|byte| *byte == b'.').next().unwrap_or_default())
            });
        }
        let is_childs = match body {
            [b'Z' | b'z', ..] | [b'H', b'g', ..] => self.is_elsewhere,
            [b'D', b';', pid @ ..] => is_child(pid),
            _ => body.starts_with(b"Hc") && body.ends_with(b"-1"),
        };
        if is_childs { framed(ACCEPTED) } else { packet }
    }

    /// Reads the bytes that are there. Returns false at the end.
    fn fill(&mut self) -> io::Result<bool> {
        let mut bytes = [0; LARGEST_READ];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(count) => {
                    self.incoming.extend(&bytes[..count]);
                    return Ok(count > 0);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The size of the first packet, if all of it is there.
    fn complete(&self) -> Option<usize> {
        const CHECKSUM_BYTES: usize = 2;
        if *self.incoming.front()? != b'$' {
            return Some(1);
        }
        let end = self.incoming.iter().position(|byte| *byte == b'#')? + 1 + CHECKSUM_BYTES;
        (end <= self.incoming.len()).then_some(end)
    }
}

/// Whether the digits are the ID of another process than the debugged one, which is number 1.
fn is_child(pid: &[u8]) -> bool {
    std::str::from_utf8(pid)
        .ok()
        .and_then(|digits| u32::from_str_radix(digits, 16).ok())
        .is_some_and(|pid| pid > 1)
}

/// Turns a new child from a thread, the library's form, into a process of its own, the debugger's
/// form.
fn with_child(outgoing: Vec<u8>) -> Vec<u8> {
    const CHILD: &[u8] = b"fork:p";
    let Some(at) = outgoing
        .windows(CHILD.len())
        .position(|bytes| bytes == CHILD)
        .filter(|_| outgoing.starts_with(b"$T"))
    else {
        return outgoing;
    };
    let (before, rest) = outgoing.split_at(at + CHILD.len());
    let (Some(dot), Some(end)) =
        (rest.iter().position(|byte| *byte == b'.'), rest.iter().position(|byte| *byte == b';'))
    else {
        return outgoing;
    };
    let (Some(child), Some(body)) =
        (rest.get(dot + 1..end), rest.get(end..rest.len().saturating_sub(3)))
    else {
        return outgoing;
    };
    framed(&[&before[1..], child, b".", child, body].concat())
}

/// Turns a stop into that of a process that has executed a program, which the library does not
/// support. One debugger reads the path, another one the reason.
fn with_exec(outgoing: &[u8], path: &str) -> Vec<u8> {
    const STOP: &[u8] = b"$T05";
    let Some(body) =
        outgoing.strip_prefix(STOP).and_then(|rest| rest.get(..rest.len().saturating_sub(3)))
    else {
        return outgoing.to_vec();
    };
    let path: String = path.bytes().map(|byte| format!("{byte:02x}")).collect();
    framed(&[&STOP[1..], format!("exec:{path};reason:exec;").as_bytes(), body].concat())
}

/// Splits a packet that sets a breakpoint from its conditions, which the protocol library skips.
pub(crate) fn without_conditions(packet: Vec<u8>) -> (Vec<u8>, Option<Vec<Vec<u8>>>) {
    let body = packet.strip_prefix(b"$").and_then(|rest| rest.get(..rest.len().saturating_sub(3)));
    let text = body
        .and_then(|body| std::str::from_utf8(body).ok())
        .filter(|text| text.starts_with("Z0,") || text.starts_with("Z1,"));
    let Some((plain, list)) = text.and_then(|text| text.split_once(";X")) else {
        return (packet, None);
    };
    match conditions(list) {
        Some(conditions) => (framed(plain.as_bytes()), Some(conditions)),
        None => (framed(plain.as_bytes()), None),
    }
}

/// Parses conditions. Each begins with `X` and the number of its bytes.
fn conditions(list: &str) -> Option<Vec<Vec<u8>>> {
    let one = |text: &str| {
        let (count, digits) = text.split_once(',')?;
        let count = usize::from_str_radix(count, 16).ok()?;
        (0..count)
            .map(|index| u8::from_str_radix(digits.get(2 * index..2 * index + 2)?, 16).ok())
            .collect()
    };
    // Commands for the target may follow. There are none for ours.
    list.split(";cmds").next()?.split('X').map(|text| one(text.trim_end_matches(';'))).collect()
}

/// Adds our own features to those that the protocol library lists.
fn with_features(outgoing: Vec<u8>) -> Vec<u8> {
    const ANSWER: &[u8] = b"$PacketSize=";
    const OURS: &[u8] = b";ConditionalBreakpoints+;QPassSignals+;exec-events+;qXfer:siginfo:read+";
    // An acknowledgement may come before it.
    let Some(at) = outgoing.windows(ANSWER.len()).take(2).position(|bytes| bytes == ANSWER) else {
        return outgoing;
    };
    let body = &outgoing[at + 1..outgoing.len().saturating_sub(3).max(at + 1)];
    [&outgoing[..at], &framed(&[body, OURS].concat())].concat()
}

/// A packet with its checksum.
pub(crate) fn framed(body: &[u8]) -> Vec<u8> {
    let sum = body.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    let mut packet = vec![b'$'];
    packet.extend(body);
    packet.extend(format!("#{sum:02x}").bytes());
    packet
}

impl Connection for Wire {
    type Error = io::Error;

    fn write(&mut self, byte: u8) -> io::Result<()> {
        self.outgoing.push(byte);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut outgoing = with_child(with_features(std::mem::take(&mut self.outgoing)));
        if let Some(path) = self.executed.take() {
            outgoing = with_exec(&outgoing, &path);
        }
        if outgoing.ends_with(UNKNOWN)
            && let Some(answer) = self.answer.take()
        {
            outgoing.truncate(outgoing.len() - UNKNOWN.len());
            outgoing.extend(framed(&answer));
        }
        self.stream.write_all(&outgoing)?;
        self.stream.flush()
    }
}
