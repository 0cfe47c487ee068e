//! The options of `retake trace`, and what follows from them alone.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use clap::{ArgAction, Args, Subcommand, ValueEnum};
use retake_trace::Filter;
use retake_trace::text::RESULT_COLUMN;

use super::{refused, stat, summary};
use crate::failure::{Failure, Result};

/// The method of seeing calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Method {
    /// By retake's own code in each process: the fastest way, as nothing has to stop
    InProcess,
    /// From outside: each thread stops before and after each call. It is slow, but works where
    /// nothing else does
    Ptrace,
    /// In the kernel; needs privilege
    Ebpf,
}

/// Other commands about traces.
#[derive(Debug, Subcommand)]
pub(super) enum Other {
    /// Summarise a trace: calls, sizes, files, processes, over time
    Stat(stat::Options),
}

/// The least number of bytes that are read of a buffer. It may contain a structure whose fields are
/// shown, or a directory listing whose entries are counted.
const LARGEST_STRUCTURE: usize = 4 << 10;

/// Options of `retake trace`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    disable_help_subcommand = true,
    after_help = "\
Text goes to standard error, like that of strace, or with -o to a file. With -o and a name that \
ends in .ds, a trace file in DataSeries format is made instead. It has all calls with all data; \
other tools read it, and `retake reanimate` runs it again. All threads and all processes that the \
program starts are always followed. With -p, retake traces processes that already run, with all \
their descendants, until they end or until Ctrl-C. After Ctrl-C they go on untouched.

A recording does not hold the time of each call. With --from, calls are in an order in which they \
can have happened, and their times follow that order: a microsecond for each call.

Examples:
  retake trace ls                              every call that ls makes
  retake trace -e trace=%file -y make          what make does with files, descriptors with their paths
  retake trace -c tar cf /tmp/x.tar .          how often, how long, quantiles
  retake trace -o run.ds -- ./server --port 0  everything, to a file
  retake trace --from make-1 -o make.ds        the same from an earlier recording
  retake trace -o x.ds --manifest x.tree -- make   and describe what is in this folder at the end
  retake trace -P /etc/passwd -- id            only what touches that file
  sudo retake trace -p $(pidof redis-server)   what a running server does
  retake trace stat run.ds --html run.html     what is in a trace file, with pictures
"
)]
pub struct Options {
    #[command(subcommand)]
    pub(super) other: Option<Other>,

    /// Write to this file: DataSeries if its name ends in .ds, else text
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,

    /// How to trace the calls. Without it, in-process; with -p, ebpf where that works, and else
    /// ptrace
    #[arg(long, value_enum, value_name = "METHOD")]
    pub(super) method: Option<Method>,

    /// Trace processes that run already, with all their threads and descendants
    #[arg(short = 'p', long = "attach", value_name = "PID", value_parser = process_list,
        conflicts_with_all = ["from", "command"])]
    pub(super) attach: Vec<ProcessList>,

    /// Trace a recording, given by name or path, or the rest of a trace that was cut off
    #[arg(long, value_name = "RECORDING", conflicts_with_all = ["method", "command"])]
    pub(super) from: Option<OsString>,

    /// Which calls: names, or classes such as %file, %network, %process, %memory, %signal, %desc,
    /// %ipc, %creds, %clock; `!` in front inverts the choice. Also signal=SET, status=SET
    /// (successful, failed, unfinished), error=NAMES, and descriptor=KINDS for calls that take or
    /// make a descriptor of a file, directory, device, pipe, socket, or anonymous
    #[arg(short = 'e', long = "expression", value_name = "EXPRESSION", allow_hyphen_values = true)]
    pub(super) expressions: Vec<String>,

    /// Only calls that succeeded, as -e status=successful
    #[arg(short = 'z', long, conflicts_with = "failed_only")]
    pub(super) successful_only: bool,

    /// Only calls that failed, as -e status=failed
    #[arg(short = 'Z', long)]
    pub(super) failed_only: bool,

    /// Only calls on this path or a descriptor of it
    #[arg(short = 'P', long = "trace-path", value_name = "PATH")]
    pub(super) paths: Vec<PathBuf>,

    /// Only these processes
    #[arg(long = "process", value_delimiter = ',', value_name = "PID")]
    pub(super) processes: Vec<u32>,

    /// Keep no data of buffers, only paths and structures
    #[arg(long, conflicts_with = "data_limit")]
    pub(super) no_data: bool,

    /// Keep at most this many bytes of each buffer
    #[arg(long, value_name = "BYTES")]
    pub(super) data_limit: Option<u64>,

    #[command(flatten)]
    pub(super) summary: summary::Options,

    /// Time spent in each call
    #[arg(short = 'T', long)]
    pub(super) syscall_times: bool,

    /// Time of day before each line; -tt with microseconds, -ttt in seconds since 1970
    #[arg(short = 't', action = ArgAction::Count)]
    pub(super) time: u8,

    /// Time since the previous line
    #[arg(short = 'r', long, conflicts_with = "time")]
    pub(super) relative_timestamps: bool,

    /// Paths of descriptors; -yy is the same
    #[arg(short = 'y', long, action = ArgAction::Count)]
    pub(super) decode_fds: u8,

    /// Numbers of calls
    #[arg(short = 'n', long)]
    pub(super) syscall_number: bool,

    /// All fields of structures, all elements of lists
    #[arg(short = 'v', long)]
    pub(super) no_abbrev: bool,

    /// The column in which results begin
    #[arg(short = 'a', long, value_name = "COLUMN", default_value_t = RESULT_COLUMN)]
    pub(super) columns: usize,

    /// Hexadecimal digits for strings that are not text; -xx: for all strings
    #[arg(short = 'x', action = ArgAction::Count)]
    pub(super) hexadecimal: u8,

    /// Show up to this many bytes of each string and buffer
    #[arg(short = 's', long, value_name = "BYTES", default_value_t = 32)]
    pub(super) string_limit: usize,

    /// Leave out signals and ends of processes
    #[arg(short, long, action = ArgAction::Count)]
    pub(super) quiet: u8,

    /// Follow threads and child processes: always done. With -o to a text file, each line then has
    /// the number of its thread; -ff gives each thread its own file, with its number appended to
    /// the name
    #[arg(short = 'f', long, action = ArgAction::Count)]
    pub(super) follow_forks: u8,

    /// The same as -ff
    #[arg(long, requires = "output")]
    pub(super) output_separately: bool,

    /// With -o to a text file, append to it
    #[arg(short = 'A', long, requires = "output")]
    pub(super) output_append_mode: bool,

    /// Set a variable of the program's environment; without a value, remove it
    #[arg(short = 'E', long = "env", value_name = "NAME[=VALUE]", conflicts_with_all = ["from",
        "attach"])]
    pub(super) environment: Vec<OsString>,

    #[command(flatten)]
    pub(super) refused: refused::Options,

    /// At the end, write a manifest of the tree at --tree, for `retake reanimate --verify-tree`
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    pub(super) manifest: Option<PathBuf>,

    /// The tree that --manifest describes; without it, the working directory
    #[arg(long, value_name = "FOLDER", requires = "manifest")]
    pub(super) tree: Option<PathBuf>,

    /// Rewrite no machine code: every system call takes the slow path
    #[arg(long)]
    pub(super) no_fast_path: bool,

    /// The program and its arguments
    #[arg(required_unless_present_any = ["from", "attach"], trailing_var_arg = true,
        value_name = "COMMAND")]
    pub(super) command: Vec<OsString>,
}

/// Process numbers separated by commas or spaces, as `pidof` prints them.
#[derive(Debug, Clone)]
pub(super) struct ProcessList(pub(super) Vec<i32>);

fn process_list(text: &str) -> std::result::Result<ProcessList, String> {
    let number = |text: &str| {
        text.parse()
            .ok()
            .filter(|number| *number > 0)
            .ok_or_else(|| format!("{text} is not the number of a process"))
    };
    let numbers: Vec<i32> = text
        .split([',', ' ', '\n', '\t'])
        .filter(|text| !text.is_empty())
        .map(number)
        .collect::<std::result::Result<_, _>>()?;
    if numbers.is_empty() { Err("which process?".to_owned()) } else { Ok(ProcessList(numbers)) }
}

/// Whether an expression changes the look of lines, and does not select calls.
fn is_about_lines(expression: &str) -> bool {
    let known = [
        "abbrev=none",
        "abbrev=all",
        "verbose=all",
        "decode-fds=all",
        "decode-fds=path",
        "decode-fds=none",
    ];
    known.contains(&expression) || expression.starts_with("quiet=")
}

impl Options {
    pub(super) fn filter(&self) -> Result<Filter> {
        let mut filter = Filter::default();
        let of_status =
            [("status=successful", self.successful_only), ("status=failed", self.failed_only)];
        let given = self
            .expressions
            .iter()
            .map(String::as_str)
            .filter(|expression| !is_about_lines(expression));
        for expression in given.chain(of_status.into_iter().filter(|it| it.1).map(|it| it.0)) {
            let hint = "retake trace --help, which lists what -e understands";
            filter.expression(expression).map_err(|reason| {
                Failure::new(format!("-e {expression}: {reason}")).attempt(hint)
            })?;
        }
        for path in &self.paths {
            let whole = std::path::absolute(path)
                .map_err(|error| Failure::system("find", path.display(), &error))?;
            filter.path(whole.as_os_str().as_bytes());
            if let Ok(real) = fs::canonicalize(path) {
                filter.path(real.as_os_str().as_bytes());
            }
        }
        self.processes.iter().for_each(|process| filter.process(*process));
        Ok(filter)
    }

    /// The tree that the manifest describes, if a manifest is wanted.
    pub(super) fn tree(&self) -> Result<Option<PathBuf>> {
        let given = self.tree.as_deref().unwrap_or(Path::new("."));
        let found = || {
            fs::canonicalize(given)
                .map_err(|error| Failure::system("find", given.display(), &error))
        };
        self.manifest.is_some().then(found).transpose()
    }

    /// The number of bytes that are kept of each buffer; `None` keeps all. Text shows no more than
    /// the options allow, but needs whole structures.
    pub(super) fn kept_bytes(&self) -> Option<u64> {
        match (self.no_data, self.data_limit, self.trace_file()) {
            (true, _, _) => Some(0),
            (_, Some(limit), _) => Some(limit),
            (_, None, Some(_)) => None,
            (_, None, None) => Some(self.string_limit.max(LARGEST_STRUCTURE) as u64),
        }
    }

    pub(super) fn trace_file(&self) -> Option<&Path> {
        self.output
            .as_deref()
            .filter(|path| path.extension().is_some_and(|extension| extension == "ds"))
    }

    pub(super) fn says(&self, expression: &str) -> bool {
        self.expressions.iter().any(|given| given == expression)
    }

    /// The program's environment: ours, with the changes that the options make.
    pub(super) fn environment(&self) -> Vec<(OsString, OsString)> {
        let mut environment: Vec<(OsString, OsString)> = std::env::vars_os().collect();
        for change in &self.environment {
            let mut parts = change
                .as_bytes()
                .splitn(2, |byte| *byte == b'=')
                .map(|part| OsString::from_vec(part.to_vec()));
            let name = parts.next().unwrap_or_default();
            environment.retain(|(other, _)| *other != name);
            environment.extend(parts.next().map(|value| (name, value)));
        }
        environment
    }
}
