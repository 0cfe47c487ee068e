//! Planning: what each traced call means, what has to be done for it, and what it has to wait for.
//!
//! One thread plans the whole trace, in the order in which the calls took effect. It knows every
//! process, descriptor and path of the trace as the *traced results* tell, so that workers need no
//! tables and no locks: they get open files and places below the root.

mod attributes;
mod data;
mod defer;
mod descriptors;
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

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::{Rc, Weak};

use libc as sys;
use retake_model::table;
use retake_trace_format::{TraceRecord, TracedCall};

use crate::access::{Ticket, add};
use crate::action::{Action, Task};
use crate::calls::Arguments;
use crate::options::Order;
use crate::prepare::Preparation;
use crate::tasks::{Description, Thread, Threads};
use crate::world::{Turn, World};
pub(crate) use data::requested;
use history::History;
use locate::{Located, NO_PATH, REMOVED_DIRECTORY, SHARED_PIPES, UNKNOWN_DESCRIPTOR};
pub use workers::Pool;

/// What became of a call.
#[derive(Debug)]
pub enum Plan {
    /// A worker executes it.
    Execute(Action),
    /// It has no effect on files, or none that can be repeated: its traced result stands. The
    /// reason.
    Simulated(&'static str),
    /// It is left out although it may have had an effect on files. The reason.
    Skipped(&'static str),
}

/// What could be planned, or what becomes of the call if not.
type Planned<T> = Result<T, Plan>;

/// A call while it is planned.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(crate) call: &'a TracedCall,
    pub(crate) arguments: Arguments<'a>,
    pub(crate) thread: Thread,
    pub(crate) turn: Turn,
}

impl Context<'_> {
    pub(crate) fn succeeded(&self) -> bool {
        !self.call.failed()
    }

    fn failed_with(&self, errno: i32) -> bool {
        self.call.result == -i64::from(errno)
    }
}

/// How many calls were not executed, by reason.
pub type Reasons = BTreeMap<&'static str, u64>;

/// Plans a trace.
#[derive(Debug)]
pub struct Planner {
    world: World,
    threads: Threads,
    pool: Pool,
    /// Collects what was there before, when that is what the pass is for.
    pub(crate) preparation: Option<Preparation>,
    /// Sockets that others connect to, by their addresses.
    listeners: HashMap<Vec<u8>, Weak<Description>>,
    /// Descriptors that were sent to nobody knows whom.
    strays: VecDeque<Vec<Rc<Description>>>,
    /// The last call of each process that ended and was not waited for.
    ended: HashMap<u32, Ticket>,
    history: History,
    /// Calls whose result other calls have to explain first.
    held: Vec<TracedCall>,
    /// Pipes are only simulated: threads that would wait for each other may share a worker.
    simulates_pipes: bool,
    /// Calls whose traced result stands.
    pub simulated: Reasons,
    /// Calls that were left out.
    pub skipped: Reasons,
    /// Calls seen.
    pub call_count: u64,
}

impl Planner {
    /// Over a name space, for that many workers at most.
    pub fn new(world: World, workers: u32, order: Order, preparation: Option<Preparation>) -> Self {
        Self {
            world,
            threads: Threads::default(),
            pool: Pool::new(workers),
            preparation,
            listeners: HashMap::new(),
            strays: VecDeque::new(),
            ended: HashMap::new(),
            history: History::new(order),
            held: Vec::new(),
            // One at a time, who reads would keep from running who writes.
            simulates_pipes: order == Order::Strict,
            simulated: Reasons::new(),
            skipped: Reasons::new(),
            call_count: 0,
        }
    }

    /// What was found out about the time before the trace.
    pub fn into_preparation(self) -> Option<Preparation> {
        self.preparation
    }

    /// Plans a record. Tasks come out with the index of their worker, to be executed in this order
    /// by each of them.
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
        let mut turn = Turn::new(self.pool.next_ticket(thread.worker));
        if let Some(maker) =
            self.threads.get_mut(call.thread).and_then(|thread| thread.made_by.take())
        {
            add(&mut turn.dependencies, maker);
        }
        let mut context = Context { call: &call, arguments: Arguments(&call), thread, turn };
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

    /// Counts what is not executed. What waits, or is waited for, has its place among the tasks all
    /// the same.
    fn count(&mut self, plan: Plan, turn: &Turn) -> Option<Action> {
        match plan {
            Plan::Execute(action) => return Some(action),
            Plan::Simulated(reason) => *self.simulated.entry(reason).or_default() += 1,
            Plan::Skipped(reason) => *self.skipped.entry(reason).or_default() += 1,
        }
        (turn.is_used || !turn.dependencies.is_empty()).then_some(Action::Order)
    }

    fn emit(&mut self, worker: u32, mut task: Task, out: &mut Vec<(u32, Task)>) {
        self.history.add(self.pool.next_ticket(worker), &mut task);
        self.pool.reduce(worker, &mut task.dependencies);
        out.push((worker, task));
    }

    fn dispatch(&mut self, context: &mut Context) -> Planned<Plan> {
        match i64::from(context.call.number) {
            sys::SYS_open | sys::SYS_openat | sys::SYS_openat2 | sys::SYS_creat => {
                self.open(context)
            }
            sys::SYS_close
            | sys::SYS_close_range
            | sys::SYS_dup
            | sys::SYS_dup2
            | sys::SYS_dup3
            | sys::SYS_fcntl
            | sys::SYS_pipe
            | sys::SYS_pipe2 => self.descriptors(context),
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
            | sys::SYS_readahead => self.data(context),
            sys::SYS_copy_file_range
            | sys::SYS_sendfile
            | sys::SYS_splice
            | sys::SYS_tee
            | sys::SYS_vmsplice
            | sys::SYS_ioctl => self.move_data(context),
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
            | sys::SYS_getdents64 => self.status(context),
            _ => self.dispatch_others(context),
        }
    }

    /// Calls that are not about the data of files.
    fn dispatch_others(&mut self, context: &mut Context) -> Planned<Plan> {
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
            | sys::SYS_mknodat => self.names(context),
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
            | sys::SYS_fremovexattr => self.attributes(context),
            sys::SYS_socketpair
            | sys::SYS_sendmsg
            | sys::SYS_recvmsg
            | sys::SYS_bind
            | sys::SYS_connect
            | sys::SYS_accept
            | sys::SYS_accept4 => self.sockets(context),
            _ => self.processes(context),
        }
    }
}

/// Calls that are not worth executing whatever they are about.
fn not_repeated(call: &TracedCall) -> Option<Plan> {
    const MACHINE: &str = "failed for want of memory, space or descriptors";
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

/// Whether a call has an end in the trace. `exit` has none.
fn returned(call: &TracedCall) -> bool {
    call.returned_ns != 0
}

/// What the table says a call is called.
pub fn name_of(number: u32) -> &'static str {
    u16::try_from(number).ok().and_then(table::call).map_or("unknown", |call| call.name)
}
