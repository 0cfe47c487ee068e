//! Memory for tests: a few words, repeated everywhere.

use crate::language::{Language, Registers, Start};
use retake_python::Memory;
use retake_testing::repeated;

/// Where the tests begin to look.
pub const START: u64 = 0x10000;

/// Memory that repeats these words.
#[derive(Debug)]
pub struct Repeated(pub Vec<u64>);

impl Memory for Repeated {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        repeated::read(&self.0, address, bytes)
    }
}

/// Follows stacks from all the words of a memory. Each comes to an end, and grows.
pub fn look(language: &dyn Language, memory: &Repeated) {
    assert!(language.code().len() < 100);
    for pc in memory.0.iter().copied().chain([START]) {
        for sp in memory.0.iter().copied().chain([START]) {
            for r13 in [None, Some(pc)] {
                let registers = Registers { pc, sp, fp: sp.saturating_add(8) };
                let steps = language.walk(Start { registers, r13 });
                assert!(steps.iter().all(|step| step.caller.sp > step.registers.sp));
            }
        }
    }
}
