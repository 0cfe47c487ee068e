//! Whether anybody is left who could give commands: an editor that was killed cannot say that it
//! goes.

use std::io::stdin;
use std::os::fd::AsFd;
use std::os::unix::process::parent_id;

use retake_kernel::process::is_hung_up;

/// The process that started this command, and gives commands on its standard input.
pub struct FrontEnd {
    parent: u32,
}

impl FrontEnd {
    /// The process that started us.
    pub fn ours() -> Self {
        Self { parent: parent_id() }
    }

    /// Whether it is gone, and no other process can give commands either. One that leaves commands
    /// in a file, or gives none, may well end before they are carried out.
    pub fn is_gone(&self) -> bool {
        parent_id() != self.parent && is_hung_up(stdin().as_fd())
    }
}
