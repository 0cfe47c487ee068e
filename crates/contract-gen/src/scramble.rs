//! Another order of fields, to show that nobody but the contract knows where they are.

use crate::parse::{Item, Sight};
use crate::{Contract, fnv};

/// Shuffles the fields of all structures but those that files have.
pub fn scramble(contract: &mut Contract, seed: &str) {
    let mut state = fnv(seed.bytes());
    let mut below = |limit: usize| {
        // xorshift64; the state is not zero.
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
    contract.hash ^= state;
}
