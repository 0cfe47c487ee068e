//! Processes and threads. They are never made, only followed, with their working directories,
//! umasks and users.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use libc as sys;
use retake_model::table::{self, ArgumentKind, Classes, DescriptorEffect, Direction};

use super::files::{Files, Located, closing};
use super::workers::Pool;
use super::{Context, Plan, Planned, returned};
use crate::access::{Ticket, add};
use crate::action::{Action, Identity};
use crate::calls::u64_at;
use crate::prepare::Evidence;
use crate::tasks::{Descriptors, Surroundings, Thread, Threads};
use crate::world::{Base, NodeRef};

const PROCESSES: &str = "processes, threads and signals";
const USERS: &str = "changes of users and groups, which the replay takes on";
const REFUSED: &str = "mounts and other changes to the machine";

/// The processes of the trace.
#[derive(Debug)]
pub(super) struct Processes {
    pub(super) threads: Threads,
    pub(super) pool: Pool,
    /// The last call of each process that ended and was not waited for yet.
    ended: HashMap<u32, Ticket>,
    /// Whether pipes are only simulated, because threads that would wait for each other may share a
    /// worker.
    pub(super) simulates_pipes: bool,
}

impl Processes {
    /// Starts without processes, for at most `workers` workers.
    pub(super) fn new(workers: u32, simulates_pipes: bool) -> Self {
        Self {
            threads: Threads::default(),
            pool: Pool::new(workers),
            ended: HashMap::new(),
            simulates_pipes,
        }
    }

    pub(super) fn plan(&mut self, files: &mut Files, context: &mut Context) -> Planned<Plan> {
        let number = i64::from(context.call.number);
        let succeeded = context.succeeded();
        match number {
            sys::SYS_exit | sys::SYS_exit_group => return Ok(self.exit(context)),
            sys::SYS_chdir | sys::SYS_fchdir | sys::SYS_chroot => {
                return self.enter(files, context);
            }
            sys::SYS_execve | sys::SYS_execveat => return Ok(self.exec(files, context)),
            _ if !succeeded || !returned(context.call) => {}
            sys::SYS_clone | sys::SYS_clone3 | sys::SYS_fork | sys::SYS_vfork => {
                self.clone(context)
            }
            sys::SYS_wait4 | sys::SYS_waitid => return Ok(self.wait(context)),
            sys::SYS_umask => {
                context.thread.surroundings.borrow_mut().umask = context.arguments.uint(0) & 0o777;
                return Ok(Plan::Simulated("masks, working directories and limits"));
            }
            sys::SYS_unshare => self.unshare(context),
            sys::SYS_setuid
            | sys::SYS_setreuid
            | sys::SYS_setresuid
            | sys::SYS_setfsuid
            | sys::SYS_setgid
            | sys::SYS_setregid
            | sys::SYS_setresgid
            | sys::SYS_setfsgid
            | sys::SYS_setgroups => {
                self.change_identity(context);
                return Ok(Plan::Simulated(USERS));
            }
            sys::SYS_mount | sys::SYS_umount2 | sys::SYS_pivot_root | sys::SYS_move_mount => {
                return Ok(self.mount(files, context));
            }
            _ => {}
        }
        Ok(by_table(context))
    }

    /// Returns the thread of a call. An unknown thread is made up, with the root as its directory.
    pub(super) fn thread_of(&mut self, process: u32, id: u32, root: &NodeRef) -> Thread {
        if let Some(thread) = self.threads.get_mut(id) {
            return thread.clone();
        }
        let relative = self.threads.of_process(process).cloned();
        let relative = relative.unwrap_or_else(|| {
            let base = Base { root: root.clone(), current: root.clone() };
            let surroundings = Rc::new(RefCell::new(Surroundings { base, umask: 0o022 }));
            Thread {
                process,
                descriptors: Rc::default(),
                surroundings,
                identity: None,
                worker: 0,
                made_by: None,
            }
        });
        self.add_thread(id, Thread { process, made_by: None, ..relative })
    }

    /// Adds a thread, with a worker of its own if possible.
    fn add_thread(&mut self, id: u32, mut thread: Thread) -> Thread {
        let (worker, is_shared) = self.pool.take();
        thread.worker = worker;
        self.simulates_pipes |= is_shared;
        if let Some(earlier) = self.threads.insert(id, thread.clone()) {
            self.pool.give_back(earlier.worker);
        }
        thread
    }

    fn clone(&mut self, context: &mut Context) {
        let Some(child) = u32::try_from(context.call.result).ok().filter(|child| *child != 0)
        else {
            return;
        };
        let flags = match i64::from(context.call.number) {
            sys::SYS_clone => context.arguments.word(0),
            sys::SYS_clone3 => {
                context.arguments.input(0).and_then(|buffer| u64_at(&buffer.data, 0)).unwrap_or(0)
            }
            _ => 0,
        };
        let has = |flag: i32| flags & flag as u64 != 0;
        let mut thread = context.thread.clone();
        if !has(sys::CLONE_FILES) {
            let own = thread.descriptors.borrow().clone();
            thread.descriptors = Rc::new(RefCell::new(own));
        }
        if !has(sys::CLONE_FS) {
            let own = thread.surroundings.borrow().clone();
            thread.surroundings = Rc::new(RefCell::new(own));
        }
        if !has(sys::CLONE_THREAD) {
            thread.process = child;
            self.ended.remove(&child);
        }
        thread.made_by = Some(context.turn.ticket);
        context.turn.is_used = true;
        self.add_thread(child, thread);
    }

    pub(super) fn unshare_descriptors(&mut self, context: &mut Context) {
        let own = Rc::new(RefCell::new(context.thread.descriptors.borrow().clone()));
        context.thread.descriptors = own.clone();
        if let Some(thread) = self.threads.get_mut(context.call.thread) {
            thread.descriptors = own;
        }
    }

    fn unshare(&mut self, context: &mut Context) {
        let flags = context.arguments.uint(0) as i32;
        if flags & sys::CLONE_FILES != 0 {
            self.unshare_descriptors(context);
        }
        if flags & (sys::CLONE_FS | sys::CLONE_NEWNS | sys::CLONE_NEWUSER) != 0 {
            let own = Rc::new(RefCell::new(context.thread.surroundings.borrow().clone()));
            if let Some(thread) = self.threads.get_mut(context.call.thread) {
                thread.surroundings = own;
            }
        }
    }

    fn exec(&mut self, files: &mut Files, context: &mut Context) -> Plan {
        const REASON: &str = "programs, which are not run";
        if !context.succeeded() || !returned(context.call) {
            return Plan::Simulated(REASON);
        }
        if i64::from(context.call.number) == sys::SYS_execve && files.proofs.are_wanted() {
            // Called only for the evidence that the program existed.
            let _ = files.target(context, (None, Some(0)), 0, Evidence::Executable);
        }
        let process = context.thread.process;
        for id in self.threads.ids_of(process) {
            if id != context.call.thread
                && let Some(thread) = self.threads.remove(id)
            {
                self.pool.give_back(thread.worker);
            }
        }
        if Rc::strong_count(&context.thread.descriptors) > 2 {
            self.unshare_descriptors(context);
        }
        let closed = context.thread.descriptors.borrow_mut().close_on_exec();
        match closing(&closed) {
            Plan::Execute(action) => Plan::Execute(action),
            _ => Plan::Simulated(REASON),
        }
    }

    fn exit(&mut self, context: &mut Context) -> Plan {
        let process = context.thread.process;
        let ends_all = i64::from(context.call.number) == sys::SYS_exit_group;
        let ids = if ends_all { self.threads.ids_of(process) } else { vec![context.call.thread] };
        let released = self.end_threads(&ids);
        if self.threads.of_process(process).is_none() {
            context.turn.is_used = true;
            self.ended.insert(process, context.turn.ticket);
        }
        match released {
            Some(action) => Plan::Execute(action),
            None => Plan::Simulated(PROCESSES),
        }
    }

    /// Forgets threads, and closes descriptor tables without users.
    fn end_threads(&mut self, ids: &[u32]) -> Option<Action> {
        let mut slots = Vec::new();
        for id in ids {
            let Some(thread) = self.threads.remove(*id) else {
                continue;
            };
            self.pool.give_back(thread.worker);
            // The context of the call that ends the threads may hold another reference.
            let others = self
                .threads
                .of_process(thread.process)
                .is_some_and(|other| Rc::ptr_eq(&other.descriptors, &thread.descriptors));
            if !others && Rc::strong_count(&thread.descriptors) <= 2 {
                slots.extend(std::mem::take(&mut *thread.descriptors.borrow_mut()).all().cloned());
            }
        }
        match closing(&slots) {
            Plan::Execute(action) => Some(action),
            _ => None,
        }
    }

    /// Plans a wait. A process that was waited for has ended, even if by a signal.
    fn wait(&mut self, context: &mut Context) -> Plan {
        let is_waitid = i64::from(context.call.number) == sys::SYS_waitid;
        const CHILD_OFFSET: usize = 16;
        let child = match is_waitid {
            true => context
                .arguments
                .output(2)
                .and_then(|info| crate::calls::u32_at(info, CHILD_OFFSET)),
            false => u32::try_from(context.call.result).ok(),
        };
        let Some(child) = child.filter(|child| *child != 0) else {
            return Plan::Simulated(PROCESSES);
        };
        if let Some(last) = self.ended.remove(&child) {
            add(&mut context.turn.dependencies, last);
            return Plan::Simulated(PROCESSES);
        }
        let status = context.arguments.written_descriptor(1, 0).unwrap_or(0);
        let is_over = !is_waitid && (sys::WIFEXITED(status) || sys::WIFSIGNALED(status));
        if !is_over {
            return Plan::Simulated(PROCESSES);
        }
        for id in self.threads.ids_of(child) {
            // Its files are closed only after its last call.
            if let Some(thread) = self.threads.get_mut(id) {
                let last = self.pool.last_ticket(thread.worker);
                add(&mut context.turn.dependencies, last);
            }
        }
        match self.end_threads(&self.threads.ids_of(child)) {
            Some(action) => Plan::Execute(action),
            None => Plan::Simulated(PROCESSES),
        }
    }

    fn enter(&mut self, files: &mut Files, context: &mut Context) -> Planned<Plan> {
        let what = if i64::from(context.call.number) == sys::SYS_fchdir {
            (Some(0), None)
        } else {
            (None, Some(0))
        };
        let (target, node) =
            files.target(context, what, sys::AT_EMPTY_PATH, Evidence::Directory)?;
        if let Some(node) = node.filter(|_| context.succeeded()) {
            let mut surroundings = context.thread.surroundings.borrow_mut();
            if i64::from(context.call.number) == sys::SYS_chroot {
                surroundings.base.root = node;
            } else {
                surroundings.base.current = node;
            }
        }
        Ok(Plan::Execute(Action::Enter { target }))
    }

    /// Marks the tree below a new mount as simulated: the replay has other files there.
    fn mount(&mut self, files: &mut Files, context: &mut Context) -> Plan {
        if i64::from(context.call.number) == sys::SYS_mount {
            let located = files.locate(context, None, 1, true);
            if let Ok(Located { spot: Some(spot), .. }) = located
                && let Some(node) = spot.node()
                && node.borrow().parent.upgrade().is_some()
                && let crate::world::Kind::Directory(directory) = &mut node.borrow_mut().kind
            {
                directory.simulated = Some("files below a mount that the trace made");
            }
        }
        Plan::Skipped(REFUSED)
    }

    fn change_identity(&mut self, context: &mut Context) {
        let Some(identity) = &context.thread.identity else {
            return;
        };
        let mut identity = Identity::clone(identity);
        let arguments = context.arguments;
        let given = |index: usize| Some(arguments.uint(index)).filter(|id| *id != u32::MAX);
        match i64::from(context.call.number) {
            sys::SYS_setuid | sys::SYS_setfsuid => {
                identity.user = given(0).unwrap_or(identity.user)
            }
            sys::SYS_setreuid | sys::SYS_setresuid => {
                identity.user = given(1).unwrap_or(identity.user)
            }
            sys::SYS_setgid | sys::SYS_setfsgid => {
                identity.group = given(0).unwrap_or(identity.group)
            }
            sys::SYS_setregid | sys::SYS_setresgid => {
                identity.group = given(1).unwrap_or(identity.group)
            }
            _ => {
                let groups =
                    arguments.input(1).map(|buffer| buffer.data.as_slice()).unwrap_or_default();
                identity.groups = groups
                    .chunks_exact(4)
                    .filter_map(|bytes| crate::calls::u32_at(bytes, 0))
                    .collect();
            }
        }
        if let Some(thread) = self.threads.get_mut(context.call.thread) {
            thread.identity = Some(Arc::new(identity));
        }
    }

    /// Adds a process whose start the trace shows.
    pub(super) fn new_process(
        &mut self,
        process: u32,
        id: u32,
        surroundings: Surroundings,
        identity: Option<Arc<Identity>>,
    ) -> Thread {
        let descriptors = Rc::new(RefCell::new(Descriptors::default()));
        let surroundings = Rc::new(RefCell::new(surroundings));
        self.add_thread(
            id,
            Thread { process, descriptors, surroundings, identity, worker: 0, made_by: None },
        )
    }
}

/// Plans a call that has no function of its own. The call table tells whether it makes a
/// descriptor, and which class it is in.
fn by_table(context: &mut Context) -> Plan {
    let call = u16::try_from(context.call.number).ok().and_then(table::call);
    let Some(call) = call else {
        return Plan::Skipped("calls that are not in the table");
    };
    let (row, _) = call.resolve(&context.call.arguments);
    let reason = reason_of(row.classes);
    match row.descriptors {
        DescriptorEffect::Makes => context.open_virtual(reason, sys::O_CLOEXEC as u32),
        DescriptorEffect::Unchanged => {}
        _ => return Plan::Skipped("descriptors that the replay cannot follow"),
    }
    let changes_files = row.arguments.iter().any(|argument| match &argument.kind {
        ArgumentKind::Pointer(pointer) => {
            pointer.element == "path" && pointer.direction == Direction::In
        }
        ArgumentKind::Value(_) => false,
    });
    let looks = matches!(
        i64::from(context.call.number),
        sys::SYS_statfs | sys::SYS_name_to_handle_at | sys::SYS_inotify_add_watch
    );
    if changes_files && !looks && context.succeeded() {
        Plan::Skipped(REFUSED)
    } else {
        Plan::Simulated(reason)
    }
}

/// The reason why calls of a class are only simulated.
fn reason_of(classes: Classes) -> &'static str {
    let reasons = [
        (Classes::NETWORK, super::sockets::SOCKETS),
        (Classes::MEMORY, "memory"),
        (Classes::PROCESS, PROCESSES),
        (Classes::SIGNAL, PROCESSES),
        (Classes::CLOCK, "clocks and timers"),
        (Classes::IPC, "communication between processes"),
        (Classes::CREDS, "questions about users and processes"),
    ];
    let found = reasons.iter().find(|(class, _)| classes.intersects(*class));
    found.map_or("other calls without an effect on files", |(_, reason)| reason)
}
