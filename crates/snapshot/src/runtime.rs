//! The addresses of the runtime, which are the same in every process.

use retake_kernel::shared::{RUNTIME_END, RUNTIME_TEXT};

/// Whether an address belongs to the runtime.
pub fn in_runtime(address: u64) -> bool {
    (RUNTIME_TEXT..RUNTIME_END).contains(&address)
}
