//! `retake cc` and `retake c++`: run the system's compilers, and keep what they know about
//! instructions that synchronise threads.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;

use clap::Args;
use retake_compiler::{Language, compile};

use crate::failure::{Failure, Result};
use crate::scratch::Scratch;

/// Options of `retake cc` and `retake c++`. All are passed to the compiler.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  retake cc -O2 -pthread -o prog prog.c
  make CC='retake cc' CXX='retake c++'
  cmake -DCMAKE_C_COMPILER='retake;cc' -DCMAKE_CXX_COMPILER='retake;c++' .

Environment:
  RETAKE_CC, RETAKE_CXX  the compiler that is called: gcc and g++, or others of that kind
")]
pub struct Options {
    /// Arguments of the compiler
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

/// Compiles, and exits as the compiler did.
pub fn run(language: Language, options: &Options) -> Result<()> {
    let own_program = std::env::current_exe()
        .map_err(|error| Failure::system("find", "the program that runs", &error))?;
    let scratch = Scratch::create()?;
    let status = compile(language, &own_program, scratch.path(), &options.arguments)
        .map_err(|error| Failure::new(error.to_string()))?;
    // `end` may end the process, and then drops nothing.
    drop(scratch);
    end(status)
}

/// Acts as the assembler that the compiler calls, and exits as the real assembler did.
pub fn assemble() -> Result<()> {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let status = retake_compiler::assemble(&arguments)
        .map_err(|error| Failure::system("call", "the assembler", &error))?;
    end(status)
}

fn end(status: std::process::ExitStatus) -> Result<()> {
    if status.success() {
        return Ok(());
    }
    retake_kernel::signals::end_as(status.into_raw())
}
