//! `retake trace`: the system calls of a program with all their data, as text or as a trace file.

mod refused;
mod stat;
mod summary;

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use clap::{ArgAction, Args, Subcommand, ValueEnum};
use retake_model::print::{Hexadecimal, TextOptions};
use retake_reanimate::Manifest;
use retake_recording::Recording;
use retake_trace::attach::{self, Whom};
use retake_trace::recording::Wanted;
use retake_trace::text::{Clock, Execution, Prefix, RESULT_COLUMN, Style};
use retake_trace::{Error, Filter, Observation, Unseen, ebpf, inside};
use retake_trace_format::TraceRecord;

use crate::commands::replay;
use crate::failure::{Failure, Result};
use crate::find_program;
use crate::recordings;
use crate::scratch::Scratch;
use crate::trace_output::{Shown, TraceOutput, text_destination};
use crate::trace_source::Source;

/// How calls are seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Method {
    /// By code of retake's own in each process: the fastest, nothing needs to stop
    InProcess,
    /// From outside, each thread stopping before and after each call: slow, and works where nothing
    /// else does
    Ptrace,
    /// In the kernel; needs privilege
    Ebpf,
}

/// What else there is to be done with traces.
#[derive(Debug, Subcommand)]
enum Other {
    /// Show what a trace is about: calls, sizes, files, processes, over time
    Stat(stat::Options),
}

/// As much of a buffer is read at least, where it may be a structure that is told field by field,
/// or a listing whose entries are counted.
const LARGEST_STRUCTURE: usize = 4 << 10;

/// Options of `retake trace`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    disable_help_subcommand = true,
    after_help = "\
Text goes to standard error, like that of strace, or with -o to a file. With -o and a name that ends in .ds, a trace file in DataSeries format \
is made instead: all calls with all data, which other tools read and `retake reanimate` runs again. All threads and all processes that the \
program starts are followed, always. With -p processes that run already are traced, with all their descendants, until they end or Ctrl-C; then they go on untouched.

A recording holds no times. Traced with --from, its calls are in an order in which they can have happened, and times count them.

Examples:
  retake trace ls                              every call that ls makes
  retake trace -e trace=%file -y make          what make does with files, descriptors with their paths
  retake trace -c tar cf /tmp/x.tar .          how often, how long, quantiles
  retake trace -o run.ds -- ./server --port 0  everything, to a file
  retake trace --from make-1 -o make.ds        the same of a recording made before
  retake trace -o x.ds --manifest x.tree -- make   with a description of what is here at the end
  retake trace -P /etc/passwd -- id            only what touches that file
  sudo retake trace -p $(pidof redis-server)   what a running server does
  retake trace stat run.ds --html run.html     what is in a trace file, with pictures
"
)]
pub struct Options {
    #[command(subcommand)]
    other: Option<Other>,

    /// Write to this file: DataSeries if its name ends in .ds, else text
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// How to see the calls; without it, in-process, or with -p ebpf where that works and else
    /// ptrace
    #[arg(long, value_enum, value_name = "METHOD")]
    method: Option<Method>,

    /// Trace processes that run already, with all their threads and descendants
    #[arg(short = 'p', long = "attach", value_name = "PID", value_parser = process_list,
        conflicts_with_all = ["from", "command"])]
    attach: Vec<ProcessList>,

    /// Trace a recording, by name or path, or what is left of a trace that was cut off
    #[arg(long, value_name = "RECORDING", conflicts_with_all = ["method", "command"])]
    from: Option<OsString>,

    /// Which calls: names, or classes such as %file, %network, %process, %memory, %signal, %desc,
    /// %ipc, %creds, %clock; `!` in front turns it round. Also signal=SET, status=SET (successful,
    /// failed, unfinished), error=NAMES, and descriptor=KINDS for calls that take or make a
    /// descriptor of a file, directory, device, pipe, socket, or anonymous
    #[arg(short = 'e', long = "expression", value_name = "EXPRESSION", allow_hyphen_values = true)]
    expressions: Vec<String>,

    /// Only calls that succeeded, as -e status=successful
    #[arg(short = 'z', long, conflicts_with = "failed_only")]
    successful_only: bool,

    /// Only calls that failed, as -e status=failed
    #[arg(short = 'Z', long)]
    failed_only: bool,

    /// Only calls on this path or a descriptor of it
    #[arg(short = 'P', long = "trace-path", value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// Only these processes
    #[arg(long = "process", value_delimiter = ',', value_name = "PID")]
    processes: Vec<u32>,

    /// Keep the data of no buffer: paths and structures only
    #[arg(long, conflicts_with = "data_limit")]
    no_data: bool,

    /// Keep at most this many bytes of each buffer
    #[arg(long, value_name = "BYTES")]
    data_limit: Option<u64>,

    #[command(flatten)]
    summary: summary::Options,

    /// Time spent in each call
    #[arg(short = 'T', long)]
    syscall_times: bool,

    /// Time of day before each line; -tt with microseconds, -ttt in seconds since 1970
    #[arg(short = 't', action = ArgAction::Count)]
    time: u8,

    /// Time since the line before
    #[arg(short = 'r', long, conflicts_with = "time")]
    relative_timestamps: bool,

    /// Paths of descriptors; -yy is the same
    #[arg(short = 'y', long, action = ArgAction::Count)]
    decode_fds: u8,

    /// Numbers of calls
    #[arg(short = 'n', long)]
    syscall_number: bool,

    /// All fields of structures, all elements of lists
    #[arg(short = 'v', long)]
    no_abbrev: bool,

    /// The column in which results begin
    #[arg(short = 'a', long, value_name = "COLUMN", default_value_t = RESULT_COLUMN)]
    columns: usize,

    /// Strings that are no text in hexadecimal; -xx: all strings
    #[arg(short = 'x', action = ArgAction::Count)]
    hexadecimal: u8,

    /// Show up to this many bytes of each string and buffer
    #[arg(short = 's', long, value_name = "BYTES", default_value_t = 32)]
    string_limit: usize,

    /// No signals and no ends of processes
    #[arg(short, long, action = ArgAction::Count)]
    quiet: u8,

    /// Follow threads and child processes: always done. With -o to a text file, each line then says
    /// which thread it is of; -ff gives each thread a file of its own, with its number behind the
    /// name
    #[arg(short = 'f', long, action = ArgAction::Count)]
    follow_forks: u8,

    /// As -ff
    #[arg(long, requires = "output")]
    output_separately: bool,

    /// With -o to a text file, leave what is in it and write behind that
    #[arg(short = 'A', long, requires = "output")]
    output_append_mode: bool,

    /// Set a variable of the program's environment, or without a value remove it
    #[arg(short = 'E', long = "env", value_name = "NAME[=VALUE]", conflicts_with_all = ["from",
        "attach"])]
    environment: Vec<OsString>,

    #[command(flatten)]
    refused: refused::Options,

    /// At the end, write down what the tree at --tree looks like, for `retake reanimate
    /// --verify-tree`
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    manifest: Option<PathBuf>,

    /// The tree that --manifest describes; without it, the working directory
    #[arg(long, value_name = "FOLDER", requires = "manifest")]
    tree: Option<PathBuf>,

    /// Rewrite no machine code: every system call takes the slow path
    #[arg(long)]
    no_fast_path: bool,

    /// The program and its arguments
    #[arg(required_unless_present_any = ["from", "attach"], trailing_var_arg = true,
        value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Numbers with commas or spaces between them, as `pidof` prints them.
#[derive(Debug, Clone)]
struct ProcessList(Vec<i32>);

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

/// Traces, and ends this process as the program ended. Returns if that fails, or after tracing a
/// recording.
pub fn run(options: &Options) -> Result<()> {
    if let Some(Other::Stat(options)) = &options.other {
        return stat::run(options);
    }
    options.refused.check()?;
    let filter = options.filter()?;
    match &options.from {
        Some(name) => trace_recording(options, name, filter),
        None => trace_program(options, filter),
    }
}

fn trace_recording(options: &Options, name: &OsString, filter: Filter) -> Result<()> {
    let recording = recordings::open(name)?;
    recordings::warn(&recording);
    let mut output = options.make_output(filter, true)?;
    if inside::is_spool(&recording) {
        inside::read_spool(&recording, |observation| output.observe(observation))?;
    } else {
        replay::check_build(recording.metadata())?;
        let scratch = Scratch::create()?;
        let mut unseen = Unseen::default();
        let observe = |observation| {
            unseen.note(&observation);
            output.observe(observation)
        };
        let wanted = Wanted { quiet: true, mapped_pages: options.kept_bytes().is_none() };
        retake_trace::recording::read(&recording, wanted, scratch.path(), observe)?;
        if let Some(reason) = unseen.reason().filter(|_| options.kept_bytes().is_none()) {
            output.observe(Observation::Record(TraceRecord::Incomplete(reason)))?;
        }
    }
    output.finish()
}

fn trace_program(options: &Options, filter: Filter) -> Result<()> {
    let source = options.source()?;
    let tree = options.tree()?;
    let status = match options.trace_file() {
        Some(path) => trace_to_file(options, filter, &source, path)?,
        None => trace_to_text(options, filter, &source)?,
    };
    if let (Some(file), Some(tree)) = (&options.manifest, tree) {
        take_manifest(&tree, file)?;
    }
    retake_kernel::signals::end_as(status)
}

/// Kept as it comes while the program runs, put in order afterwards: so the program waits for
/// nothing but the disk.
fn trace_to_file(options: &Options, filter: Filter, source: &Source, path: &Path) -> Result<i32> {
    let mut folder = path.as_os_str().to_owned();
    folder.push(".spool");
    let folder = std::path::absolute(&folder)
        .map_err(|error| Failure::system("find", folder.display(), &error))?;
    // Succeeds only for an empty folder, which is as good as none.
    let _ = fs::remove_dir(&folder);
    // Before the program runs: what cannot be written must not be found out at its end.
    let mut output = options.make_output(filter, false)?;
    let status = match source.spool_to(&folder) {
        Ok(status) => status,
        Err(failure) => {
            let is_empty = Recording::open(&folder)
                .is_ok_and(|spool| spool.streams().all(|stream| stream.bytes == 0));
            if is_empty || !folder.exists() {
                let _ = fs::remove_dir_all(&folder);
                let _ = fs::remove_file(path);
                return Err(failure);
            }
            return Err(failure.attempt(format!(
                "retake trace --from {} -o FILE.ds, which has what was traced until then",
                folder.display()
            )));
        }
    };
    let spool = Recording::open(&folder)?;
    inside::read_spool(&spool, |observation| output.observe(observation))?;
    output.finish()?;
    drop(spool);
    fs::remove_dir_all(&folder)
        .map_err(|error| Failure::system("remove", folder.display(), &error))?;
    Ok(status)
}

fn trace_to_text(options: &Options, filter: Filter, source: &Source) -> Result<i32> {
    let output = options.make_output(filter, false)?;
    let shown = Shown::new(output);
    let status = source.live(shown.observer())?;
    shown.finish()?;
    Ok(status)
}

fn take_manifest(tree: &Path, file: &Path) -> Result<()> {
    let manifest = Manifest::take(tree).map_err(|error| Failure::new(error.to_string()))?;
    let text =
        serde_json::to_vec_pretty(&manifest).map_err(|error| Failure::new(error.to_string()))?;
    fs::write(file, text).map_err(|error| Failure::system("write", file.display(), &error))
}

fn failed(error: Error) -> Failure {
    let failure = Failure::new(error.to_string());
    match &error {
        Error::Exec { source, .. }
        | Error::Record(retake_record::RecordError::Exec { source, .. }) => {
            failure.with_status(find_program::status_of(source))
        }
        _ => failure,
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        failed(error)
    }
}

/// Whether an expression is about how lines look, not which there are.
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
    fn filter(&self) -> Result<Filter> {
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

    /// The tree of the manifest, if there shall be one.
    fn tree(&self) -> Result<Option<PathBuf>> {
        let given = self.tree.as_deref().unwrap_or(Path::new("."));
        let found = || {
            fs::canonicalize(given)
                .map_err(|error| Failure::system("find", given.display(), &error))
        };
        self.manifest.is_some().then(found).transpose()
    }

    fn request(&self) -> Result<retake_record::Request> {
        let found = find_program::find(&self.command, std::env::var_os("PATH").as_deref())?;
        let options = retake_supervisor::Options {
            no_fast_path: self.no_fast_path,
            check_off: true,
            data_limit: self.kept_bytes(),
            ..retake_supervisor::Options::default()
        };
        Ok(retake_record::Request {
            program: found.program,
            arguments: found.arguments,
            environment: self.environment(),
            limits: super::record::widen_limits()?,
            options,
            processor: retake_supervisor::this_processor(),
            chaos: None,
            timeout: None,
            keep_last: None,
            on_full: retake_record::OnFull::Stop,
        })
    }

    fn source(&self) -> Result<Source> {
        let outside =
            |whom| attach::Request { whom, data_limit: self.kept_bytes().unwrap_or(u64::MAX) };
        let attach: Vec<i32> = self.attach.iter().flat_map(|list| list.0.iter().copied()).collect();
        let method = self.method.unwrap_or_else(|| match attach.as_slice() {
            [] => Method::InProcess,
            // Whatever is missing, ptrace does without it.
            _ if ebpf::check().is_ok() => Method::Ebpf,
            _ => Method::Ptrace,
        });
        let whom = || -> Result<Whom> {
            Ok(if attach.is_empty() {
                Whom::Program(Box::new(self.request()?))
            } else {
                Whom::Processes(attach.clone())
            })
        };
        Ok(match method {
            Method::InProcess if !attach.is_empty() => {
                return Err(Failure::new(
                    "a process that runs already cannot be traced from within",
                )
                .attempt("--method ebpf or --method ptrace"));
            }
            Method::InProcess => Source::Inside(Box::new(self.request()?)),
            Method::Ptrace => Source::Ptrace(outside(whom()?)),
            Method::Ebpf => Source::Ebpf(outside(whom()?)),
        })
    }

    /// How much of each buffer is kept; `None` is all. Text shows no more than it is told to, but
    /// structures in buffers are read whole.
    fn kept_bytes(&self) -> Option<u64> {
        match (self.no_data, self.data_limit, self.trace_file()) {
            (true, _, _) => Some(0),
            (_, Some(limit), _) => Some(limit),
            (_, None, Some(_)) => None,
            (_, None, None) => Some(self.string_limit.max(LARGEST_STRUCTURE) as u64),
        }
    }

    fn trace_file(&self) -> Option<&Path> {
        self.output
            .as_deref()
            .filter(|path| path.extension().is_some_and(|extension| extension == "ds"))
    }

    fn style(&self) -> Style {
        let clock = match (self.relative_timestamps, self.time) {
            (true, _) => Clock::Relative,
            (_, 0) => Clock::None,
            (_, 1) => Clock::Seconds,
            (_, 2) => Clock::Microseconds,
            (_, _) => Clock::Unix,
        };
        let hexadecimal = match self.hexadecimal {
            0 => Hexadecimal::Never,
            1 => Hexadecimal::Binary,
            _ => Hexadecimal::Always,
        };
        let unabbreviated = self.no_abbrev || self.says("abbrev=none");
        // As in strace, lists are as long as strings.
        let element_count = if unabbreviated { usize::MAX } else { self.string_limit };
        let text = TextOptions {
            string_bytes: self.string_limit,
            element_count,
            hexadecimal,
            unabbreviated,
            environment: unabbreviated,
            ..TextOptions::default()
        };
        Style {
            clock,
            durations: self.syscall_times,
            paths: self.decode_fds > 0
                || self.says("decode-fds=all")
                || self.says("decode-fds=path"),
            numbers: self.syscall_number,
            quiet: self.quiet > 0 || self.says("quiet=exit") || self.says("quiet=all"),
            prefix: self.prefix(),
            result_column: self.columns,
            execution: (!self.command.is_empty()).then(|| self.execution()),
            text,
        }
    }

    fn says(&self, expression: &str) -> bool {
        self.expressions.iter().any(|given| given == expression)
    }

    fn is_separate(&self) -> bool {
        self.output_separately || (self.follow_forks > 1 && self.output.is_some())
    }

    fn prefix(&self) -> Prefix {
        match &self.output {
            _ if self.is_separate() => Prefix::Never,
            None => Prefix::Brackets,
            Some(_) if self.follow_forks > 0 => Prefix::Always,
            Some(_) => Prefix::Number,
        }
    }

    /// How the program is started.
    fn execution(&self) -> Execution {
        // Names with a slash are taken as they are, others looked for.
        let found = find_program::find(&self.command, std::env::var_os("PATH").as_deref())
            .map(|found| found.program.into_os_string().into_vec());
        let program = match self.command.first() {
            Some(name) if name.as_bytes().contains(&b'/') => name.as_bytes().to_vec(),
            _ => found.unwrap_or_default(),
        };
        let strings = self
            .environment()
            .into_iter()
            .map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat());
        Execution {
            program,
            arguments: self.command.iter().map(|argument| argument.as_bytes().to_vec()).collect(),
            environment: strings.collect(),
        }
    }

    /// Of the program: ours, with what is to be changed.
    fn environment(&self) -> Vec<(OsString, OsString)> {
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

    fn open_text(&self, path: &Path) -> Result<File> {
        let append = self.output_append_mode;
        let opened =
            File::options().create(true).write(true).append(append).truncate(!append).open(path);
        opened.map_err(|error| Failure::system("create", path.display(), &error))
    }

    fn make_output(&self, filter: Filter, to_stdout: bool) -> Result<TraceOutput> {
        let output = TraceOutput::new(filter, self.data_limit.or(self.no_data.then_some(0)));
        if let Some(path) = self.trace_file() {
            return output.with_trace(path);
        }
        let summary = self.summary.wanted();
        if let Some(path) = self.output.as_ref().filter(|_| self.is_separate()) {
            return match summary {
                None => Ok(output.with_texts(path, self.output_append_mode, self.style())),
                Some(_) => Err(Failure::new("a summary is of all threads together")
                    .attempt("-f in place of -ff, or no -c")),
            };
        }
        let file = self.output.as_deref().map(|path| self.open_text(path)).transpose()?;
        let output = summary
            .into_iter()
            .fold(output, |output, (order, columns)| output.with_summary(order, columns));
        let style = (!self.summary.summary_only).then(|| self.style());
        Ok(output.with_text(text_destination(file, to_stdout), style))
    }
}
