//! Calls that read and write data, and calls about size and position.

use std::cell::RefCell;
use std::rc::Rc;

use libc as sys;
use retake_trace_format::BufferDirection;

use super::files::Files;
use super::{Context, Plan, Planned};
use crate::access::{Access, AccessLog};
use crate::action::{Action, Data, MAXIMUM_TRANSFER, Sync};
use crate::calls::pieces;
use crate::tasks::{Description, Opened};
use crate::world::NodeRef;

/// The argument with the data of every call that reads or writes.
const DATA: u8 = 1;
const WRITTEN: Data = Data { argument: DATA, direction: BufferDirection::Input };

/// Such a call is not repeated: whether it fails again depends on the order of the processes.
const FAILED_ON_PIPES: &str = "reads and writes of pipes that failed";

/// Plans reads, writes, and calls about size and position.
pub(super) struct DataCalls<'plan> {
    pub(super) files: &'plan mut Files,
}

impl DataCalls<'_> {
    pub(super) fn plan(&mut self, context: &mut Context) -> Planned<Plan> {
        match i64::from(context.call.number) {
            sys::SYS_read | sys::SYS_readv => self.read(context, None),
            sys::SYS_pread64 | sys::SYS_preadv | sys::SYS_preadv2 => {
                self.read(context, explicit_offset(context))
            }
            sys::SYS_write | sys::SYS_writev => self.write(context, None),
            sys::SYS_pwrite64 | sys::SYS_pwritev | sys::SYS_pwritev2 => {
                self.write(context, explicit_offset(context))
            }
            sys::SYS_lseek => self.seek(context),
            sys::SYS_ftruncate => self.resize(context),
            sys::SYS_fallocate => self.allocate(context),
            _ => self.flush(context),
        }
    }

    /// The open file that a call reads or writes, and its node. A pipe has no node; the call then
    /// counts as a use of the pipe.
    fn ends(
        &mut self,
        context: &mut Context,
        end: PipeEnd,
    ) -> Planned<(Rc<Description>, Option<NodeRef>)> {
        let description = self.files.description(context, context.arguments.descriptor(0))?;
        let node = match &description.opened {
            Opened::Virtual(reason) => return Err(Plan::Simulated(reason)),
            Opened::Pipe if !context.succeeded() => return Err(Plan::Simulated(FAILED_ON_PIPES)),
            Opened::Pipe => None,
            Opened::Node(node) => Some(node.clone()),
        };
        if node.is_none() {
            use_pipe(&description, end, context);
        }
        Ok((description, node))
    }

    fn read(&mut self, context: &mut Context, offset: Option<u64>) -> Planned<Plan> {
        let (description, node) = self.ends(context, PipeEnd::Reading)?;
        let handle = description.handle.clone();
        let Some(node) = node else {
            return Ok(Plan::Execute(Action::ReadPipe {
                handle,
                requested: requested(context),
                buffers: DATA,
            }));
        };
        let start = start_of(context, &description, offset);
        let bytes = u64::try_from(context.call.result).unwrap_or(0);
        match start {
            Some(start) => {
                let end = start.saturating_add(bytes);
                node.borrow_mut().content.read(
                    start..end,
                    context.turn.ticket,
                    &mut context.turn.dependencies,
                );
                self.files.proofs.prove_read(context, &node, start);
                if offset.is_none() && context.succeeded() {
                    description.position.set(Some(end));
                }
            }
            None => {
                node.borrow_mut().content.whole(context.turn.ticket, &mut context.turn.dependencies)
            }
        }
        Ok(Plan::Execute(Action::Read {
            handle,
            offset,
            requested: requested(context),
            buffers: DATA,
        }))
    }

    fn write(&mut self, context: &mut Context, offset: Option<u64>) -> Planned<Plan> {
        let (description, node) = self.ends(context, PipeEnd::Writing)?;
        let handle = description.handle.clone();
        let Some(node) = node else {
            return Ok(Plan::Execute(Action::WritePipe { handle, data: WRITTEN }));
        };
        let flags = if i64::from(context.call.number) == sys::SYS_pwritev2 {
            context.arguments.uint(5)
        } else {
            0
        };
        let appends = description.flags.get() & sys::O_APPEND as u32 != 0
            || flags & sys::RWF_APPEND as u32 != 0;
        let start = start_of(context, &description, offset);
        let start = if appends { node.borrow().content.size } else { start };
        let bytes = u64::try_from(context.call.result).unwrap_or(0);
        self.files.written(context, &node, start, bytes);
        if offset.is_none() && context.succeeded() {
            description.position.set(start.map(|start| start.saturating_add(bytes)));
        }
        Ok(Plan::Execute(Action::Write {
            handle,
            offset,
            requested: requested(context),
            data: WRITTEN,
            flags,
        }))
    }

    fn seek(&mut self, context: &mut Context) -> Planned<Plan> {
        let (description, node) = self.files.file(context, context.arguments.descriptor(0))?;
        use_position(&description, Access::Exclusive, context);
        let (offset, whence) = (context.arguments.word(1) as i64, context.arguments.uint(2));
        if whence != sys::SEEK_SET as u32 && whence != sys::SEEK_CUR as u32 {
            node.borrow_mut().content.look(context.turn.ticket, &mut context.turn.dependencies);
        }
        if let Ok(position) = u64::try_from(context.call.result) {
            description.position.set(Some(position));
            let is_end = whence == sys::SEEK_END as u32;
            if let Some(size) =
                position.checked_add_signed(offset.wrapping_neg()).filter(|_| is_end)
            {
                self.files.proofs.prove_size(&node, size);
            }
        }
        Ok(Plan::Execute(Action::Seek { handle: description.handle.clone(), offset, whence }))
    }

    fn resize(&mut self, context: &mut Context) -> Planned<Plan> {
        let (description, node) = self.files.file(context, context.arguments.descriptor(0))?;
        let size = context.arguments.word(1);
        self.files.resized(context, &node, size);
        Ok(Plan::Execute(Action::Resize { handle: description.handle.clone(), size }))
    }

    fn allocate(&mut self, context: &mut Context) -> Planned<Plan> {
        let (description, node) = self.files.file(context, context.arguments.descriptor(0))?;
        let (mode, offset, bytes) =
            (context.arguments.uint(1), context.arguments.word(2), context.arguments.word(3));
        self.files.written(context, &node, None, 0);
        let keeps_size = mode & sys::FALLOC_FL_KEEP_SIZE as u32 != 0;
        if let Some(origin) = node.borrow_mut().origin.as_mut().filter(|_| !keeps_size) {
            origin.note_resized(offset.saturating_add(bytes));
        }
        Ok(Plan::Execute(Action::Allocate {
            handle: description.handle.clone(),
            mode,
            offset,
            bytes,
        }))
    }

    fn flush(&mut self, context: &mut Context) -> Planned<Plan> {
        let (description, node) = self.files.file(context, context.arguments.descriptor(0))?;
        let handle = description.handle.clone();
        node.borrow_mut().content.look(context.turn.ticket, &mut context.turn.dependencies);
        let arguments = context.arguments;
        Ok(Plan::Execute(match i64::from(context.call.number) {
            sys::SYS_fsync => Action::Sync { handle, how: Sync::All },
            sys::SYS_syncfs => Action::Sync { handle, how: Sync::FileSystem },
            sys::SYS_fdatasync | sys::SYS_sync_file_range => {
                Action::Sync { handle, how: Sync::Data }
            }
            sys::SYS_fadvise64 => Action::Advise {
                handle,
                offset: arguments.word(1),
                bytes: arguments.word(2),
                advice: arguments.uint(3),
            },
            _ => Action::Advise {
                handle,
                offset: arguments.word(1),
                bytes: arguments.word(2),
                advice: sys::POSIX_FADV_WILLNEED as u32,
            },
        }))
    }
}

/// The offset at which a call begins. A call without an explicit offset gets exclusive use of the
/// file position.
fn start_of(
    context: &mut Context,
    description: &Rc<Description>,
    offset: Option<u64>,
) -> Option<u64> {
    if offset.is_none() {
        use_position(description, Access::Exclusive, context);
    }
    offset.or(description.position.get())
}

/// The end of a pipe that a call uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PipeEnd {
    Reading,
    Writing,
}

/// Logs that a call uses the position of an open file, or moves data through a pipe, whose data
/// have an order.
///
/// A named pipe can be open many times. All writes to it are ordered. A read waits for the
/// processes that had opened the pipe for writing by then, and a later open for writing waits for
/// the read. An end of data in the trace is therefore one in the replay, too.
pub(super) fn use_pipe(description: &Description, end: PipeEnd, context: &mut Context) {
    use_position(description, Access::Exclusive, context);
    let Some(fifo) = description.fifo.get() else { return };
    let turn = &mut context.turn;
    let mut join = |log: &RefCell<AccessLog>, access| {
        log.borrow_mut().join(access, turn.ticket, &mut turn.dependencies)
    };
    match end {
        PipeEnd::Writing => join(&fifo.writes, Access::Exclusive),
        PipeEnd::Reading => {
            join(&fifo.reads, Access::Exclusive);
            join(&fifo.writers, Access::Share);
        }
    }
}

/// Logs the use of an open file's position.
pub(super) fn use_position(description: &Description, access: Access, context: &mut Context) {
    description.position_log.borrow_mut().join(
        access,
        context.turn.ticket,
        &mut context.turn.dependencies,
    );
}

/// The explicit offset of a call. In `preadv2` and `pwritev2`, -1 means the file position.
fn explicit_offset(context: &Context) -> Option<u64> {
    let offset = context.arguments.word(3);
    let may_be_none =
        matches!(i64::from(context.call.number), sys::SYS_preadv2 | sys::SYS_pwritev2);
    (!may_be_none || offset != u64::MAX).then_some(offset)
}

/// The number of bytes that the program asked to move, at most what the kernel moves in one call.
pub(crate) fn requested(context: &Context) -> u64 {
    let requested = match i64::from(context.call.number) {
        sys::SYS_read | sys::SYS_pread64 | sys::SYS_write | sys::SYS_pwrite64 => {
            context.arguments.word(2)
        }
        sys::SYS_readv | sys::SYS_preadv | sys::SYS_preadv2 => vector_bytes(context),
        _ => pieces(context.call, DATA, BufferDirection::Input)
            .map(|piece| piece.total_bytes)
            .fold(0, u64::saturating_add),
    };
    requested.min(MAXIMUM_TRANSFER)
}

/// The sum of the lengths in an array of pieces, or the result if the trace lacks the array.
fn vector_bytes(context: &Context) -> u64 {
    let got = u64::try_from(context.call.result).unwrap_or(0);
    let Some(array) = context.arguments.input(DATA) else {
        return got;
    };
    let lengths = array.data.chunks_exact(16).filter_map(|piece| crate::calls::u64_at(piece, 8));
    lengths.fold(0, u64::saturating_add).max(got)
}
