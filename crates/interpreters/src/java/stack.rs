//! The frames of a stack. The rules for a frame depend on what made its code.

use super::Java;
use super::code::{Blob, Kind};
use super::instructions::{depth_while_given_up, depth_while_made};
use crate::language::{Language, Registers, Start, Step};
use retake_python::Frame;
use std::collections::BTreeMap;
use std::ops::Range;

/// The most native frames in a row.
const MOST_STEPS: usize = 4096;
/// The most bytes between the stack pointer and the frame pointer of a stub.
const MOST_FRAME_BYTES: u64 = 64 << 10;
/// Below the frame pointer of an interpreter's frame: the stack pointer of its caller, its method,
/// and the pointer to the instruction.
const INTERPRETED_CALLER: u64 = 8;
const INTERPRETED_METHOD: u64 = 24;
const INTERPRETED_INSTRUCTION: u64 = 64;
/// The same for what native code enters Java through: the registers that it keeps for its caller.
const KEPT: [(&str, u64); 5] = [("rbx", 56), ("r12", 64), ("r13", 72), ("r14", 80), ("r15", 88)];

impl Language for Java<'_> {
    fn code(&self) -> Vec<Range<u64>> {
        self.heaps().into_iter().map(|(_, memory)| memory).collect()
    }

    fn walk(&self, start: Start) -> Vec<Step> {
        let (mut steps, mut here) = (Vec::new(), start);
        while steps.len() < MOST_STEPS {
            let Some(step) = self.step(here) else { break };
            // Stacks grow downwards, so this ends.
            if step.caller.sp <= here.registers.sp {
                break;
            }
            here = Start { registers: step.caller, r13: None };
            steps.push(step);
        }
        steps
    }
}

impl Java<'_> {
    fn step(&self, start: Start) -> Option<Step> {
        let registers = start.registers;
        let blob = self.blob(registers.pc)?;
        let (mut frames, mut kept) = (Vec::new(), BTreeMap::new());
        let caller = match blob.kind {
            Kind::Interpreter => match self.interpreted(start) {
                Some(frame) => {
                    frames.push(frame);
                    self.by_frame_pointer(registers, INTERPRETED_CALLER)?
                }
                None => self.without_frame(registers)?,
            },
            Kind::CallStub => {
                kept.extend(KEPT.into_iter().filter_map(|(name, below)| {
                    let at = registers.fp.checked_sub(below)?;
                    Some((name.to_owned(), self.reader.word(at, 0)?))
                }));
                self.by_frame_pointer(registers, 0)?
            }
            Kind::Method => {
                let (pc, caller) = self.compiled(&blob, start)?;
                frames = self.compiled_frames(&blob, pc);
                caller
            }
            Kind::Stub => self.caller_of_stub(&blob, start)?,
        };
        Some(Step { registers, code: blob.code, name: blob.name, frames, caller, kept })
    }

    /// The frame of the interpreter that the frame pointer points to.
    fn interpreted(&self, start: Start) -> Option<Frame> {
        let fp = start.registers.fp;
        let word_below = |below| self.reader.pointer(fp.checked_sub(below)?, 0);
        if fp < start.registers.sp || word_below(INTERPRETED_CALLER)? <= fp {
            return None;
        }
        let method = word_below(INTERPRETED_METHOD)?;
        // The newest frame has the pointer in a register, except while it calls something.
        let newest = start.r13.and_then(|pointer| self.bci(method, pointer));
        let kept = || word_below(INTERPRETED_INSTRUCTION).and_then(|at| self.bci(method, at));
        self.method(method, newest.or_else(kept))
    }

    /// The caller of a frame that begins with the frame pointer of its caller. The stack pointer of
    /// its caller may be kept below it.
    fn by_frame_pointer(&self, registers: Registers, below: u64) -> Option<Registers> {
        let fp = registers.fp;
        let sp = match below {
            0 => fp.checked_add(16)?,
            _ => self.reader.word(fp.checked_sub(below)?, 0)?,
        };
        Some(Registers { pc: self.reader.word(fp, 8)?, sp, fp: self.reader.word(fp, 0)? })
    }

    /// The caller of code that has not made its frame yet.
    fn without_frame(&self, registers: Registers) -> Option<Registers> {
        let pc = self.reader.word(registers.sp, 0)?;
        self.is_code(pc).then_some(Registers { pc, sp: registers.sp.checked_add(8)?, ..registers })
    }

    fn is_code(&self, pc: u64) -> bool {
        self.heaps().into_iter().any(|(_, memory)| memory.contains(&pc))
    }

    /// The place in a compiled method, and its caller.
    fn compiled(&self, blob: &Blob, start: Start) -> Option<(u64, Registers)> {
        let Registers { pc, sp, .. } = start.registers;
        if start.r13.is_some()
            && let Some(caller) = self.while_incomplete(blob, start.registers)
        {
            return Some((pc, caller));
        }
        let caller = self.by_size(blob, start.registers)?;
        let field = self.layout.compiled.original_pc;
        let original = || {
            let offset = self.reader.half(blob.at, field)?;
            self.reader.pointer(sp, offset.into())
        };
        let is_left = start.r13.is_none() && self.is_deoptimized(blob, pc);
        Some((if is_left { original()? } else { pc }, caller))
    }

    /// The caller of a method whose frame is only partly there.
    fn while_incomplete(&self, blob: &Blob, registers: Registers) -> Option<Registers> {
        let Registers { pc, sp, fp } = registers;
        let entry = self.place(blob, self.layout.compiled.entry)?;
        let complete = self.reader.short(blob.at, self.layout.blob.frame_complete)?;
        let complete = blob.code.checked_add(complete.into())?;
        let is_before = pc < entry;
        let made = depth_while_made(self.reader, entry, pc, complete);
        if let Some(depth) = made.or(is_before.then_some(0)) {
            let at = sp.checked_add(depth)?;
            return Some(Registers { pc: self.reader.word(at, 0)?, sp: at.checked_add(8)?, fp });
        }
        let depth = depth_while_given_up(self.reader, pc)?;
        let at = sp.checked_add(depth)?;
        let fp = if depth == 0 { fp } else { self.reader.word(at.checked_sub(8)?, 0)? };
        Some(Registers { pc: self.reader.word(at, 0)?, sp: at.checked_add(8)?, fp })
    }

    /// The caller of code whose frames all have one size.
    fn by_size(&self, blob: &Blob, registers: Registers) -> Option<Registers> {
        const MOST_WORDS: u32 = 1 << 24;
        const LEAST_WORDS: u32 = 2;
        let words = self.reader.half(blob.at, self.layout.blob.frame_words)?;
        if !(LEAST_WORDS..MOST_WORDS).contains(&words) {
            return None;
        }
        let sp = registers.sp.checked_add(u64::from(words) * 8)?;
        let word = |below| self.reader.word(sp.checked_sub(below)?, 0);
        Some(Registers { pc: word(8)?, sp, fp: word(16)? })
    }

    fn caller_of_stub(&self, blob: &Blob, start: Start) -> Option<Registers> {
        let registers = start.registers;
        if let Some(caller) = self.by_size(blob, registers) {
            return Some(caller);
        }
        let leaf = start.r13.and_then(|_| self.without_frame(registers));
        leaf.or_else(|| {
            let bytes = registers.fp.checked_sub(registers.sp)?;
            (bytes < MOST_FRAME_BYTES).then(|| self.by_frame_pointer(registers, 0)).flatten()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hostile::{Repeated, START, look};
    use crate::java::layout::Layout;
    use crate::java::vm::Tables;
    use crate::java::{JavaError, layout};
    use proptest::prelude::*;
    use retake_python::Reader;

    /// A layout with these offsets, in turn. Variables lie at the beginning.
    fn layout_with(offsets: &[u64], memory: &Repeated) -> Layout {
        let (mut tables, mut offsets) = (Tables::default(), offsets.iter().cycle());
        loop {
            match Layout::of(&tables, Reader(memory)) {
                Ok(layout) => return layout,
                Err(JavaError::Unknown(name)) => {
                    let is_variable = ["_heaps", "Interpreter::", "StubRoutines::"];
                    let is_variable = is_variable.iter().any(|part| name.contains(part));
                    let value = if is_variable { START } else { *offsets.next().unwrap() };
                    tables = tables.with(&name, value);
                }
            }
        }
    }

    #[test]
    fn circles_end() {
        for words in [vec![START], vec![START, START + 8, START + 4096], vec![START, 1 << 40, 0]] {
            let memory = Repeated(words);
            for offsets in [&[0][..], &[0, 8], &[8, 0, 16, 4]] {
                look(&Java::new(&memory, &layout_with(offsets, &memory)), &memory);
            }
        }
    }

    #[test]
    fn memory_without_tables_has_no_machine() {
        let memory = Repeated(vec![0]);
        assert!(layout(&memory, &|_| None).is_none());
        let symbol = crate::language::Symbol { at: START, bytes: 8 };
        assert!(layout(&memory, &|_| Some(symbol)).is_some_and(|layout| layout.is_err()));
        let memory = Repeated(vec![START]);
        assert!(layout(&memory, &|_| Some(symbol)).is_none_or(|layout| layout.is_err()));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn memory_may_contain_anything(
            words in prop::collection::vec(prop_oneof![
                START..START + 64,
                any::<u64>(),
                0_u64..300,
                (0_u64..16).prop_map(|page| START + page * 4096),
            ], 1..24),
            offsets in prop::collection::vec(0_u64..256, 1..24),
        ) {
            let memory = Repeated(words);
            look(&Java::new(&memory, &layout_with(&offsets, &memory)), &memory);
        }
    }
}
