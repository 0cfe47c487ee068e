//! `retake completions`: prints the script with which a shell completes this command's arguments.

use clap::Args;
use clap_complete::Shell;
use clap_complete::env::Shells;

use crate::completion;
use crate::failure::{Failure, Result};
use crate::output::Output;

/// Options of `retake completions`.
#[derive(Debug, Args)]
#[command(after_help = "\
The script asks retake itself each time, so it also completes the names of recordings.

Examples:
  retake completions bash > ~/.local/share/bash-completion/completions/retake
  retake completions zsh > ~/.zfunc/_retake
  retake completions fish > ~/.config/fish/completions/retake.fish
")]
pub struct Options {
    /// The shell
    shell: Shell,
}

/// Prints the script.
pub fn run(options: &Options) -> Result<()> {
    let shells = Shells::builtins();
    let name = options.shell.to_string();
    let shell = shells
        .completer(&name)
        .ok_or_else(|| Failure::new(format!("retake has no completions for {name}")))?;
    let mut script = Vec::new();
    shell
        .write_registration(completion::VARIABLE, "retake", "retake", "retake", &mut script)
        .map_err(|error| Failure::system("make", "the script", &error))?;
    let mut output = Output::new();
    output.raw(&script)?;
    output.finish()
}
