//! `retake completions`: what a shell needs to complete this command's arguments.

use clap::{Args, Command};
use clap_complete::Shell;

use crate::failure::Result;
use crate::output::Output;

/// Options of `retake completions`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  retake completions bash > ~/.local/share/bash-completion/completions/retake
  retake completions zsh > ~/.zfunc/_retake
  retake completions fish > ~/.config/fish/completions/retake.fish
")]
pub struct Options {
    /// Which shell
    shell: Shell,
}

/// Prints the script.
pub fn run(options: &Options, mut command: Command) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut command, "retake", &mut script);
    let mut output = Output::new();
    output.raw(&script)?;
    output.finish()
}
