//! Changes the order of fields, to show that only the contract depends on it.

use crate::parse::{Item, Sight};
use crate::{Contract, fnv};

/// Shuffles the fields of all structures that are not in files.
pub fn scramble(contract: &mut Contract, seed: &str) {
    let mut state = fnv(seed.bytes());
    let mut below = |limit: usize| {
        // This is xorshift64, whose state must not be zero.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % limit as u64) as usize
    };
    for item in contract.files.iter_mut().flat_map(|file| &mut file.items) {
        let Item::Structure(structure) = item else { continue };
        if structure.sight != Sight::Format {
            for last in (1..structure.fields.len()).rev() {
                structure.fields.swap(last, below(last + 1));
            }
        }
    }
}
