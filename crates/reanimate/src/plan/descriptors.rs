//! Calls about descriptors themselves. Only calls that close files or make pipes reach a worker. A
//! duplicate is just another number for the same open file.

use libc as sys;

use super::files::{Files, SHARED_PIPES, UNKNOWN_DESCRIPTOR, closing};
use super::processes::Processes;
use super::{Context, Plan, Planned};
use crate::access::Access;
use crate::action::Action;
use crate::tasks::{Description, Opened, Slot};

const TRACKED: &str = "descriptors that were duplicated or marked: only their table changes";

/// Plans changes of a descriptor table.
pub(super) struct DescriptorCalls<'plan> {
    pub(super) files: &'plan mut Files,
    pub(super) processes: &'plan mut Processes,
}

impl DescriptorCalls<'_> {
    pub(super) fn plan(&mut self, context: &mut Context) -> Planned<Plan> {
        let arguments = context.arguments;
        let first = arguments.descriptor(0);
        match i64::from(context.call.number) {
            sys::SYS_close => Ok(self.close(context, first)),
            sys::SYS_close_range => Ok(self.close_range(context)),
            sys::SYS_dup => self.duplicate(context, first, false),
            sys::SYS_dup2 => self.duplicate_onto(context, false),
            sys::SYS_dup3 => {
                self.duplicate_onto(context, arguments.uint(2) & sys::O_CLOEXEC as u32 != 0)
            }
            sys::SYS_pipe => self.pipe(context, 0),
            sys::SYS_pipe2 => self.pipe(context, arguments.uint(1)),
            _ => self.fcntl(context),
        }
    }

    fn close(&mut self, context: &mut Context, number: i32) -> Plan {
        // Linux frees the number even if `close` fails, except with `EBADF`.
        if context.failed_with(sys::EBADF) {
            return Plan::Simulated("calls with a bad descriptor");
        }
        let slot = context.thread.descriptors.borrow_mut().close(number, context.call.entered_ns);
        match slot {
            Some(slot) => closing(std::slice::from_ref(&slot)),
            None => Plan::Simulated(UNKNOWN_DESCRIPTOR),
        }
    }

    fn close_range(&mut self, context: &mut Context) -> Plan {
        let (first, last, flags) =
            (context.arguments.uint(0), context.arguments.uint(1), context.arguments.uint(2));
        if !context.succeeded() {
            return Plan::Simulated(TRACKED);
        }
        if flags & sys::CLOSE_RANGE_UNSHARE != 0 {
            self.processes.unshare_descriptors(context);
        }
        let mut descriptors = context.thread.descriptors.borrow_mut();
        if flags & sys::CLOSE_RANGE_CLOEXEC != 0 {
            descriptors.mark_range(first, last);
            return Plan::Simulated(TRACKED);
        }
        let slots = descriptors.close_range(first, last);
        closing(&slots)
    }

    fn duplicate(
        &mut self,
        context: &mut Context,
        number: i32,
        closes_on_exec: bool,
    ) -> Planned<Plan> {
        let description = self.files.description(context, number)?;
        if context.succeeded() {
            let flags = if closes_on_exec { sys::O_CLOEXEC as u32 } else { 0 };
            context.install(description, flags);
        }
        Ok(Plan::Simulated(TRACKED))
    }

    fn duplicate_onto(&mut self, context: &mut Context, closes_on_exec: bool) -> Planned<Plan> {
        let (old, new) = (context.arguments.descriptor(0), context.arguments.descriptor(1));
        let description = match self.files.description(context, old) {
            Ok(description) => description,
            Err(plan) => {
                // The new object is unknown, but the number no longer has its old meaning.
                context.open_virtual(UNKNOWN_DESCRIPTOR, 0);
                return Err(plan);
            }
        };
        if !context.succeeded() || old == new {
            return Ok(Plan::Simulated(TRACKED));
        }
        let replaced = context
            .thread
            .descriptors
            .borrow_mut()
            .replace(new, Slot { description, closes_on_exec });
        Ok(match replaced {
            Some(slot) => closing(&[slot]),
            None => Plan::Simulated(TRACKED),
        })
    }

    fn pipe(&mut self, context: &mut Context, flags: u32) -> Planned<Plan> {
        let numbers = (
            context.arguments.written_descriptor(0, 0),
            context.arguments.written_descriptor(0, 1),
        );
        let (Some(reader), Some(writer)) = numbers else {
            return Ok(Plan::Simulated("pipes that could not be made"));
        };
        if !context.succeeded() {
            return Ok(Plan::Simulated("pipes that could not be made"));
        }
        let ticket = context.turn.ticket;
        let opened = || {
            if context.simulates_pipes { Opened::Virtual(SHARED_PIPES) } else { Opened::Pipe }
        };
        let ends = [(reader, sys::O_RDONLY), (writer, sys::O_WRONLY)];
        let [reader, writer] = ends.map(|(number, access)| {
            let description = Description::new(opened(), ticket, flags | access as u32);
            let slot = Slot {
                description: description.clone(),
                closes_on_exec: flags & sys::O_CLOEXEC as u32 != 0,
            };
            context.thread.descriptors.borrow_mut().install(number, slot, context.call.returned_ns);
            description
        });
        if context.simulates_pipes {
            return Ok(Plan::Simulated(SHARED_PIPES));
        }
        Ok(Plan::Execute(Action::Pipe {
            reader: reader.handle.clone(),
            writer: writer.handle.clone(),
            flags,
        }))
    }

    fn fcntl(&mut self, context: &mut Context) -> Planned<Plan> {
        let (number, argument) = (context.arguments.descriptor(0), context.arguments.uint(2));
        match context.arguments.uint(1) as i32 {
            sys::F_DUPFD => self.duplicate(context, number, false),
            sys::F_DUPFD_CLOEXEC => self.duplicate(context, number, true),
            sys::F_SETFD => {
                if let Some(slot) = context
                    .thread
                    .descriptors
                    .borrow_mut()
                    .get_mut(number)
                    .filter(|_| context.call.result == 0)
                {
                    slot.closes_on_exec = argument & sys::FD_CLOEXEC as u32 != 0;
                }
                Ok(Plan::Simulated(TRACKED))
            }
            sys::F_GETFD => Ok(Plan::Simulated(TRACKED)),
            command @ (sys::F_GETFL | sys::F_SETFL) => {
                let (description, _) = self.files.file(context, number)?;
                let access =
                    if command == sys::F_GETFL { Access::Share } else { Access::Exclusive };
                description.position_log.borrow_mut().join(
                    access,
                    context.turn.ticket,
                    &mut context.turn.dependencies,
                );
                let handle = description.handle.clone();
                if command == sys::F_GETFL {
                    return Ok(Plan::Execute(Action::GetFlags { handle }));
                }
                if context.succeeded() {
                    description.flags.set(
                        description.flags.get() & sys::O_ACCMODE as u32
                            | argument & !(sys::O_ACCMODE as u32),
                    );
                }
                Ok(Plan::Execute(Action::SetFlags { handle, flags: argument }))
            }
            sys::F_SETLK
            | sys::F_SETLKW
            | sys::F_GETLK
            | sys::F_OFD_GETLK
            | sys::F_OFD_SETLK
            | sys::F_OFD_SETLKW => {
                Ok(Plan::Simulated("locks: calls keep their traced order without"))
            }
            _ => Ok(Plan::Simulated("other commands of fcntl")),
        }
    }
}
