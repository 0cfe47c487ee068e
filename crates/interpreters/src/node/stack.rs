//! The frames of a stack. All code of V8 has frame pointers.

use super::object::integer;
use super::{NAME, Node};
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
const KEPT: [(&str, i64); 5] = [("r12", -24), ("r13", -32), ("r14", -40), ("r15", -48), ("rbx", -56)];

impl Language for Node<'_> {
    fn name(&self) -> &'static str {
        NAME
    }

    fn code(&self) -> Vec<Range<u64>> {
        std::iter::once(&self.layout.built_in).chain(&self.made).cloned().collect()
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
        self.layout.built_in.contains(&pc) || self.made.iter().any(|range| range.contains(&pc))
    }

    fn step(&self, registers: Registers) -> Option<Step> {
        let Registers { pc, sp, fp } = registers;
        (fp.checked_sub(sp)? < MOST_FRAME_BYTES).then_some(())?;
        let marker = self.slot(fp, self.layout.frame.context)?;
        let mut kept = BTreeMap::new();
        let frame = match kind_of_stub(marker) {
            Some(kind) if self.layout.frame.entry.contains(&kind) => {
                kept.extend(KEPT.into_iter().filter_map(|(name, at)| {
                    Some((name.to_owned(), self.slot(fp, at)?))
                }));
                None
            }
            Some(kind) if kind == self.layout.frame.built_in_exit => {
                const FUNCTION: i64 = 24;
                self.function(self.slot(fp, FUNCTION)?, None)
            }
            Some(_) => None,
            None => Some(self.frame(pc, fp)?),
        };
        let caller = Registers {
            pc: self.reader.word(fp, 8)?,
            sp: fp.checked_add(16)?,
            fp: self.reader.word(fp, 0)?,
        };
        let is_built_in = self.layout.built_in.contains(&pc);
        Some(Step {
            registers,
            code: pc,
            name: if is_built_in { "V8" } else { "JavaScript" }.to_owned(),
            frames: frame.into_iter().collect(),
            caller,
            kept,
        })
    }

    fn slot(&self, fp: u64, offset: i64) -> Option<u64> {
        self.reader.word(fp.checked_add_signed(offset)?, 0)
    }

    /// What a frame of JavaScript executes.
    fn frame(&self, pc: u64, fp: u64) -> Option<Frame> {
        let fields = self.layout.frame;
        let function = self.slot(fp, fields.function)?;
        let shared = self.word(function, self.layout.shared)?;
        let bytecode = self.slot(fp, fields.bytecode_array)?;
        let has_bytecode = || self.kind(bytecode) == Some(self.layout.types.bytecode);
        let position = if self.layout.built_in.contains(&pc) {
            let offset = || {
                // It counts from the beginning of the object.
                let offset = integer(self.slot(fp, fields.bytecode_offset)?)?;
                (offset + 1).checked_sub(self.layout.bytecode)
            };
            has_bytecode().then(offset).flatten().and_then(|at| self.position(bytecode, at))
        } else {
            // Optimised code has something else in that place.
            let offset = || self.offset_of_compiled(shared, pc);
            has_bytecode().then(offset).flatten().and_then(|at| self.position(bytecode, at))
        };
        self.function(function, position)
    }

    /// A frame that executes a function at a position in its script.
    fn function(&self, function: u64, position: Option<u64>) -> Option<Frame> {
        let shared = self.word(function, self.layout.shared)?;
        (self.kind(shared)? == self.layout.types.shared).then_some(())?;
        let name = self.name(shared).filter(|name| !name.contains(char::is_control));
        let script = self.script(shared);
        let file = script.and_then(|script| self.file(script));
        let unnamed = if script.is_some() { "<script>" } else { "<V8>" };
        Some(Frame {
            function: name.unwrap_or_else(|| "<anonymous>".to_owned()),
            file: file.unwrap_or_else(|| unnamed.to_owned()),
            line: script.zip(position).and_then(|(script, position)| self.line(script, position)),
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
    use crate::node::Layout;
    use proptest::prelude::*;

    fn look_at(words: Vec<u64>) {
        let memory = Repeated(words);
        let layout = Layout::known(START..START + (1 << 20));
        let made = START << 4..START << 5;
        look(&Node::new(&memory, layout, vec![made]), &memory);
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
