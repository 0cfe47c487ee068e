//! The parts of the program driver.

pub mod compile;
pub mod directives;
pub mod folders;
pub mod modes;
pub mod run;
