//! Which chunks make up one function. Compilers move what is seldom executed elsewhere; such a part
//! is jumped to, and jumps back into the middle.

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

/// Compilers make two parts, rarely three.
const MOST_PARTS: usize = 16;

/// The chunks that were read.
pub(crate) struct Groups<'a, 'data> {
    chunks: &'a [Chunk],
    names: &'a Names,
    reader: Reader<'a, 'data>,
    bodies: BTreeMap<usize, Body>,
    /// It is entered by a jump from a function that may call code of the program, and may do so for
    /// it.
    may_call: Vec<bool>,
    /// What it works on, by its name, or because one that does goes on there.
    objects: Vec<Option<Object>>,
    /// For each chunk another one of the same function, or itself.
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

    /// Reads the chunks that should be sections by their names, and the other parts of all that
    /// should be.
    pub fn add_named(&mut self) {
        for index in (0..self.chunks.len()).filter(|index| self.names.wanted[*index]) {
            if !self.bodies.contains_key(&index) {
                self.read(index);
            }
        }
        // One that only goes on elsewhere is no section, but knows its object.
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

    /// Takes note of what functions work on that a function on an object hands over; gives them.
    fn follow_cleanups(&mut self, from: usize) -> Vec<usize> {
        let Some(object) = self.objects[from] else { return Vec::new() };
        let [own, last] = cleanups::objects(object);
        let mut found = Vec::new();
        for cleanup in self.bodies[&from].cleanups.clone() {
            let Some(index) = self.begun(cleanup, own) else { continue };
            found.push(index);
            // Where there are several, they lead to parts of its own, too.
            if let (Some(_), &[target]) = (last, &self.bodies[&index].jumps[..]) {
                found.extend(self.begun(target, last));
            }
        }
        found
    }

    /// The chunk that begins at an address, which works on an object, if any; it is read.
    fn begun(&mut self, address: u64, object: Option<Object>) -> Option<usize> {
        let index = self.chunk_at(address).filter(|at| self.chunks[*at].start == address)?;
        self.objects[index] = self.objects[index].or(object);
        if !self.bodies.contains_key(&index) {
            self.read(index);
        }
        Some(index)
    }

    /// Takes note of a jump from one chunk to another; gives the other if it may be of the same
    /// function.
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
            // Ways get shorter, so that they are short on the whole.
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
            Library::Static => body.has_futex_call,
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
