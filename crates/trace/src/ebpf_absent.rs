//! A substitute for tracing from the kernel in builds without the feature `ebpf`.

use crate::attach::Request;
use crate::live::Observer;
use crate::{Error, Result};
use retake_recording::Metadata;
use std::path::Path;

/// Checks whether this kind of tracing works here. It does not.
///
/// # Errors
/// Always: the feature was left out.
pub fn check() -> Result<()> {
    Err(Error::LeftOut)
}

/// Fails.
///
/// # Errors
/// As [`check`].
pub fn live(_request: &Request, _observer: Observer) -> Result<i32> {
    Err(Error::LeftOut)
}

/// Fails.
///
/// # Errors
/// As [`check`].
pub fn into_spool(_request: &Request, _folder: &Path, _metadata: &Metadata) -> Result<i32> {
    Err(Error::LeftOut)
}
