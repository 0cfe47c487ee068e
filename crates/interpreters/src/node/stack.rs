//! The frames of a stack. All code of V8 has frame pointers.

use super::Node;
use super::object::integer;
use super::positions::Position;
use crate::language::{Language, Registers, Start, Step};
use retake_python::Frame;
use std::collections::BTreeMap;
use std::ops::Range;

/// The most native frames in a row.
const MOST_STEPS: usize = 4096;
/// The most bytes of a frame.
const MOST_FRAME_BYTES: u64 = 16 << 20;
/// Below the frame pointer of what native code enters JavaScript through: the registers that it
/// keeps for its caller.
const KEPT: [(&str, i64); 5] =
    [("r12", -24), ("r13", -32), ("r14", -40), ("r15", -48), ("rbx", -56)];

impl Language for Node<'_> {
    fn code(&self) -> Vec<Range<u64>> {
        self.code.built_in.iter().chain(&self.code.made).cloned().collect()
    }

    fn walk(&self, start: Start) -> Vec<Step> {
        let (mut steps, mut here) = (Vec::new(), start.registers);
        while steps.len() < MOST_STEPS && self.is_code(here.pc) {
            let Some(step) = self.step(here) else { break };
            // Stacks grow downwards, so this ends.
            if step.caller.sp <= here.sp {
                break;
            }
            here = step.caller;
            steps.push(step);
        }
        steps
    }
}

impl Node<'_> {
    fn is_code(&self, pc: u64) -> bool {
        self.is_built_in(pc) || self.code.made.iter().any(|range| range.contains(&pc))
    }

    fn is_built_in(&self, pc: u64) -> bool {
        self.code.built_in.iter().any(|range| range.contains(&pc))
    }

    fn step(&self, registers: Registers) -> Option<Step> {
        let Registers { pc, sp, fp } = registers;
        (fp.checked_sub(sp)? < MOST_FRAME_BYTES).then_some(())?;
        let marker = self.slot(fp, self.layout.frame.context)?;
        let (mut kept, mut frames) = (BTreeMap::new(), Vec::new());
        match kind_of_stub(marker) {
            Some(kind) if self.layout.frame.entry.contains(&kind) => {
                kept.extend(
                    KEPT.into_iter()
                        .filter_map(|(name, at)| Some((name.to_owned(), self.slot(fp, at)?))),
                );
            }
            Some(kind) if kind == self.layout.frame.built_in_exit => {
                const FUNCTION: i64 = 24;
                let function = self.slot(fp, FUNCTION)?;
                let shared = self.word(function, self.layout.shared);
                frames.extend(shared.and_then(|shared| self.function(shared, None)));
            }
            Some(_) => {}
            None => frames = self.frames(pc, fp)?,
        }
        let caller = Registers {
            pc: self.reader.word(fp, 8)?,
            sp: fp.checked_add(16)?,
            fp: self.reader.word(fp, 0)?,
        };
        Some(Step {
            registers,
            code: pc,
            name: if self.is_built_in(pc) { "V8" } else { "JavaScript" }.to_owned(),
            frames,
            caller,
            kept,
        })
    }

    fn slot(&self, fp: u64, offset: i64) -> Option<u64> {
        self.reader.word(fp.checked_add_signed(offset)?, 0)
    }

    /// What a frame of JavaScript executes, the innermost first.
    fn frames(&self, pc: u64, fp: u64) -> Option<Vec<Frame>> {
        let fields = self.layout.frame;
        let function = self.slot(fp, fields.function)?;
        let shared = self.word(function, self.layout.shared)?;
        let bytecode = self.slot(fp, fields.bytecode_array)?;
        // Optimised code has something else in that place.
        let has_bytecode = self.kind(bytecode) == Some(self.layout.types.bytecode);
        let offset = match (has_bytecode, self.is_built_in(pc)) {
            // It counts from the beginning of the object.
            (true, true) => integer(self.slot(fp, fields.bytecode_offset)?)
                .and_then(|offset| (offset + 1).checked_sub(self.layout.bytecode)),
            (true, false) => self.offset_of_compiled(shared, pc),
            (false, _) => None,
        };
        if let Some(offset) = offset {
            let position = self.position(bytecode, offset);
            return Some(vec![self.function(shared, position)?]);
        }
        let inlined = if self.is_built_in(pc) { None } else { self.inlined(function, pc) };
        let frames = inlined.unwrap_or_default().into_iter();
        let frames: Option<Vec<_>> =
            frames.map(|(shared, at)| self.function(shared, Some(at))).collect();
        match frames.filter(|frames| !frames.is_empty()) {
            Some(frames) => Some(frames),
            None => Some(vec![self.function(shared, None)?]),
        }
    }

    /// A frame that executes a function at a position in its script.
    fn function(&self, shared: u64, position: Option<Position>) -> Option<Frame> {
        (self.kind(shared)? == self.layout.types.shared).then_some(())?;
        let name = self.name(shared).filter(|name| !name.contains(char::is_control));
        let script = self.script(shared);
        let file = script.and_then(|script| self.file(script));
        let unnamed = if script.is_some() { "<script>" } else { "<V8>" };
        Some(Frame {
            function: name.unwrap_or_else(|| "<anonymous>".to_owned()),
            file: file.unwrap_or_else(|| unnamed.to_owned()),
            line: script
                .zip(position)
                .and_then(|(script, position)| self.line(script, position.offset)),
            ..Frame::default()
        })
    }
}

/// The kind of a frame that is none of JavaScript. The others have an object in that place.
fn kind_of_stub(marker: u64) -> Option<u64> {
    const MOST_KINDS: u64 = 64;
    let kind = marker >> 1;
    (marker & 1 == 0 && (1..MOST_KINDS).contains(&kind)).then_some(kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hostile::{Repeated, START, look};
    use crate::node::{Code, Layout};
    use proptest::prelude::*;

    fn look_at(words: Vec<u64>) {
        let memory = Repeated(words);
        let layout = Layout::known(START..START + (1 << 20));
        let made = START << 4..START << 5;
        let code = Code {
            built_in: std::iter::once(layout.built_in.clone()).collect(),
            made: std::iter::once(made).collect(),
        };
        look(&Node::new(&memory, layout, code), &memory);
    }

    #[test]
    fn circles_end() {
        for kind in [0_u64, 3, 8, 128, 191, 261, 262] {
            // Everything is an object of this type, and part of itself.
            look_at(vec![START + 1, kind << 32 | START]);
            look_at(vec![START + 1, START + 9, kind << 32, START]);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn memory_may_contain_anything(words in prop::collection::vec(prop_oneof![
            START..START + 64,
            any::<u64>(),
            (0_u64..300).prop_map(|kind| kind << 32),
            (0_u64..64).prop_map(|n| START + n * 8 + 1),
        ], 1..24)) {
            look_at(words);
        }
    }
}
