//! Where the runtime is in every process.

use retake_kernel::shared::{RUNTIME_END, RUNTIME_TEXT};

/// Whether an address is the runtime's.
pub fn in_runtime(address: u64) -> bool {
    (RUNTIME_TEXT..RUNTIME_END).contains(&address)
}
