//! Calls that move data between descriptors inside the kernel.

use std::rc::Rc;

use libc as sys;
use retake_trace_format::{BufferDirection, moved_argument};

use super::data::{PipeEnd, use_pipe};
use super::files::Files;
use super::{Context, Plan, Planned};
use crate::action::{Action, CloneRange, Data, Transfer};
use crate::calls::{i32_at, pieces, u64_at};
use crate::tasks::{Description, Opened};
use crate::world::NodeRef;

/// `FICLONE` and `FICLONERANGE` of `linux/fs.h`.
const CLONE: u32 = 0x4004_9409;
const CLONE_PART: u32 = 0x4020_940d;

/// Plans calls that move data from one descriptor to another.
pub(super) struct MoveCalls<'plan> {
    pub(super) files: &'plan mut Files,
}

impl MoveCalls<'_> {
    pub(super) fn plan(&mut self, context: &mut Context) -> Planned<Plan> {
        let arguments = context.arguments;
        let offset = |index: u8| arguments.input(index).and_then(|buffer| u64_at(&buffer.data, 0));
        let descriptor = |index| arguments.descriptor(index);
        match i64::from(context.call.number) {
            sys::SYS_sendfile => self.transfer(
                context,
                Transfer::SendFile,
                (descriptor(1), offset(2)),
                (descriptor(0), None),
            ),
            sys::SYS_copy_file_range => self.transfer(
                context,
                Transfer::CopyFileRange,
                (descriptor(0), offset(1)),
                (descriptor(2), offset(3)),
            ),
            sys::SYS_splice => self.transfer(
                context,
                Transfer::Splice,
                (descriptor(0), offset(1)),
                (descriptor(2), offset(3)),
            ),
            sys::SYS_vmsplice => self.vmsplice(context),
            sys::SYS_ioctl => self.ioctl(context),
            _ => self.tee(context),
        }
    }

    fn transfer(
        &mut self,
        context: &mut Context,
        how: Transfer,
        from: (i32, Option<u64>),
        to: (i32, Option<u64>),
    ) -> Planned<Plan> {
        let source = self.files.description(context, from.0)?;
        let destination = self.files.description(context, to.0)?;
        let bytes = u64::try_from(context.call.result).unwrap_or(0);
        for description in [&source, &destination] {
            if let Opened::Virtual(reason) = description.opened {
                return self.half_transfer(
                    context,
                    (&source, from.1),
                    (&destination, to.1),
                    bytes,
                    reason,
                );
            }
        }
        let starts = (from.1.or(source.position.get()), to.1.or(destination.position.get()));
        self.use_source(context, &source, from.1, bytes);
        self.use_destination(context, &destination, to.1, bytes);
        if let (Opened::Node(from), Opened::Node(to), (Some(from_start), Some(to_start))) =
            (&source.opened, &destination.opened, starts)
        {
            self.files.proofs.note_copied(
                from,
                from_start,
                to,
                to_start..to_start.saturating_add(bytes),
            );
            self.prove_moved(context, from, from_start);
        }
        Ok(Plan::Execute(Action::Transfer {
            how,
            from: source.handle.clone(),
            to: destination.handle.clone(),
            from_offset: from.1,
            to_offset: to.1,
            requested: context.arguments.word(if how == Transfer::SendFile { 3 } else { 4 }),
        }))
    }

    /// Plans a transfer with one side that is only simulated. The other side reads or writes the
    /// traced data.
    fn half_transfer(
        &mut self,
        context: &mut Context,
        from: (&Rc<Description>, Option<u64>),
        to: (&Rc<Description>, Option<u64>),
        bytes: u64,
        reason: &'static str,
    ) -> Planned<Plan> {
        if !context.succeeded() || bytes == 0 {
            return Ok(Plan::Simulated(reason));
        }
        if !matches!(to.0.opened, Opened::Virtual(_)) {
            return self.put_moved(context, to, bytes);
        }
        let handle = from.0.handle.clone();
        let buffers = moved(context).argument;
        match &from.0.opened {
            Opened::Node(node) => {
                let start = from.1.or(from.0.position.get());
                self.use_source(context, from.0, from.1, bytes);
                if let Some(start) = start {
                    self.prove_moved(context, node, start);
                }
                Ok(Plan::Execute(Action::Read {
                    handle,
                    offset: from.1,
                    requested: bytes,
                    buffers,
                }))
            }
            Opened::Pipe => {
                use_pipe(from.0, PipeEnd::Reading, context);
                Ok(Plan::Execute(Action::ReadPipe { handle, requested: bytes, buffers }))
            }
            Opened::Virtual(_) => Ok(Plan::Simulated(reason)),
        }
    }

    /// Plans the write of data that came from a simulated descriptor.
    fn put_moved(
        &mut self,
        context: &mut Context,
        to: (&Rc<Description>, Option<u64>),
        bytes: u64,
    ) -> Planned<Plan> {
        if context.call.moved().is_none_or(|moved| (moved.data.len() as u64) < bytes) {
            return Ok(Plan::Skipped(
                "data that came from a simulated descriptor inside the kernel, and are not in the \
                trace",
            ));
        }
        self.use_destination(context, to.0, to.1, bytes);
        let (handle, data) = (to.0.handle.clone(), moved(context));
        Ok(Plan::Execute(match to.0.opened {
            Opened::Pipe => Action::WritePipe { handle, data },
            _ => Action::Write { handle, offset: to.1, requested: bytes, data, flags: 0 },
        }))
    }

    /// Plans `tee`, which leaves the data in the source: only the other pipe changes.
    fn tee(&mut self, context: &mut Context) -> Planned<Plan> {
        let destination = self.files.description(context, context.arguments.descriptor(1))?;
        let bytes = u64::try_from(context.call.result).unwrap_or(0);
        match destination.opened {
            Opened::Virtual(reason) => Err(Plan::Simulated(reason)),
            _ if bytes == 0 => Err(Plan::Simulated("tee that moved nothing")),
            _ => self.put_moved(context, (&destination, None), bytes),
        }
    }

    /// Records data that were moved out of a file as evidence of its content.
    fn prove_moved(&mut self, context: &Context, from: &NodeRef, start: u64) {
        if let Some(moved) = context.call.moved() {
            self.files.proofs.prove_bytes(from, start, &moved.data, 0);
        }
    }

    fn use_source(
        &mut self,
        context: &mut Context,
        source: &Rc<Description>,
        offset: Option<u64>,
        bytes: u64,
    ) {
        if offset.is_none() {
            use_pipe(source, PipeEnd::Reading, context);
        }
        let Opened::Node(node) = &source.opened else {
            return;
        };
        match offset.or(source.position.get()) {
            Some(start) => {
                let end = start.saturating_add(bytes);
                node.borrow_mut().content.read(
                    start..end,
                    context.turn.ticket,
                    &mut context.turn.dependencies,
                );
                self.files.proofs.prove_least_size(node, end);
                if offset.is_none() {
                    source.position.set(Some(end));
                }
            }
            None => {
                node.borrow_mut().content.whole(context.turn.ticket, &mut context.turn.dependencies)
            }
        }
    }

    fn use_destination(
        &mut self,
        context: &mut Context,
        destination: &Rc<Description>,
        offset: Option<u64>,
        bytes: u64,
    ) {
        if offset.is_none() {
            use_pipe(destination, PipeEnd::Writing, context);
        }
        let Opened::Node(node) = &destination.opened else {
            return;
        };
        let start = offset.or(destination.position.get());
        self.files.written(context, node, start, bytes);
        if offset.is_none() {
            destination.position.set(start.map(|start| start.saturating_add(bytes)));
        }
    }

    /// Plans `vmsplice`. On the write end of a pipe the program gives pages, on the read end it
    /// gets data. The trace has the data in both cases.
    fn vmsplice(&mut self, context: &mut Context) -> Planned<Plan> {
        let description = self.files.description(context, context.arguments.descriptor(0))?;
        match description.opened {
            Opened::Virtual(reason) => return Err(Plan::Simulated(reason)),
            Opened::Node(_) => return Err(Plan::Simulated("other uses of vmsplice")),
            Opened::Pipe if !context.succeeded() => {
                return Err(Plan::Simulated("vmsplice that failed"));
            }
            Opened::Pipe => {}
        }
        let is_read = description.flags.get() & sys::O_ACCMODE as u32 == sys::O_RDONLY as u32;
        use_pipe(&description, if is_read { PipeEnd::Reading } else { PipeEnd::Writing }, context);
        let handle = description.handle.clone();
        if is_read {
            return Ok(Plan::Execute(Action::ReadPipe {
                handle,
                requested: context.call.result.unsigned_abs(),
                buffers: 1,
            }));
        }
        // Some tracers copy the pages before the call, others after it.
        let before = pieces(context.call, 1, BufferDirection::Input).next().is_some();
        let direction = if before { BufferDirection::Input } else { BufferDirection::Output };
        Ok(Plan::Execute(Action::WritePipe { handle, data: Data { argument: 1, direction } }))
    }

    fn ioctl(&mut self, context: &mut Context) -> Planned<Plan> {
        let (destination, source, range) = match context.arguments.uint(1) {
            CLONE => (context.arguments.descriptor(0), context.arguments.descriptor(2), None),
            CLONE_PART => {
                let data = &context
                    .arguments
                    .input(2)
                    .ok_or(Plan::Skipped("file clones whose range is not in the trace"))?
                    .data;
                let field = |offset| {
                    u64_at(data, offset)
                        .ok_or(Plan::Skipped("file clones whose range is not in the trace"))
                };
                let source = i32_at(data, 0).unwrap_or(-1);
                let range =
                    CloneRange { from_offset: field(8)?, bytes: field(16)?, to_offset: field(24)? };
                (context.arguments.descriptor(0), source, Some(range))
            }
            _ => return Ok(Plan::Simulated("ioctl: commands to devices and file systems")),
        };
        if !context.succeeded() {
            return Ok(Plan::Simulated("ioctl: commands to devices and file systems"));
        }
        let (source, from) = self.files.file(context, source)?;
        let (destination, to) = self.files.file(context, destination)?;
        from.borrow_mut().content.look(context.turn.ticket, &mut context.turn.dependencies);
        self.files.written(context, &to, None, 0);
        to.borrow_mut().content.size = from.borrow().content.size.filter(|_| range.is_none());
        let copied = range.unwrap_or(CloneRange { from_offset: 0, bytes: 0, to_offset: 0 });
        let bytes = if copied.bytes == 0 { u64::MAX } else { copied.bytes };
        self.files.proofs.note_copied(
            &from,
            copied.from_offset,
            &to,
            copied.to_offset..copied.to_offset.saturating_add(bytes),
        );
        self.prove_moved(context, &from, copied.from_offset);
        Ok(Plan::Execute(Action::Clone {
            from: source.handle.clone(),
            to: destination.handle.clone(),
            range,
        }))
    }
}

/// Where a call that moves data inside the kernel has its data in the trace.
fn moved(context: &Context) -> Data {
    let argument =
        moved_argument(context.call.number, context.arguments.word(1)).unwrap_or_default();
    Data { argument, direction: BufferDirection::Output }
}
