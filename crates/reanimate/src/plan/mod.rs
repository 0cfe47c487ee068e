//! Planning: what each traced call means, what a worker has to do for it, and which calls it has to
//! wait for.
//!
//! One thread plans the whole trace, in the order in which the calls took effect. It follows every
//! process, descriptor and path by the *traced results*. Workers therefore need no tables and no
//! locks: they get open files and places below the root.

mod attributes;
mod data;
mod defer;
mod descriptors;
mod files;
mod history;
mod locate;
mod move_data;
mod names;
mod open;
mod processes;
mod sockets;
mod start;
mod status;
mod workers;

use std::collections::BTreeMap;

use libc as sys;
use retake_model::table;
use retake_trace_format::{TraceRecord, TracedCall};

use crate::access::add;
use crate::action::{Action, Task};
use crate::calls::Arguments;
use crate::options::Order;
use crate::prepare::{Preparation, Proofs};
use crate::tasks::Thread;
use crate::world::{Turn, World};
use attributes::AttributeCalls;
use data::DataCalls;
pub(crate) use data::requested;
use descriptors::DescriptorCalls;
use files::Files;
use history::History;
use move_data::MoveCalls;
use names::NameCalls;
use open::OpenCalls;
use processes::Processes;
use sockets::Sockets;
use status::StatusCalls;

/// The decision about a call.
#[derive(Debug)]
pub enum Plan {
    /// A worker executes it.
    Execute(Action),
    /// The call has no effect on files, or none that can be repeated, for this reason. Its traced
    /// result stands.
    Simulated(&'static str),
    /// The call is left out, for this reason, although it may have had an effect on files.
    Skipped(&'static str),
}

/// The result of a planning step, or the plan for a call whose planning ended early.
type Planned<T> = Result<T, Plan>;

/// A call that is being planned.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(crate) call: &'a TracedCall,
    pub(crate) arguments: Arguments<'a>,
    pub(crate) thread: Thread,
    pub(crate) turn: Turn,
    /// Whether pipes are only simulated.
    simulates_pipes: bool,
}

impl Context<'_> {
    pub(crate) fn succeeded(&self) -> bool {
        !self.call.failed()
    }

    fn failed_with(&self, errno: i32) -> bool {
        self.call.result == -i64::from(errno)
    }
}

/// The numbers of calls that were not executed, by reason.
pub type Reasons = BTreeMap<&'static str, u64>;

/// Plans a trace.
#[derive(Debug)]
pub struct Planner {
    files: Files,
    processes: Processes,
    sockets: Sockets,
    history: History,
    /// Calls held back until other calls explain their results.
    held: Vec<TracedCall>,
    /// Calls whose traced result stands, by reason.
    pub simulated: Reasons,
    /// Calls that were left out, by reason.
    pub skipped: Reasons,
    /// Calls seen.
    pub call_count: u64,
}

impl Planner {
    /// Makes a planner on a name space, with at most `workers` workers.
    pub fn new(world: World, workers: u32, order: Order, preparation: Option<Preparation>) -> Self {
        // If calls run one at a time, a waiting reader would block the writer.
        let simulates_pipes = order == Order::Strict;
        Self {
            files: Files { world, proofs: Proofs::new(preparation) },
            processes: Processes::new(workers, simulates_pipes),
            sockets: Sockets::default(),
            history: History::new(order),
            held: Vec::new(),
            simulated: Reasons::new(),
            skipped: Reasons::new(),
            call_count: 0,
        }
    }

    /// Returns what was found out about the time before the trace.
    pub fn into_preparation(self) -> Option<Preparation> {
        self.files.proofs.into_preparation()
    }

    /// Plans a record. Each task comes with the index of its worker, which executes its tasks in
    /// this order.
    fn plan_now(&mut self, record: TraceRecord, out: &mut Vec<(u32, Task)>) {
        match record {
            TraceRecord::Call(call) => self.plan_call(call, out),
            TraceRecord::ProcessStart(start) => self.plan_start(*start, out),
            TraceRecord::MappedPages(pages) => self.plan_pages(pages, out),
            TraceRecord::Incomplete(_) => {}
        }
    }

    fn plan_call(&mut self, call: TracedCall, out: &mut Vec<(u32, Task)>) {
        self.call_count += 1;
        let thread = self.thread_of(call.process, call.thread);
        let mut turn = Turn::new(self.processes.pool.next_ticket(thread.worker));
        if let Some(maker) =
            self.processes.threads.get_mut(call.thread).and_then(|thread| thread.made_by.take())
        {
            add(&mut turn.dependencies, maker);
        }
        let mut context = self.context(&call, thread, turn);
        let plan = match not_repeated(&call) {
            Some(plan) => plan,
            None => self.dispatch(&mut context).unwrap_or_else(|plan| plan),
        };
        let Context { thread, turn, .. } = context;
        let action = self.count(plan, &turn);
        if let Some(action) = action {
            self.emit(
                thread.worker,
                Task { call, action, dependencies: turn.dependencies, identity: thread.identity },
                out,
            );
        }
    }

    /// Returns the thread of a call.
    fn thread_of(&mut self, process: u32, thread: u32) -> Thread {
        self.processes.thread_of(process, thread, &self.files.world.root)
    }

    /// Makes the context of a call.
    fn context<'a>(&self, call: &'a TracedCall, thread: Thread, turn: Turn) -> Context<'a> {
        let simulates_pipes = self.processes.simulates_pipes;
        Context { call, arguments: Arguments(call), thread, turn, simulates_pipes }
    }

    /// Counts a call that is not executed. If it waits for calls, or others may wait for it, it
    /// still gets a task that keeps the order.
    fn count(&mut self, plan: Plan, turn: &Turn) -> Option<Action> {
        match plan {
            Plan::Execute(action) => return Some(action),
            Plan::Simulated(reason) => *self.simulated.entry(reason).or_default() += 1,
            Plan::Skipped(reason) => *self.skipped.entry(reason).or_default() += 1,
        }
        (turn.is_used || !turn.dependencies.is_empty()).then_some(Action::Order)
    }

    fn emit(&mut self, worker: u32, mut task: Task, out: &mut Vec<(u32, Task)>) {
        self.history.add(self.processes.pool.next_ticket(worker), &mut task);
        self.processes.pool.reduce(worker, &mut task.dependencies);
        out.push((worker, task));
    }

    fn dispatch(&mut self, context: &mut Context) -> Planned<Plan> {
        let files = &mut self.files;
        match i64::from(context.call.number) {
            sys::SYS_open | sys::SYS_openat | sys::SYS_openat2 | sys::SYS_creat => {
                OpenCalls { files }.plan(context)
            }
            sys::SYS_close
            | sys::SYS_close_range
            | sys::SYS_dup
            | sys::SYS_dup2
            | sys::SYS_dup3
            | sys::SYS_fcntl
            | sys::SYS_pipe
            | sys::SYS_pipe2 => {
                DescriptorCalls { files, processes: &mut self.processes }.plan(context)
            }
            sys::SYS_read
            | sys::SYS_pread64
            | sys::SYS_readv
            | sys::SYS_preadv
            | sys::SYS_preadv2
            | sys::SYS_write
            | sys::SYS_pwrite64
            | sys::SYS_writev
            | sys::SYS_pwritev
            | sys::SYS_pwritev2
            | sys::SYS_lseek
            | sys::SYS_ftruncate
            | sys::SYS_fallocate
            | sys::SYS_fsync
            | sys::SYS_fdatasync
            | sys::SYS_sync_file_range
            | sys::SYS_syncfs
            | sys::SYS_fadvise64
            | sys::SYS_readahead => DataCalls { files }.plan(context),
            sys::SYS_copy_file_range
            | sys::SYS_sendfile
            | sys::SYS_splice
            | sys::SYS_tee
            | sys::SYS_vmsplice
            | sys::SYS_ioctl => MoveCalls { files }.plan(context),
            sys::SYS_stat
            | sys::SYS_lstat
            | sys::SYS_fstat
            | sys::SYS_newfstatat
            | sys::SYS_statx
            | sys::SYS_access
            | sys::SYS_faccessat
            | sys::SYS_faccessat2
            | sys::SYS_readlink
            | sys::SYS_readlinkat
            | sys::SYS_getdents
            | sys::SYS_getdents64 => StatusCalls { files }.plan(context),
            _ => self.dispatch_others(context),
        }
    }

    /// Plans calls that are not about the data of files.
    fn dispatch_others(&mut self, context: &mut Context) -> Planned<Plan> {
        let files = &mut self.files;
        match i64::from(context.call.number) {
            sys::SYS_mkdir
            | sys::SYS_mkdirat
            | sys::SYS_rmdir
            | sys::SYS_unlink
            | sys::SYS_unlinkat
            | sys::SYS_rename
            | sys::SYS_renameat
            | sys::SYS_renameat2
            | sys::SYS_link
            | sys::SYS_linkat
            | sys::SYS_symlink
            | sys::SYS_symlinkat
            | sys::SYS_mknod
            | sys::SYS_mknodat => NameCalls { files }.plan(context),
            sys::SYS_chmod
            | sys::SYS_fchmod
            | sys::SYS_fchmodat
            | sys::SYS_fchmodat2
            | sys::SYS_chown
            | sys::SYS_lchown
            | sys::SYS_fchown
            | sys::SYS_fchownat
            | sys::SYS_utime
            | sys::SYS_utimes
            | sys::SYS_futimesat
            | sys::SYS_utimensat
            | sys::SYS_truncate
            | sys::SYS_setxattr
            | sys::SYS_lsetxattr
            | sys::SYS_fsetxattr
            | sys::SYS_getxattr
            | sys::SYS_lgetxattr
            | sys::SYS_fgetxattr
            | sys::SYS_listxattr
            | sys::SYS_llistxattr
            | sys::SYS_flistxattr
            | sys::SYS_removexattr
            | sys::SYS_lremovexattr
            | sys::SYS_fremovexattr => AttributeCalls { files }.plan(context),
            sys::SYS_socketpair
            | sys::SYS_sendmsg
            | sys::SYS_recvmsg
            | sys::SYS_bind
            | sys::SYS_connect
            | sys::SYS_accept
            | sys::SYS_accept4 => self.sockets.plan(files, context),
            _ => self.processes.plan(files, context),
        }
    }
}

/// Returns a plan for calls that failed in ways that are not worth repeating.
fn not_repeated(call: &TracedCall) -> Option<Plan> {
    const MACHINE: &str = "failed for lack of memory, space or descriptors";
    let reason = match call.errno()? as i32 {
        sys::EINTR | sys::EAGAIN | 512..=516 => "interrupted, or would have waited",
        sys::EFAULT => "given bad addresses",
        sys::ENOSYS => "not known to the traced kernel",
        sys::ENOSPC
        | sys::EDQUOT
        | sys::EIO
        | sys::ENOMEM
        | sys::EMFILE
        | sys::ENFILE
        | sys::ETXTBSY => MACHINE,
        _ => return None,
    };
    Some(Plan::Simulated(reason))
}

/// Whether a call returned. `exit` does not.
fn returned(call: &TracedCall) -> bool {
    call.returned_ns != 0
}

/// The name of a call in the table.
pub fn name_of(number: u32) -> &'static str {
    u16::try_from(number).ok().and_then(table::call).map_or("unknown", |call| call.name)
}
