//! `retake record`: runs a program, and writes down all that is needed to run it again.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use retake_kernel::clock;
use retake_kernel::front::{self, Behind, Side};
use retake_kernel::inheritance::{Limits, Shortage};
use retake_patch::{is_declared, tells_all};
use retake_record::{Ended, KeepLast, RecordError, Request, Watcher, When};
use retake_recording::{ByteText, Location, Metadata, Recording, Store};
use retake_supervisor::runtime;

mod attach;
mod in_memory;
mod interval;
mod on_crash;
mod place;
mod until_failure;

use interval::{Interval, interval};

use crate::check::Check;
use crate::failure::{Failure, Result};
use crate::find_program::{self, Found};
use crate::keep_last;
use crate::machine;
use crate::quantity;
use crate::recordings;

/// Options of `retake record`.
#[derive(Debug, Args)]
#[command(after_help = "\
The program runs in this terminal, with this input, output, environment and folder, as it does \
without retake. retake prints nothing of its own, and ends as the program ends. A recording holds \
everything the program read, secrets included; only its owner may read it.

Examples:
  retake record make -j2             record a build, all its processes included
  retake record -- ./server --port 0 retake's options end at the name of the program
  retake record -o crash ./a.out     keep the recording in the folder `crash`
  RETAKE_DIR=/big retake record CMD  keep this and everything recorded in /big
  retake record --keep-last 1G ./forking-server
                                     record for weeks: keep the last gigabyte of connections that have ended
  retake record --chaos --until-failure ./test
                                     find a race: run the test in random interleavings until it fails, and keep that run
  retake record --debug-on-crash ./a.out
                                     open gdb at the crash, if there is one
")]
pub struct Options {
    /// Make the recording here: a new or empty folder. Without it, recordings are named and kept by
    /// retake (see `retake ls`)
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// How often the state of memory is recorded, so that replay can compare it. `full`: at every
    /// possible point, which is slow. `sampled`: so rarely that the cost is not noticeable. `off`:
    /// never
    #[arg(long, value_enum, value_name = "LEVEL", default_value_t = Check::Sampled)]
    check: Check,

    /// Rewrite no machine code: every system call takes the slow path. This helps to find the cause
    /// of a fault
    #[arg(long)]
    no_fast_path: bool,

    /// Disturb the program: run its threads in random order, interrupt them at random places and
    /// let them wake up late, so that rare interleavings show up
    #[arg(long)]
    chaos: bool,

    /// The seed for the random choices of --chaos; `retake info` shows the seed of a recording
    #[arg(long, value_name = "N", requires = "chaos")]
    seed: Option<u64>,

    /// Run the program again and again until a run fails: it ends with a status other than 0 or by
    /// a signal, or takes longer than --timeout. Only the recording of that run is kept. Only the
    /// first run reads standard input. retake ends as the failed run ended, with 124 after a
    /// timeout, with 0 if no run failed
    #[arg(long)]
    until_failure: bool,

    /// With --until-failure, the most runs
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1000, requires = "until_failure",
        value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,

    /// After SECONDS, end the program and everything that it started: with SIGTERM, and two seconds
    /// later with SIGKILL
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,

    /// Make an image of each process every TIME (10s, 200ms), from which `retake debug` and `retake
    /// replay --from` can begin. The program is stopped while an image is made, for some
    /// milliseconds if its memory is large. See docs/IMAGES.md for the limits. `off`: never, not
    /// even with --keep-last
    #[arg(long, value_name = "TIME|off", value_parser = interval, conflicts_with = "chaos")]
    image_every: Option<Interval>,

    /// Keep a long recording small: drop what is older than TIME (60s, 30min, 12h), or the oldest
    /// when the recording takes more than SIZE (64M, 2G). Processes that have ended are dropped
    /// whole. Of a process that runs on, the part before an image is dropped, from which replay
    /// then begins; the images are made as needed. `retake info` says what was dropped. Processes
    /// that share memory with others are kept. See docs/IMAGES.md
    #[arg(long, value_name = "SIZE|TIME", value_parser = keep_last::parse)]
    keep_last: Option<KeepLast>,

    /// Keep the recording in memory, its last SIZE of events and images, and write nothing to the
    /// disk until there is a reason to save it: see --save-on. `retake save` saves it at any time.
    /// See docs/IMAGES.md
    #[arg(long, value_name = "SIZE", value_parser = keep_last::size, conflicts_with_all =
        ["output", "keep_last", "on_full", "until_failure", "no_wait", "debug_on_crash"])]
    in_memory: Option<u64>,

    /// With --in-memory, a reason to save the recording. `crash`: a process crashes (this holds
    /// without --save-on). `exit-status`: the program ends with another status than 0. `signal`: a
    /// signal ends a process. `signal=USR1`: retake gets this signal. `stderr=REGEX`: a line of
    /// standard error matches. Can be repeated. While the program runs, each does so once, but for
    /// `signal=`
    #[arg(long, value_name = "RULE", requires = "in_memory", value_parser = in_memory::rule)]
    save_on: Vec<in_memory::Rule>,

    /// What to do when the disk is full. `stop`: the program stands still until there is room, or
    /// somebody ends it. `drop-oldest`: as --keep-last with a size, so that what is kept fits.
    /// `end`: the program is ended, with SIGKILL; what was recorded until then is kept
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = OnFull::Stop,
        conflicts_with = "keep_last")]
    on_full: OnFull,

    /// End the program, and all it started, with SIGKILL when the events take SIZE (500MB, 2GB).
    /// What was recorded until then is kept and can be replayed
    #[arg(long, value_name = "SIZE", value_parser = quantity::size)]
    max_size: Option<u64>,

    /// Also keep the data that the kernel moves between descriptors (sendfile, splice,
    /// copy_file_range). Replay does not need these data, but a trace made of the recording (retake
    /// trace --from) has them only if they are kept. The recording grows by their size
    #[arg(long)]
    moved_data: bool,

    /// Which orderings between threads that share memory are recorded. `serial`: all of them. The
    /// threads take turns, on one core, and replay is exact. `sync`: those of system calls, atomic
    /// instructions and the C library's functions for threads. The threads run in parallel, also at
    /// replay. That is exact for programs that synchronise by these alone, for example by mutexes.
    /// If threads race, replay may diverge, and says so. The debugger runs one thread at a time.
    /// `auto`: if the program was built by retake cc or retake c++, as `sync` in each process whose
    /// libraries also tell by what threads synchronise; else as `serial`. `retake info` says which
    /// it was
    #[arg(long, value_enum, value_name = "POLICY", default_value_t = Policy::Auto,
        conflicts_with = "no_fast_path")]
    policy: Policy,

    /// Do not wait for processes that the program leaves running, such as daemons: end as soon as
    /// the program has ended. They are recorded in the background until they end
    #[arg(long, conflicts_with_all = ["until_failure", "debug_on_crash"])]
    no_wait: bool,

    /// If a process crashes, debug it at once: gdb begins at the crash, and can go backwards from
    /// there. If standard input and output are not terminals, print a backtrace instead (see retake
    /// backtrace)
    #[arg(long)]
    debug_on_crash: bool,

    /// Record a program that runs already, from here on, with all its threads: this process. Ends
    /// when the program ends, after --for, or with Ctrl-C; then the program goes on unrecorded. See
    /// docs/ATTACH.md
    #[arg(short, long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..),
        conflicts_with_all = ["command", "chaos", "until_failure", "timeout", "keep_last",
        "in_memory", "no_wait", "debug_on_crash", "max_size"])]
    process: Option<i32>,

    /// With --process, also record its children that run already, and their children, all from one
    /// moment on. Those that are made later are recorded without this option
    #[arg(long, requires = "process")]
    children: bool,

    /// With --process, how long to record (10s, 5min)
    #[arg(long = "for", value_name = "TIME", requires = "process", value_parser = interval::time)]
    time: Option<Duration>,

    /// The program and its arguments
    #[arg(required_unless_present = "process", trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// See [`retake_record::OnFull`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum OnFull {
    /// Stop the program until there is space
    Stop,
    /// Drop processes that have ended, the oldest first
    DropOldest,
    /// End the program
    End,
}

/// See [`retake_recording::Policy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Policy {
    /// In parallel where that is known to be exact
    Auto,
    /// Threads take turns
    Serial,
    /// Threads run in parallel; what synchronises them is in order
    Sync,
}

impl Options {
    /// Checks that the other options allow images.
    fn check_images(&self) -> Result<()> {
        if !matches!(self.image_every, Some(Interval::Every(_))) {
            return Ok(());
        }
        if self.policy == Policy::Sync {
            return Err(Failure::new("images cannot be made of threads that run in parallel")
                .attempt("without --policy sync"));
        }
        if self.on_full == OnFull::DropOldest {
            return Err(Failure::new("images of dropped processes would stay on the disk")
                .attempt("--image-every without --on-full drop-oldest"));
        }
        Ok(())
    }

    /// When to make images under this policy.
    fn images(&self, policy: retake_recording::Policy) -> Option<When> {
        match self.image_every {
            Some(Interval::Off) => None,
            Some(Interval::Every(time)) => Some(When::Every(time)),
            None if self.chaos || policy == retake_recording::Policy::Sync => None,
            None => self.kept().and_then(keep_last::images),
        }
    }

    /// How much of the recording is kept, if not all.
    fn kept(&self) -> Option<KeepLast> {
        self.keep_last.or(self.in_memory.map(KeepLast::Bytes))
    }

    /// The policy for this program.
    fn policy(&self, program: &Path) -> retake_recording::Policy {
        let is_ordinary = !self.chaos && !self.no_fast_path;
        match self.policy {
            Policy::Serial => retake_recording::Policy::Serial,
            Policy::Sync => retake_recording::Policy::Sync,
            Policy::Auto if is_ordinary && program_tells_all(program) => {
                retake_recording::Policy::Auto
            }
            Policy::Auto => retake_recording::Policy::Serial,
        }
    }
}

/// Whether the program's file declares all its synchronisation. An unreadable file declares
/// nothing; executing it will fail and say why.
fn program_tells_all(program: &Path) -> bool {
    // `is_declared` is quick, and false for most programs.
    File::open(program).is_ok_and(|file| is_declared(&file))
        && fs::read(program).is_ok_and(|file| tells_all(&file))
}

/// Exit status: the program was ended because its time was up. `timeout(1)` uses the same.
const STATUS_TIMED_OUT: i32 = 124;

/// Records, and ends this process as the program ended. Returns only if recording fails, or if no
/// run fails.
pub fn run(options: &Options) -> Result<()> {
    options.check_images()?;
    let behind = if options.no_wait { Some(Arc::new(go_behind()?)) } else { None };
    let limits = widen_limits()?;
    if let Some(pid) = options.process {
        return attach::run(options, pid);
    }
    let found = find_program::find(&options.command, std::env::var_os("PATH").as_deref())?;
    let location = match options.in_memory {
        None => recordings::prepared_location()?,
        Some(_) => Location::from_environment()?,
    };
    let recorder = Recorder {
        options,
        found,
        location,
        environment: std::env::vars_os().collect(),
        limits,
        behind,
        output: options.output.clone(),
        watcher: None,
    };
    let seed = options.chaos.then(|| options.seed.unwrap_or_else(random_seed));
    if options.until_failure {
        return until_failure::run(&recorder, seed);
    }
    if let Some(bytes) = options.in_memory {
        return in_memory::run(recorder, bytes, seed);
    }
    let run = recorder.run(seed)?;
    recorder.end(&run)
}

/// Splits off a process that goes on recording. The original process ends as soon as the program
/// ends.
fn go_behind() -> Result<Behind> {
    match front::split() {
        Ok(Side::Behind(behind)) => Ok(behind),
        Ok(Side::Front(front)) => retake_kernel::signals::end_as(front.wait()),
        Err(error) => Err(Failure::new(format!("cannot make a process: {error}"))),
    }
}

/// Ends this process with the program's status or signal.
fn end_as(ended: Ended) -> ! {
    if ended.timed_out {
        std::process::exit(STATUS_TIMED_OUT);
    }
    retake_kernel::signals::end_as(ended.status)
}

fn seconds(text: &str) -> std::result::Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    let duration = Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?;
    if duration.is_zero() { Err("the time must be more than 0".to_owned()) } else { Ok(duration) }
}

/// A random seed of at most nine digits, which are easy to type again.
fn random_seed() -> u64 {
    const SEEDS: u64 = 1_000_000_000;
    RandomState::new().hash_one(std::process::id()) % SEEDS
}

/// One recording of one run.
struct Run {
    directory: PathBuf,
    ended: Ended,
}

/// Records the same program, once or repeatedly.
struct Recorder<'options> {
    options: &'options Options,
    found: Found,
    location: Location,
    environment: Vec<(OsString, OsString)>,
    limits: Limits,
    behind: Option<Arc<Behind>>,
    /// Where to record; `None` for the next free name.
    output: Option<PathBuf>,
    watcher: Option<Arc<dyn Watcher>>,
}

/// Raises the limits of this process as far as allowed. Returns the original limits, which the
/// program gets.
pub fn widen_limits() -> Result<Limits> {
    let limits = Limits::widen();
    match Limits::shortage() {
        None => Ok(limits),
        Some(Shortage { what, option, allowed, needed }) => Err(Failure::new(format!(
            "only {allowed} {what} may be used here, and a recorder needs {needed}"
        ))
        .attempt(format!("ulimit {option} {needed}, or more"))),
    }
}

impl Recorder<'_> {
    fn run(&self, seed: Option<u64>) -> Result<Run> {
        let options = self.options;
        let store = Store::open(&self.location.store)?;
        let metadata = describe(options, &self.found, self.environment.len(), seed);
        let policy = metadata.policy;
        let began_ns = metadata.began.map_or(0, |[_, _, monotonic_ns]| monotonic_ns);
        let name: &OsStr = &options.command[0];
        let output = self.output.as_deref();
        let writer =
            place::create(output, &self.location, name, &metadata, !options.until_failure)?;
        place::add_runtime(&writer, &store)?;
        let directory = writer.directory().to_path_buf();
        let request = Request {
            program: self.found.program.clone(),
            arguments: self.found.arguments.clone(),
            environment: self.environment.clone(),
            limits: self.limits,
            chaos: seed,
            timeout: options.timeout,
            images: options.images(policy),
            watcher: self.watcher.clone(),
            keep_last: options
                .kept()
                .or((options.on_full == OnFull::DropOldest).then_some(KeepLast::WhatFits)),
            on_full: match options.on_full {
                OnFull::End => retake_record::OnFull::End,
                OnFull::Stop | OnFull::DropOldest => retake_record::OnFull::Stop,
            },
            max_size: options.max_size,
            began_ns,
            behind: self.behind.clone(),
            processor: metadata.machine.processor,
            options: retake_supervisor::Options {
                no_fast_path: options.no_fast_path,
                moved_data: options.moved_data,
                sync: policy.is_parallel(),
                auto: policy == retake_recording::Policy::Auto,
                ..options.check.session_options()
            },
        };
        match retake_record::record(&request, writer, store) {
            Ok(ended) => Ok(Run { directory, ended }),
            Err(error) => Err(failed(&error, &directory)),
        }
    }

    /// Reacts to a crash as the user wishes, and ends this process as the run ended.
    fn end(&self, run: &Run) -> Result<()> {
        if self.options.debug_on_crash {
            on_crash::look_at(&run.directory)?;
        }
        end_as(run.ended)
    }
}

fn describe(
    options: &Options,
    found: &Found,
    environment_count: usize,
    seed: Option<u64>,
) -> Metadata {
    let fast_path = if options.no_fast_path { "off" } else { "on" };
    Metadata {
        check_level: options.check.into(),
        policy: options.policy(&found.program),
        began: Some(clock::moment()),
        has_runtime: true,
        ticks_per_second: clock::steady_ticks_per_second().unwrap_or(0),
        settings: [
            ("fast_path", Some(fast_path.to_owned())),
            ("chaos seed", seed.map(|seed| seed.to_string())),
            ("max size", options.max_size.map(quantity::size_text)),
            ("keep last", options.kept().map(keep_last::text)),
            ("moved data", options.moved_data.then(|| "kept".to_owned())),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect(),
        ..describe_program(found, environment_count)
    }
}

/// The metadata of a program and its environment before it runs.
pub fn describe_program(found: &Found, environment_count: usize) -> Metadata {
    let working_directory = std::env::current_dir().unwrap_or_default();
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    Metadata {
        retake_version: env!("CARGO_PKG_VERSION").to_owned(),
        command: ByteText::from(found.program.clone().into_os_string()),
        arguments: found.arguments.iter().cloned().map(ByteText::from).collect(),
        working_directory: ByteText::from(working_directory.into_os_string()),
        environment_count: u32::try_from(environment_count).unwrap_or(u32::MAX),
        started_unix_ms: now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX)),
        machine: machine::this_machine(),
        table_hash: retake_model::TABLE_HASH.to_string(),
        contract_hash: retake_contract::HASH.to_string(),
        contract_version: retake_contract::VERSION,
        contract_revision: retake_contract::REVISION,
        runtime_hash: runtime::own_id().to_string(),
        ..Metadata::default()
    }
}

/// The message for a recording that failed. If the program never ran, the recording is empty and is
/// removed.
fn failed(error: &RecordError, directory: &Path) -> Failure {
    let is_empty = Recording::open(directory)
        .is_ok_and(|recording| recording.streams().all(|stream| stream.bytes == 0));
    let failure = Failure::new(error.to_string());
    let failure = match error {
        RecordError::Exec { source, .. } => failure.with_status(find_program::status_of(source)),
        _ => failure,
    };
    if is_empty || matches!(error, RecordError::Exec { .. }) {
        // This process made the folder, so it may remove it.
        let _ = fs::remove_dir_all(directory);
        return failure;
    }
    failure.attempt(format!(
        "retake replay {}, which has what was recorded until then",
        directory.display()
    ))
}
