//! The connection to the debugger: bytes in and out, and the few packets that the protocol library does not take as gdb sends them.

use gdbstub::conn::Connection;
use std::collections::VecDeque;
use std::io::{self, Read, Write};

/// A byte that stops a running program.
const INTERRUPT: u8 = 3;
const LARGEST_READ: usize = 64 << 10;

/// A stream to a debugger, as far as we need it.
pub trait Stream: Read + Write {
    /// Whether reading waits.
    ///
    /// # Errors
    /// What the system says.
    fn set_waiting(&self, waits: bool) -> io::Result<()>;

    /// The same stream once more, to write to.
    ///
    /// # Errors
    /// What the system says.
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

/// What the program prints, in packets that a debugger takes while the program runs.
pub(crate) struct Printed(pub Box<dyn Write>);

impl Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        const PACKET_BYTES: usize = 1024;
        let part = &bytes[..bytes.len().min(PACKET_BYTES)];
        let mut body = vec![b'O'];
        part.iter().for_each(|byte| body.extend(format!("{byte:02x}").bytes()));
        self.0.write_all(&framed(&body))?;
        Ok(part.len())
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
}

impl Wire {
    pub fn new(stream: Box<dyn Stream>) -> Self {
        Self { stream, incoming: VecDeque::new(), outgoing: Vec::new() }
    }

    /// The next packet, acknowledgement or interrupt, waiting for it.
    ///
    /// # Errors
    /// The debugger is gone.
    pub fn next(&mut self) -> io::Result<Vec<u8>> {
        loop {
            if let Some(count) = self.complete() {
                let packet: Vec<u8> = self.incoming.drain(..count).collect();
                return Ok(adapted(packet));
            }
            if !self.fill()? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Whether the debugger wants the program to be stopped; takes that wish.
    pub fn is_interrupted(&mut self) -> bool {
        if self.incoming.is_empty() {
            let is_set = self.stream.set_waiting(false);
            let open = self.fill();
            let _ = self.stream.set_waiting(true);
            match (is_set, open) {
                (Ok(()), Ok(true)) => {}
                (_, Err(error)) if error.kind() == io::ErrorKind::WouldBlock => return false,
                _ => return true, // nobody waits for us any more
            }
        }
        if self.incoming.front() == Some(&INTERRUPT) {
            self.incoming.pop_front();
        }
        true
    }

    /// Reads what is there; false at the end.
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

    /// Bytes of the first packet, if all of it is there.
    fn complete(&self) -> Option<usize> {
        const CHECKSUM_BYTES: usize = 2;
        if *self.incoming.front()? != b'$' {
            return Some(1);
        }
        let end = self.incoming.iter().position(|byte| *byte == b'#')? + 1 + CHECKSUM_BYTES;
        (end <= self.incoming.len()).then_some(end)
    }
}

/// "Continue all threads" before a step backwards: time runs back for all of them, whichever is named.
fn adapted(packet: Vec<u8>) -> Vec<u8> {
    let body = packet.strip_prefix(b"$").and_then(|rest| rest.get(..rest.len().saturating_sub(3)));
    match body {
        Some(body) if body.starts_with(b"Hc") && body.ends_with(b"-1") => framed(b"Hc0"),
        _ => packet,
    }
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
        let outgoing = std::mem::take(&mut self.outgoing);
        self.stream.write_all(&outgoing)?;
        self.stream.flush()
    }
}
