//! The state that a process starts with, and files written through mappings.

use std::rc::Rc;
use std::sync::Arc;

use libc as sys;
use retake_trace_format::{
    BufferDirection, DescriptorKind, MappedPages, ProcessStart, StartDescriptor, TracedBuffer,
    TracedCall,
};

use super::files::Located;
use super::{Context, Planner};
use crate::access::{Access, Ticket};
use crate::action::{Action, Identity, Place, Task};
use crate::prepare::Evidence;
use crate::tasks::{Description, Opened, Slot, Thread};
use crate::world::{Base, Directory, Kind, Resolution, Turn};

const INHERITED: &str =
    "descriptors that are not files: terminals, pipes and sockets from outside the trace";

impl Planner {
    /// Takes in the initial state of a process. Facts that are known already stay.
    pub(super) fn plan_start(&mut self, start: ProcessStart, out: &mut Vec<(u32, Task)>) {
        let call = TracedCall {
            id: start.id,
            process: start.process,
            thread: start.thread,
            entered_ns: start.time_ns,
            returned_ns: start.time_ns,
            number: sys::SYS_openat as u32,
            ..TracedCall::default()
        };
        let thread = match self.processes.threads.get_mut(start.thread) {
            Some(thread) => thread.clone(),
            None => {
                let surroundings = self.files.surroundings_of(&start);
                let identity = Some(Arc::new(identity_of(&start)));
                match self.processes.threads.of_process(start.parent).cloned() {
                    Some(parent) if start.how == retake_trace_format::StartKind::Fork => {
                        let thread = self.processes.new_process(
                            start.process,
                            start.thread,
                            surroundings,
                            identity,
                        );
                        *thread.descriptors.borrow_mut() = parent.descriptors.borrow().clone();
                        thread
                    }
                    _ => self.processes.new_process(
                        start.process,
                        start.thread,
                        surroundings,
                        identity,
                    ),
                }
            }
        };
        if let Some(known) =
            self.processes.threads.get_mut(start.thread).filter(|thread| thread.identity.is_none())
        {
            known.identity = Some(Arc::new(identity_of(&start)));
        }
        let mut opened: Vec<(&StartDescriptor, Rc<Description>)> = Vec::new();
        for descriptor in &start.descriptors {
            let Ok(number) = i32::try_from(descriptor.number) else {
                continue;
            };
            if thread.descriptors.borrow().get(number).is_some() {
                continue;
            }
            let same = opened
                .iter()
                .find(|(other, _)| is_same(other, descriptor))
                .map(|(_, description)| description.clone());
            let description =
                same.unwrap_or_else(|| self.start_descriptor(&call, &thread, descriptor, out));
            opened.push((descriptor, description.clone()));
            let closes_on_exec = descriptor.flags & sys::O_CLOEXEC as u32 != 0;
            thread.descriptors.borrow_mut().install(
                number,
                Slot { description, closes_on_exec },
                start.time_ns,
            );
        }
    }

    /// Takes in a descriptor that a process started with.
    fn start_descriptor(
        &mut self,
        call: &TracedCall,
        thread: &Thread,
        descriptor: &StartDescriptor,
        out: &mut Vec<(u32, Task)>,
    ) -> Rc<Description> {
        let ticket = self.processes.pool.next_ticket(thread.worker);
        let is_file = matches!(descriptor.kind, DescriptorKind::File | DescriptorKind::Directory);
        let is_named =
            descriptor.path.starts_with(b"/") && !descriptor.path.ends_with(b" (deleted)");
        let base =
            Base { root: self.files.world.root.clone(), current: self.files.world.root.clone() };
        let mut turn = Turn::new(ticket);
        let resolution = if is_file && is_named {
            self.files.world.resolve(&base, &descriptor.path, true, &mut turn)
        } else {
            Resolution::Broken
        };
        let Resolution::Spot(mut spot) = resolution else {
            return Description::new(Opened::Virtual(INHERITED), ticket, descriptor.flags);
        };
        let is_directory = descriptor.kind == DescriptorKind::Directory;
        let node = spot.suppose(|| {
            if is_directory { Kind::Directory(Directory::default()) } else { Kind::Unknown }
        });
        self.files
            .proofs
            .prove(&node, if is_directory { Evidence::Directory } else { Evidence::File });
        spot.use_name(Access::Share, &mut turn);
        let Some(directory) = self.files.world.folder_of(&spot.directory) else {
            return Description::new(Opened::Virtual(INHERITED), ticket, descriptor.flags);
        };
        let name = if spot.is_plain() { spot.name.clone() } else { Vec::new() };
        let place = Place { directory, name, follows: true };
        let description = Description::new(Opened::Node(node), ticket, descriptor.flags);
        description.position.set(Some(descriptor.offset));
        let handle = description.handle.clone();
        let action = Action::OpenAtStart {
            place,
            flags: descriptor.flags,
            offset: descriptor.offset,
            handle,
        };
        let task = Task {
            call: call.clone(),
            action,
            dependencies: turn.dependencies,
            identity: thread.identity.clone(),
        };
        self.emit(thread.worker, task, out);
        description
    }

    /// Repeats what a mapping wrote to its file. What the mapping read proves the earlier content.
    pub(super) fn plan_pages(&mut self, pages: MappedPages, out: &mut Vec<(u32, Task)>) {
        self.call_count += 1;
        let call = TracedCall {
            id: pages.id,
            process: pages.process,
            thread: pages.thread,
            entered_ns: pages.time_ns,
            returned_ns: pages.time_ns,
            number: sys::SYS_mmap as u32,
            result: i64::try_from(pages.data.len()).unwrap_or(i64::MAX),
            buffers: vec![TracedBuffer {
                argument: 0,
                direction: if pages.write {
                    BufferDirection::Input
                } else {
                    BufferDirection::Output
                },
                address: pages.address,
                total_bytes: pages.data.len() as u64,
                data: pages.data.into(),
            }],
            ..TracedCall::default()
        };
        let thread = self.thread_of(call.process, call.thread);
        // Pages that were only read get no task, so that no call may wait for them.
        let ticket = if pages.write {
            self.processes.pool.next_ticket(thread.worker)
        } else {
            Ticket::NOBODY
        };
        let turn = Turn::new(ticket);
        let mut context = self.context(&call, thread, turn);
        let located = self.files.locate_path(&mut context, None, &pages.path, true);
        let Ok(Located { place, spot: Some(mut spot) }) = located else {
            *self.skipped.entry("mapped files that the trace does not explain").or_default() += 1;
            let Context { thread, turn, .. } = context;
            let task = Task {
                call,
                action: Action::Order,
                dependencies: turn.dependencies,
                identity: thread.identity.clone(),
            };
            if pages.write {
                self.emit(thread.worker, task, out);
            }
            return;
        };
        self.files.use_spot(&mut context, &spot, Access::Share);
        let node = spot.suppose(|| Kind::File);
        let (start, bytes) = (pages.file_offset, call.result.unsigned_abs());
        if !pages.write {
            self.files.proofs.prove_pages(&node, start, &call.buffers[0].data);
            *self.simulated.entry("reads through mappings").or_default() += 1;
            return;
        }
        self.files.written_through_mapping(&mut context, &node, start, bytes);
        let Context { thread, turn, .. } = context;
        let action = Action::WriteMapped { place, offset: start };
        let task = Task {
            call,
            action,
            dependencies: turn.dependencies,
            identity: thread.identity.clone(),
        };
        self.emit(thread.worker, task, out);
    }
}

/// Whether two descriptors may share an open file description. Only writes through both would show
/// the difference.
fn is_same(left: &StartDescriptor, right: &StartDescriptor) -> bool {
    let flags = |descriptor: &StartDescriptor| descriptor.flags & !(sys::O_CLOEXEC as u32);
    let file =
        |descriptor: &StartDescriptor| (descriptor.kind, descriptor.offset, flags(descriptor));
    left.path == right.path && file(left) == file(right)
}

fn identity_of(start: &ProcessStart) -> Identity {
    let credentials = &start.credentials;
    Identity {
        user: credentials.filesystem_uid,
        group: credentials.filesystem_gid,
        groups: credentials.groups.clone(),
    }
}
