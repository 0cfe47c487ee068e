//! The proofs that each call gives.

use std::rc::Rc;

use libc as sys;

use super::materials::{Facts, Preparation};
use crate::plan::Context;
use crate::verify::{Entry, Status};
use crate::world::{Copied, Directory, Kind, NodeRef, Spot};

/// The number of copies that a proof is followed through.
const MAXIMUM_DEPTH: u32 = 2;

/// What a successful call shows about something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evidence {
    /// It existed.
    Exists,
    /// It was a regular file.
    File,
    /// It was an executable file.
    Executable,
    /// It was a directory.
    Directory,
    /// It was a link with this text.
    Symlink(Vec<u8>),
    /// It was a link with unknown text.
    SomeSymlink,
    /// It was a named pipe.
    Fifo,
    /// It was a socket.
    Socket,
    /// It was a device.
    Device,
}

impl Evidence {
    /// The kind of node that the evidence shows.
    pub fn kind(&self) -> Kind {
        match self {
            // The text of a link may still be read later.
            Self::Exists | Self::Executable | Self::SomeSymlink => Kind::Unknown,
            Self::File => Kind::File,
            Self::Directory => Kind::Directory(Directory::default()),
            Self::Symlink(target) => Kind::Symlink(target.clone()),
            Self::Fifo => Kind::Fifo,
            Self::Socket => Kind::Other,
            Self::Device => Kind::Simulated("devices"),
        }
    }
}

/// Collects proofs about the time before the trace, during a preparation.
#[derive(Debug)]
pub struct Proofs {
    preparation: Option<Preparation>,
}

impl Proofs {
    /// Collects proofs for a preparation, or none without one.
    pub fn new(preparation: Option<Preparation>) -> Self {
        Self { preparation }
    }

    /// Returns the preparation with all proofs.
    pub fn into_preparation(self) -> Option<Preparation> {
        self.preparation
    }

    /// Whether proofs are collected.
    pub fn are_wanted(&self) -> bool {
        self.preparation.is_some()
    }

    /// Records what a call proves about a node that may have existed before the trace.
    pub(crate) fn prove(&mut self, node: &NodeRef, evidence: Evidence) {
        let Some(preparation) = &mut self.preparation else {
            return;
        };
        let node = &mut *node.borrow_mut();
        if let Kind::Unknown = node.kind {
            node.kind = evidence.kind();
        }
        let Some(origin) = &mut node.origin else {
            return;
        };
        if origin.may_be_new && !origin.is_proven {
            return;
        }
        origin.is_proven = true;
        if origin.shown.as_ref() != Some(&evidence) {
            origin.shown = Some(evidence.clone());
            preparation.facts(origin).take_in(evidence);
        }
    }

    /// Records what a failed call proves about a name.
    pub(crate) fn prove_spot(&mut self, spot: &Spot, evidence: Evidence) {
        if self.preparation.is_none() {
            return;
        }
        if let Some(node) = spot.node() {
            return self.prove(node, evidence);
        }
        if spot.is_plain() && matches!(spot.found, crate::world::Found::Unknown) {
            let directory = spot.directory.clone();
            let mut spot = Spot {
                directory,
                name: spot.name.clone(),
                found: crate::world::Found::Unknown,
                wants_directory: false,
            };
            let node = spot.suppose(|| evidence.kind());
            self.prove(&node, evidence);
        }
    }

    /// Records that a name could be made or removed in a directory.
    pub(crate) fn prove_parent(&mut self, context: &Context<'_>, directory: &NodeRef) {
        self.prove(directory, Evidence::Directory);
        let (Some(preparation), Some(identity)) = (&mut self.preparation, &context.thread.identity)
        else {
            return;
        };
        if let Some(origin) = &mut directory.borrow_mut().origin {
            preparation.facts(origin).note_user(identity);
        }
    }

    /// Records the result of a read.
    pub(crate) fn prove_read(&mut self, context: &Context<'_>, node: &NodeRef, start: u64) {
        if self.preparation.is_none() || !context.succeeded() {
            return;
        }
        let mut at = start;
        let mut left = context.call.result.unsigned_abs();
        let pieces =
            crate::calls::pieces(context.call, 1, retake_trace_format::BufferDirection::Output);
        let pieces: Vec<(u64, &[u8])> = pieces
            .map(|piece| {
                let bytes = piece.total_bytes.min(left);
                let data = &piece.data
                    [..piece.data.len().min(usize::try_from(bytes).unwrap_or(usize::MAX))];
                let found = (at, data);
                left -= bytes;
                at = at.saturating_add(bytes);
                found
            })
            .collect();
        pieces.iter().for_each(|(start, data)| self.prove_bytes(node, *start, data, 0));
        self.prove_least_size(node, start.saturating_add(context.call.result.unsigned_abs()));
        if context.call.result == 0 && crate::plan::requested(context) > 0 {
            self.prove_size(node, start);
        }
    }

    /// Records the content of mapped pages.
    pub(crate) fn prove_pages(&mut self, node: &NodeRef, start: u64, data: &[u8]) {
        // The part of a page after the end of its file is zero.
        let end = data.iter().rposition(|byte| *byte != 0).map_or(0, |index| index + 1);
        self.prove_bytes(node, start, &data[..end], 0);
    }

    /// Records bytes that a file had. `depth` is the number of copies that the proof went through.
    pub(crate) fn prove_bytes(&mut self, node: &NodeRef, start: u64, data: &[u8], depth: u32) {
        if self.preparation.is_none() {
            return;
        }
        if depth < MAXIMUM_DEPTH {
            self.prove_copied(node, start, data, depth + 1);
        }
        let Some(preparation) = &mut self.preparation else {
            return;
        };
        let node = &mut *node.borrow_mut();
        let Some(origin) = &mut node.origin else {
            return;
        };
        for range in origin.unsettled(start..start.saturating_add(data.len() as u64)) {
            let part = &data[(range.start - start) as usize..(range.end - start) as usize];
            // Zeros may be a hole in a file that the trace made.
            if origin.is_proven || part.iter().any(|byte| *byte != 0) {
                origin.is_proven = true;
                origin.least_size = origin.least_size.max(range.end);
                preparation.write(origin, range.start, part);
            }
        }
    }

    /// Records bytes read from a copy as bytes of the original.
    fn prove_copied(&mut self, node: &NodeRef, start: u64, data: &[u8], depth: u32) {
        let copies = node.borrow().copies.clone();
        for copied in copies {
            let first = copied.range.start.max(start);
            let end = copied.range.end.min(start.saturating_add(data.len() as u64));
            if first < end && !Rc::ptr_eq(&copied.source, node) {
                let part = &data[(first - start) as usize..(end - start) as usize];
                self.prove_bytes(
                    &copied.source,
                    copied.source_start.saturating_add(first - copied.range.start),
                    part,
                    depth,
                );
            }
        }
    }

    /// Records that a call copied bytes from file to file. The trace does not have these bytes.
    pub(crate) fn note_copied(
        &mut self,
        from: &NodeRef,
        from_start: u64,
        to: &NodeRef,
        range: std::ops::Range<u64>,
    ) {
        const MAXIMUM_COPIES: usize = 256;
        if self.preparation.is_none() || range.is_empty() || Rc::ptr_eq(from, to) {
            return;
        }
        let copies = &mut to.borrow_mut().copies;
        if copies.len() < MAXIMUM_COPIES {
            copies.push(Copied { range, source: from.clone(), source_start: from_start });
        }
    }

    /// Records that a file had at least this size.
    pub(crate) fn prove_least_size(&mut self, node: &NodeRef, size: u64) {
        let Some(preparation) = &mut self.preparation else {
            return;
        };
        let node = &mut *node.borrow_mut();
        if let Some(origin) = node
            .origin
            .as_mut()
            .filter(|origin| origin.is_proven && !origin.size_changed && origin.least_size < size)
        {
            origin.least_size = size;
            preparation.facts(origin).note_least_size(size);
        }
    }

    /// Records that a file had this size, unless the trace changed it before.
    pub(crate) fn prove_size(&mut self, node: &NodeRef, size: u64) {
        let Some(preparation) = &mut self.preparation else {
            return;
        };
        let node = &mut *node.borrow_mut();
        let Some(origin) = node.origin.as_mut().filter(|origin| !origin.size_changed) else {
            return;
        };
        // An empty file may have been made by the trace.
        if origin.is_proven || size > 0 {
            origin.is_proven = true;
            preparation.facts(origin).note_size(size);
        }
    }

    /// Records the result of `stat`.
    pub(crate) fn prove_status(&mut self, context: &Context<'_>, node: &NodeRef, status: &Status) {
        if self.preparation.is_none() || !context.succeeded() {
            return;
        }
        if status.mode & sys::S_IFMT == sys::S_IFREG {
            self.prove_size(node, status.size);
        }
        let node = &mut *node.borrow_mut();
        let (Some(preparation), Some(origin)) = (&mut self.preparation, &mut node.origin) else {
            return;
        };
        if origin.is_proven && !origin.attributes_changed && !origin.has_status {
            origin.has_status = status.mode & sys::S_IFMT != sys::S_IFLNK;
            preparation.facts(origin).note_status(status);
        }
    }

    /// Records a directory entry that was listed.
    pub(crate) fn prove_entry(&mut self, directory: &NodeRef, entry: &Entry) {
        let is_itself = matches!(entry.name.as_slice(), b"." | b"..");
        let was_there = directory.borrow().origin.is_some();
        if is_itself || !was_there {
            return;
        }
        let known = match &directory.borrow().kind {
            Kind::Directory(own) => {
                own.entry(&entry.name).map(|known| (known.node.clone(), known.is_known))
            }
            _ => None,
        };
        let evidence = match entry.kind {
            Some(sys::DT_DIR) => Evidence::Directory,
            Some(sys::DT_LNK) => Evidence::SomeSymlink,
            Some(sys::DT_FIFO) => Evidence::Fifo,
            Some(sys::DT_SOCK) => Evidence::Socket,
            Some(sys::DT_REG) => Evidence::File,
            Some(sys::DT_CHR | sys::DT_BLK) => Evidence::Device,
            _ => Evidence::Exists,
        };
        match known {
            Some((Some(node), _)) => self.prove(&node, evidence),
            Some((None, true)) => {}
            _ => {
                let found = crate::world::Found::Unknown;
                let mut spot = Spot {
                    directory: Rc::clone(directory),
                    name: entry.name.clone(),
                    found,
                    wants_directory: false,
                };
                let node = spot.suppose(|| evidence.kind());
                if let (Some(preparation), Some(origin)) =
                    (&mut self.preparation, &mut node.borrow_mut().origin)
                {
                    origin.is_proven = true;
                    preparation.facts(origin).take_in(evidence);
                }
            }
        }
    }

    /// Records an extended attribute that was read.
    pub(crate) fn prove_attribute(&mut self, node: &NodeRef, name: &[u8], value: &[u8]) {
        let node = &mut *node.borrow_mut();
        let (Some(preparation), Some(origin)) = (&mut self.preparation, &mut node.origin) else {
            return;
        };
        if origin.is_proven && !origin.attributes_changed {
            preparation.facts(origin).note_attribute(name, value);
        }
    }
}

/// Accumulation of evidence.
impl Facts {
    /// Takes in evidence. More specific evidence replaces less specific evidence.
    pub(super) fn take_in(&mut self, evidence: Evidence) {
        let rank = |evidence: &Evidence| match evidence {
            Evidence::Exists => 0,
            Evidence::Executable => 1,
            Evidence::File => 2,
            _ => 3,
        };
        match evidence {
            Evidence::SomeSymlink => {
                self.link.get_or_insert(None);
                return;
            }
            Evidence::Symlink(target) => return self.link = Some(Some(target)),
            _ => self.is_followed = true,
        }
        self.is_executable |= evidence == Evidence::Executable;
        if rank(&evidence) > rank(&self.evidence) {
            self.evidence = evidence;
        }
    }
}
