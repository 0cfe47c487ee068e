//! A signal in an event.

use retake_contract::context::{deferred_signal, fault};
use retake_contract::events::SIGNAL_BEFORE_CALL;

use crate::bytes::read_u64;
use crate::signal::SiginfoRef;

/// A delivered or fatal signal.
#[derive(Debug, Clone, Copy)]
pub struct SignalRef<'log> {
    pub(crate) number: u16,
    pub(crate) flags: u8,
    pub(crate) body: &'log [u8],
}

/// The processor's data about a fault, for the signal frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    pub error_code: u64,
    pub trap_number: u64,
    pub address: u64,
}

impl<'log> SignalRef<'log> {
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Whether the signal came in place of the call that the thread was about to make.
    pub fn before_call(&self) -> bool {
        self.flags & SIGNAL_BEFORE_CALL != 0
    }

    /// Returns the siginfo that the handler saw.
    pub fn siginfo(&self) -> SiginfoRef<'log> {
        // parse_event has checked the length.
        SiginfoRef::new(self.body).expect("the body of a signal event holds a siginfo")
    }

    /// Returns the data about the fault, if they were recorded.
    pub fn fault(&self) -> Option<Fault> {
        let body = self.body.get(deferred_signal::FAULT..deferred_signal::LAYOUT_BYTES)?;
        Some(Fault {
            error_code: read_u64(body, fault::ERROR_CODE),
            trap_number: read_u64(body, fault::TRAP_NUMBER),
            address: read_u64(body, fault::ADDRESS),
        })
    }
}
