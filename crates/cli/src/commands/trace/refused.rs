//! The options of strace that retake does not have. Using one fails with a suggestion.

use clap::Args;

use crate::failure::{Failure, Result};

/// Options of strace that are understood, and refused.
#[derive(Debug, Args)]
#[group(skip)]
pub struct Options {
    #[arg(short = 'b', long = "detach-on", value_name = "CALL", hide = true)]
    detach_on: Option<String>,

    #[arg(short = 'D', long = "daemonize", hide = true, action = clap::ArgAction::Count)]
    daemonize: u8,

    #[arg(short = 'i', long = "instruction-pointer", hide = true)]
    instruction_pointer: bool,

    #[arg(short = 'I', long = "interruptible", value_name = "WHEN", hide = true)]
    interruptible: Option<String>,

    #[arg(short = 'k', long = "stack-traces", alias = "stack-trace", hide = true)]
    stack_traces: bool,

    #[arg(short = 'O', long = "summary-syscall-overhead", value_name = "OVERHEAD", hide = true)]
    overhead: Option<String>,

    #[arg(short = 'u', long = "user", value_name = "NAME", hide = true)]
    user: Option<String>,

    #[arg(short = 'X', long = "const-print-style", value_name = "FORMAT", hide = true)]
    const_print_style: Option<String>,

    #[arg(short = 'Y', long = "decode-pids", hide = true)]
    decode_pids: bool,

    #[arg(long = "seccomp-bpf", hide = true)]
    seccomp_bpf: bool,
}

impl Options {
    /// Checks that no refused option is used.
    ///
    /// # Errors
    /// A refused option is used.
    pub fn check(&self) -> Result<()> {
        match self.refusals().iter().find(|refusal| refusal.0) {
            Some((_, option, why, instead)) => {
                Err(Failure::new(format!("strace's option {option} is not supported: {why}"))
                    .attempt(*instead))
            }
            None => Ok(()),
        }
    }

    /// For each option: whether it is used, its name, why it is refused, and what to do instead.
    fn refusals(&self) -> [(bool, &'static str, &'static str, &'static str); 10] {
        let has_style = self.const_print_style.as_ref().is_some_and(|style| style != "abbrev");
        [
            (
                self.detach_on.is_some(),
                "-b",
                "programs are traced to their end",
                "-e '!execve', which leaves out the calls themselves",
            ),
            (
                self.daemonize > 0,
                "-D",
                "the tracer is always the parent",
                "retake trace -p PID, from another terminal",
            ),
            (
                self.instruction_pointer,
                "-i",
                "retake trace does not show from where a call is made",
                "retake record, then retake debug, which can stop at any call",
            ),
            (
                self.interruptible.is_some(),
                "-I",
                "signals reach the program as without a trace, and do not end the trace",
                "the same command without it",
            ),
            (
                self.stack_traces,
                "-k",
                "there are no stack traces of calls",
                "retake record, then retake debug with `catch syscall` and `backtrace`",
            ),
            (
                self.overhead.is_some(),
                "-O",
                "times are measured from entry to return; no overhead is subtracted",
                "the same command without it",
            ),
            (
                self.user.is_some(),
                "-u",
                "a program runs as the user who starts retake",
                "sudo -u NAME retake trace ...",
            ),
            (
                has_style,
                "-X",
                "flags and constants are always shown by name",
                "retake ds txt of a trace file, which has the numbers",
            ),
            (
                self.decode_pids,
                "-Y",
                "retake trace does not show names of processes",
                "-e execve, which shows who executes what",
            ),
            (
                self.seccomp_bpf,
                "--seccomp-bpf",
                "calls that are not shown already cost little",
                "the same command without it",
            ),
        ]
    }
}
