//! In place of tracing from the kernel, where the feature `ebpf` was left out.

use crate::attach::Request;
use crate::live::Observer;
use crate::{Error, Result};
use retake_recording::Metadata;
use std::path::Path;

/// Whether this can work here.
///
/// # Errors
/// That it was left out.
pub fn check() -> Result<()> {
    Err(Error::LeftOut)
}

/// Traces nothing.
///
/// # Errors
/// As [`check`].
pub fn live(_request: &Request, _observer: Observer) -> Result<i32> {
    Err(Error::LeftOut)
}

/// Traces nothing.
///
/// # Errors
/// As [`check`].
pub fn into_spool(_request: &Request, _folder: &Path, _metadata: &Metadata) -> Result<i32> {
    Err(Error::LeftOut)
}
