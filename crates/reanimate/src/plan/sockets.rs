//! Sockets. They are only simulated, except for two effects: descriptors passed through them, and
//! the file of a bound one.

use std::collections::{HashMap, VecDeque};
use std::rc::{Rc, Weak};

use libc as sys;
use retake_trace_format::BufferDirection;

use super::files::Files;
use super::names::NameCalls;
use super::{Context, Plan, Planned};
use crate::calls::{i32_at, u16_at, u64_at};
use crate::tasks::{Channel, Description, Opened, Slot};

/// The reason why calls on sockets are not repeated.
pub(super) const SOCKETS: &str = "sockets";

/// The most connections that wait to be accepted: 4096, as in the kernel.
const MAXIMUM_BACKLOG: usize = 4096;

/// The most messages with an unknown receiver that are kept.
const MAXIMUM_STRAYS: usize = 1024;

/// Descriptors that are passed between processes.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    /// Listening sockets by address.
    listeners: HashMap<Vec<u8>, Weak<Description>>,
    /// Descriptors that were sent to an unknown receiver.
    strays: VecDeque<Vec<Rc<Description>>>,
}

impl Sockets {
    pub(super) fn plan(&mut self, files: &mut Files, context: &mut Context) -> Planned<Plan> {
        match i64::from(context.call.number) {
            sys::SYS_socketpair => make_pair(context),
            sys::SYS_bind => return self.bind(files, context),
            _ if !context.succeeded() => {}
            sys::SYS_connect => self.connect(context),
            sys::SYS_accept | sys::SYS_accept4 => self.accept(context),
            sys::SYS_sendmsg => self.send(context),
            _ => self.receive(context),
        }
        Ok(Plan::Simulated(SOCKETS))
    }

    /// Connects a client to a server. Connections are accepted in the order in which they were
    /// made.
    fn connect(&mut self, context: &mut Context) {
        let Some(client) = socket(context, context.arguments.descriptor(0)) else { return };
        let listener =
            local_address(context).and_then(|address| self.listeners.get(address)?.upgrade());
        let Some(listener) = listener else { return };
        let channel = Channel::default();
        let backlog = &mut *listener.backlog.borrow_mut();
        match std::iter::from_fn(|| backlog.accepted.pop_front())
            .find_map(|server| server.upgrade())
        {
            Some(server) => *server.channel.borrow_mut() = Some(channel.reversed()),
            None if backlog.made.len() < MAXIMUM_BACKLOG => {
                backlog.made.push_back(channel.reversed())
            }
            None => {}
        }
        *client.channel.borrow_mut() = Some(channel);
    }

    fn accept(&mut self, context: &mut Context) {
        let flags = if i64::from(context.call.number) == sys::SYS_accept4 {
            context.arguments.uint(3)
        } else {
            0
        };
        let listener = socket(context, context.arguments.descriptor(0));
        context.open_virtual(SOCKETS, flags & sys::SOCK_CLOEXEC as u32);
        let server =
            i32::try_from(context.call.result).ok().and_then(|number| socket(context, number));
        let (Some(listener), Some(server)) = (listener, server) else { return };
        let backlog = &mut *listener.backlog.borrow_mut();
        match backlog.made.pop_front() {
            Some(channel) => *server.channel.borrow_mut() = Some(channel),
            None if backlog.accepted.len() < MAXIMUM_BACKLOG => {
                backlog.accepted.push_back(Rc::downgrade(&server))
            }
            None => {}
        }
    }

    /// Plans `bind`. A socket with a path leaves a file there.
    fn bind(&mut self, files: &mut Files, context: &mut Context) -> Planned<Plan> {
        const PATH_OFFSET: usize = 2;
        let Some(address) = context.arguments.input(1).filter(|_| context.succeeded()) else {
            return Ok(Plan::Simulated(SOCKETS));
        };
        if let Some((address, socket)) =
            local_address(context).zip(socket(context, context.arguments.descriptor(0)))
        {
            self.listeners.retain(|_, socket| socket.strong_count() > 0);
            self.listeners.insert(address.to_vec(), Rc::downgrade(&socket));
        }
        let is_local = u16_at(&address.data, 0) == Some(sys::AF_UNIX as u16);
        let path = address.data.get(PATH_OFFSET..).unwrap_or_default();
        if !is_local || path.first().is_none_or(|first| *first == 0) {
            return Ok(Plan::Simulated(SOCKETS));
        }
        // A copy of the call with the path as an argument, as in `mknod`. The path ends at a NUL.
        let mut call = context.call.clone();
        call.buffers
            .retain(|buffer| buffer.argument == 1 && buffer.direction == BufferDirection::Input);
        call.buffers.iter_mut().for_each(|buffer| {
            let start = PATH_OFFSET.min(buffer.data.len());
            buffer.data.to_mut().drain(..start);
        });
        let mut inner = Context {
            call: &call,
            arguments: crate::calls::Arguments(&call),
            thread: context.thread.clone(),
            simulates_pipes: context.simulates_pipes,
            turn: crate::world::Turn::new(context.turn.ticket),
        };
        let plan = NameCalls { files }.make_node(&mut inner, (None, 1), sys::S_IFSOCK | 0o777);
        inner
            .turn
            .dependencies
            .iter()
            .for_each(|ticket| crate::access::add(&mut context.turn.dependencies, *ticket));
        context.turn.is_used = true;
        plan
    }

    fn send(&mut self, context: &mut Context) {
        let control = control_data(context, BufferDirection::Input);
        let numbers = control.map(passed_descriptors).unwrap_or_default();
        if numbers.is_empty() {
            return;
        }
        let descriptors = context.thread.descriptors.borrow();
        let found = numbers
            .iter()
            .filter_map(|number| descriptors.get(*number))
            .map(|slot| slot.description.clone());
        let passed: Vec<_> = found.collect();
        let socket = descriptors.get(context.arguments.descriptor(0));
        let outbox = socket.and_then(|socket| {
            socket.description.channel.borrow().as_ref().map(|channel| Rc::clone(&channel.outbox))
        });
        match outbox {
            Some(outbox) if outbox.borrow().len() < MAXIMUM_STRAYS => {
                outbox.borrow_mut().push_back(passed)
            }
            Some(_) => {}
            None if self.strays.len() < MAXIMUM_STRAYS => self.strays.push_back(passed),
            None => {}
        }
    }

    fn receive(&mut self, context: &mut Context) {
        let control = control_data(context, BufferDirection::Output);
        let numbers = control.map(passed_descriptors).unwrap_or_default();
        if numbers.is_empty() {
            return;
        }
        let mut descriptors = context.thread.descriptors.borrow_mut();
        let socket =
            descriptors.get(context.arguments.descriptor(0)).map(|slot| slot.description.clone());
        let inbox = socket.and_then(|socket| {
            socket.channel.borrow().as_ref().map(|channel| Rc::clone(&channel.inbox))
        });
        let own = inbox.and_then(|inbox| inbox.borrow_mut().pop_front());
        let stray = self.strays.iter().position(|passed| passed.len() == numbers.len());
        let mut passed = own.or_else(|| self.strays.remove(stray?)).unwrap_or_default().into_iter();
        let closes_on_exec = context.arguments.uint(2) & sys::MSG_CMSG_CLOEXEC as u32 != 0;
        for number in numbers {
            let description = passed.next().unwrap_or_else(|| {
                Description::new(
                    Opened::Virtual("descriptors that came through a socket"),
                    context.turn.ticket,
                    0,
                )
            });
            descriptors.install(
                number,
                Slot { description, closes_on_exec },
                context.call.returned_ns,
            );
        }
    }
}

fn make_pair(context: &mut Context) {
    let numbers =
        (context.arguments.written_descriptor(3, 0), context.arguments.written_descriptor(3, 1));
    let (Some(first), Some(second)) = numbers else {
        return;
    };
    if !context.succeeded() {
        return;
    }
    let ends = [first, second].map(|number| {
        let description = Description::new(Opened::Virtual(SOCKETS), context.turn.ticket, 0);
        let closes_on_exec = context.arguments.uint(1) & sys::SOCK_CLOEXEC as u32 != 0;
        let slot = Slot { description: description.clone(), closes_on_exec };
        context.thread.descriptors.borrow_mut().install(number, slot, context.call.returned_ns);
        description
    });
    let channel = Channel::default();
    *ends[1].channel.borrow_mut() = Some(channel.reversed());
    *ends[0].channel.borrow_mut() = Some(channel);
}

/// Returns the open file of a socket descriptor, whichever call made it.
fn socket(context: &Context, number: i32) -> Option<Rc<Description>> {
    context.thread.descriptors.borrow().get(number).map(|slot| slot.description.clone())
}

/// The address of a local socket: a path up to its NUL, or all bytes of an abstract name.
fn local_address<'a>(context: &Context<'a>) -> Option<&'a [u8]> {
    let address = &context.arguments.input(1)?.data;
    let name = address.get(2..).filter(|_| u16_at(address, 0) == Some(sys::AF_UNIX as u16))?;
    match name.first()? {
        0 => Some(name),
        _ => name.split(|byte| *byte == 0).next(),
    }
}

/// The control data of a message: the buffer that `msg_control` points to.
fn control_data<'a>(context: &Context<'a>, direction: BufferDirection) -> Option<&'a [u8]> {
    const CONTROL_OFFSET: usize = 32;
    let call = context.call;
    let header = call
        .buffers
        .iter()
        .find(|buffer| buffer.argument == 1 && buffer.address == call.arguments[1])?;
    let address = u64_at(&header.data, CONTROL_OFFSET)?;
    let mut found =
        call.buffers_of(1, direction).filter(|buffer| buffer.address == address && address != 0);
    found.next().map(|buffer| buffer.data.as_slice())
}

/// Returns the descriptors in `SCM_RIGHTS` messages.
fn passed_descriptors(control: &[u8]) -> Vec<i32> {
    const HEADER_BYTES: usize = 16;
    let mut numbers = Vec::new();
    let mut rest = control;
    while let Some(length) = u64_at(rest, 0).and_then(|length| usize::try_from(length).ok()) {
        if length < HEADER_BYTES || length > rest.len() {
            break;
        }
        if i32_at(rest, 8) == Some(sys::SOL_SOCKET) && i32_at(rest, 12) == Some(sys::SCM_RIGHTS) {
            numbers.extend(
                rest[HEADER_BYTES..length].chunks_exact(4).filter_map(|bytes| i32_at(bytes, 0)),
            );
        }
        rest = rest.get(length.next_multiple_of(8)..).unwrap_or_default();
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_messages_are_read_with_care() {
        let message = |length: u64, level: i32, kind: i32, data: &[i32]| {
            let mut bytes = length.to_le_bytes().to_vec();
            [level, kind].iter().chain(data).for_each(|word| bytes.extend(word.to_le_bytes()));
            bytes.resize(bytes.len().next_multiple_of(8), 0);
            bytes
        };
        let rights = message(20, sys::SOL_SOCKET, sys::SCM_RIGHTS, &[7]);
        let other = message(20, sys::SOL_SOCKET, 2, &[9]);
        assert_eq!(passed_descriptors(&[other.clone(), rights.clone(), rights].concat()), [7, 7]);
        assert_eq!(passed_descriptors(&other), [] as [i32; 0]);
        for length in [0, 15, 25, u64::MAX] {
            assert_eq!(
                passed_descriptors(&message(length, sys::SOL_SOCKET, sys::SCM_RIGHTS, &[7])),
                [] as [i32; 0]
            );
        }
        assert_eq!(passed_descriptors(&[1, 2, 3]), [] as [i32; 0]);
    }
}
