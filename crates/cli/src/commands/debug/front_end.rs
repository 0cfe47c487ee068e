//! Whether anybody is left who could give commands: an editor that was killed cannot say that it
//! goes.

use std::io::stdin;
use std::os::fd::AsFd;
use std::os::unix::process::parent_id;

use retake_kernel::process::is_hung_up;

/// Whoever started this command, and gives commands on its standard input.
pub struct FrontEnd {
    parent: u32,
}

impl FrontEnd {
    /// Whoever started us.
    pub fn ours() -> Self {
        Self { parent: parent_id() }
    }

    /// Whether it is gone, and nobody else can give commands either. Who leaves commands in a file,
    /// or none, may well end before they are carried out.
    pub fn is_gone(&self) -> bool {
        parent_id() != self.parent && is_hung_up(stdin().as_fd())
    }
}
