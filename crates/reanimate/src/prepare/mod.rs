//! Preparation: finding out which files existed before the trace began, and making them.
//!
//! A first pass plans the whole trace without executing anything. A successful call on something
//! that the trace did not make proves that it existed. Reads prove bytes, and `stat` proves sizes,
//! modes and owners. Bytes are written to the files below the root as they are found, so that only
//! one call's data are held in memory.

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
