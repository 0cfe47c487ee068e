//! Going along by lines of the source: `range`: forwards through the code of one; `loops`: back to
//! its beginning.

pub(crate) mod loops;
pub(crate) mod range;
