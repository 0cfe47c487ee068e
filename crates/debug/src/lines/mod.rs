//! Going by source lines: `range` goes forwards through the code of a line, `loops` back to its
//! beginning.

pub(crate) mod loops;
pub(crate) mod range;
