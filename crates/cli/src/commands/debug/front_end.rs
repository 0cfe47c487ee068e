//! Finds out whether the process that gives commands still exists. An editor that was killed cannot
//! disconnect.

use std::io::stdin;
use std::os::fd::AsFd;
use std::os::unix::process::parent_id;

use retake_kernel::process::is_hung_up;

/// The process that started this command, and gives commands on its standard input.
pub struct FrontEnd {
    parent: u32,
}

impl FrontEnd {
    /// The parent of this process.
    pub fn ours() -> Self {
        Self { parent: parent_id() }
    }

    /// Whether the parent is gone, and standard input is hung up. A parent that leaves commands in
    /// a file, or gives none, may end before they are executed.
    pub fn is_gone(&self) -> bool {
        parent_id() != self.parent && is_hung_up(stdin().as_fd())
    }
}
