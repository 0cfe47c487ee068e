//! What must have been there before the trace began, and making it.
//!
//! A first pass plans the whole trace without executing anything. Every call that succeeded on
//! something the trace did not make proves that it was there; reads prove bytes, `stat` proves
//! sizes, modes and owners. Bytes go into the files below the root as they are met, so that no more
//! than one call's data is held.

mod folder;
mod links;
mod make;
mod materials;
mod origin;
mod proof;
mod ranges;

pub use materials::{Preparation, Prepared};
pub use origin::Origin;
pub use proof::{Evidence, Proofs};
