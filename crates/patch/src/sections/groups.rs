//! Grouping of chunks into functions. Compilers move seldom executed code elsewhere. Such a part is
//! entered by a jump, and jumps back into the middle of the function.

use super::Function;
use super::bodies::{Body, Reader};
use super::cleanups;
use super::names::{Library, Names};
use super::objects::Object;
use crate::chunk::Chunk;
use crate::declared::Declared;
use crate::elf::ElfView;
use crate::image::Refusal;
use std::collections::BTreeMap;

/// The most parts of a function. Compilers make two, rarely three.
const MOST_PARTS: usize = 16;

/// The chunks that were read.
pub(crate) struct Groups<'a, 'data> {
    chunks: &'a [Chunk],
    names: &'a Names,
    reader: Reader<'a, 'data>,
    bodies: BTreeMap<usize, Body>,
    /// Whether the chunk may call code of the program, because a function that may do so jumps to
    /// it.
    may_call: Vec<bool>,
    /// The object of the chunk, by its name, or because a function on that object jumps to it.
    objects: Vec<Option<Object>>,
    /// For each chunk, another chunk of the same function, or itself.
    leader: Vec<usize>,
}

impl<'a, 'data> Groups<'a, 'data> {
    pub fn new(
        elf: &'a ElfView<'data>,
        declared: &'a Declared,
        chunks: &'a [Chunk],
        names: &'a Names,
    ) -> Self {
        let leader = (0..chunks.len()).collect();
        Self {
            chunks,
            names,
            reader: Reader::new(elf, declared),
            bodies: BTreeMap::new(),
            may_call: names.may_call.clone(),
            objects: names.objects.clone(),
            leader,
        }
    }

    /// Reads a chunk.
    pub fn read(&mut self, index: usize) {
        let body = self.reader.read(&self.chunks[index]);
        self.bodies.insert(index, body);
    }

    /// Reads the chunks that are sections by their names, and the other parts of all functions that
    /// should be sections.
    pub fn add_named(&mut self) {
        for index in (0..self.chunks.len()).filter(|index| self.names.wanted[*index]) {
            if !self.bodies.contains_key(&index) {
                self.read(index);
            }
        }
        // A chunk that only jumps on is no section, but it passes its object on.
        let is_known = |index: &usize| self.is_wanted(*index) || self.objects[*index].is_some();
        let mut queue: Vec<usize> = self.bodies.keys().copied().filter(is_known).collect();
        let mut queued = vec![false; self.chunks.len()];
        queue.iter().for_each(|index| queued[*index] = true);
        while let Some(index) = queue.pop() {
            let mut reached = self.follow_cleanups(index);
            for target in self.bodies[&index].jumps.clone() {
                reached.extend(self.follow(index, target));
            }
            queue.extend(
                reached.into_iter().filter(|to| !std::mem::replace(&mut queued[*to], true)),
            );
        }
    }

    /// Sets the objects of the cleanup functions that a function on an object registers. Returns
    /// their chunks.
    fn follow_cleanups(&mut self, from: usize) -> Vec<usize> {
        let Some(object) = self.objects[from] else { return Vec::new() };
        let [own, last] = cleanups::objects(object);
        let mut found = Vec::new();
        for cleanup in self.bodies[&from].cleanups.clone() {
            let Some(index) = self.begun(cleanup, own) else { continue };
            found.push(index);
            // If there are several jumps, they also lead to parts of the cleanup function itself.
            if let (Some(_), &[target]) = (last, &self.bodies[&index].jumps[..]) {
                found.extend(self.begun(target, last));
            }
        }
        found
    }

    /// Reads the chunk that begins at an address, and sets its object, if there is one.
    fn begun(&mut self, address: u64, object: Option<Object>) -> Option<usize> {
        let index = self.chunk_at(address).filter(|at| self.chunks[*at].start == address)?;
        self.objects[index] = self.objects[index].or(object);
        if !self.bodies.contains_key(&index) {
            self.read(index);
        }
        Some(index)
    }

    /// Follows a jump from one chunk to another. Returns the other chunk if it may belong to the
    /// same function.
    fn follow(&mut self, from: usize, target: u64) -> Option<usize> {
        let to = self.chunk_at(target)?;
        let to_start = self.chunks[to].start == target;
        if to_start && self.names.named[to] || self.reader.is_link_stub(target) {
            return None;
        }
        if !to_start {
            self.join(from, to);
        }
        self.may_call[to] |= self.may_call[from];
        self.objects[to] = self.objects[to].or(self.objects[from]);
        if !self.bodies.contains_key(&to) {
            self.read(to);
        }
        Some(to)
    }

    fn chunk_at(&self, address: u64) -> Option<usize> {
        let index = self.chunks.partition_point(|chunk| chunk.start <= address).checked_sub(1)?;
        (address < self.chunks[index].end).then_some(index)
    }

    /// The first chunk of the function.
    fn leader_of(&mut self, mut index: usize) -> usize {
        while self.leader[index] != index {
            // Shortens the path, so that paths stay short.
            self.leader[index] = self.leader[self.leader[index]];
            index = self.leader[index];
        }
        index
    }

    fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.leader_of(one), self.leader_of(other));
        self.leader[one.max(other)] = one.min(other);
    }

    /// Whether the chunk makes its function a section.
    fn is_wanted(&self, index: usize) -> bool {
        let body = &self.bodies[&index];
        let synchronises = match self.names.library {
            Library::C => body.has_futex_call || !body.atomics.is_empty(),
            Library::Static => {
                body.has_futex_call || self.names.of_library[index] && !body.atomics.is_empty()
            }
            Library::Linker | Library::Other => false,
        };
        let by_name = (self.names.wanted[index] || self.may_call[index]) && !body.is_idle;
        !self.names.unwanted[index] && (by_name || synchronises)
    }

    /// All atomic instructions, ascending.
    pub fn atomics(&self) -> Vec<u64> {
        self.bodies
            .values()
            .filter(|body| body.is_clean)
            .flat_map(|body| &body.atomics)
            .copied()
            .collect()
    }

    /// The functions that should be sections.
    pub fn functions(&mut self) -> Vec<Function> {
        let mut parts: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let read: Vec<usize> = self.bodies.keys().copied().collect();
        for index in read {
            parts.entry(self.leader_of(index)).or_default().push(index);
        }
        let wanted =
            parts.into_values().filter(|chunks| chunks.iter().any(|index| self.is_wanted(*index)));
        wanted
            .map(|chunks| Function {
                object: chunks.iter().find_map(|index| self.objects[*index]),
                refusal: self.refusal(&chunks),
                chunks,
            })
            .collect()
    }

    fn refusal(&self, chunks: &[usize]) -> Option<Refusal> {
        let any =
            |test: &dyn Fn(&Body) -> bool| chunks.iter().any(|index| test(&self.bodies[index]));
        let may_call = chunks.iter().any(|index| self.may_call[*index]);
        if any(&|body| !body.is_clean) {
            Some(Refusal::SuspectFunction)
        } else if chunks.len() > MOST_PARTS || any(&|body| body.leaves_oddly) {
            Some(Refusal::NoExit)
        } else {
            (any(&|body| body.calls_anything) && !may_call).then_some(Refusal::IndirectCall)
        }
    }
}
