//! The limit for the size of a recording. At the limit the supervisor kills the program from
//! outside, so everything that it did until then is recorded and can be replayed.

use retake_kernel::shared::Header;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// A limit for the bytes of events.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes: u64,
    is_used_up: AtomicBool,
}

impl Budget {
    pub fn new(bytes: u64) -> Self {
        Self { bytes, is_used_up: AtomicBool::new(false) }
    }

    /// Ends all live processes once `kept_bytes` reaches the limit.
    pub fn enforce(&self, kept_bytes: u64, header: &Header) {
        if kept_bytes < self.bytes || self.is_used_up.swap(true, Relaxed) {
            return;
        }
        retake_kernel::tell!(
            "retake: the recording has reached its largest size (--max-size): the program is \
            ended; what was recorded until now is kept, and can be replayed"
        );
        crate::deadline::kill_everything(header);
    }
}
