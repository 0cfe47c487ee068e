//! Comparison of an executed call with the trace.

mod listing;
mod status;

pub use listing::{Entry, Listing, entries};
pub use status::{Compared, Status, status_differences};
