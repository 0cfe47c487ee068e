//! Comparing what a call did now with what the trace says it did.

mod listing;
mod status;

pub use listing::{Entry, Listing, entries};
pub use status::{Compared, Status, status_differences};
