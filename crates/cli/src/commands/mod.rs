//! One file for each command: its options, its help, what it does.

pub mod record;
pub mod replay;
