//! `retake reanimate`: runs the system calls of a trace again on a file system, and verifies them.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::num::NonZeroU32;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use retake_reanimate::{Comparison, Manifest, Pass, Report, Step, compare_trees, reanimate};
use retake_trace_format::{Digests, TraceError, TraceReader, TraceReaderOptions, TraceRecord};
use serde::Serialize;

use crate::failure::{Failure, Result, STATUS_DIVERGED};
use crate::output::{Output, Style};

/// The number of differences that the text shows. JSON has more.
const SHOWN: usize = 20;

/// Options of `retake reanimate`.
#[derive(Debug, Args)]
#[command(after_help = "\
retake makes every call about files again, below DIR and nowhere else: absolute paths, `..` and \
symbolic links cannot lead out. If DIR is empty, retake first makes the files that the trace must \
have found. It compares each result, error and buffer with the trace. Calls about sockets, \
processes and memory are only followed; the report says how many they were, and why.

If a call does something else than the trace says, replay stops, says what differs, and ends with \
status 120. With --on-mismatch warn, it goes on, and reports all differences at the end.

Examples:
  retake trace -o x.ds -- tar xf source.tar
  retake reanimate x.ds --root fresh                        repeat it in an empty folder
  retake reanimate x.ds --root fresh --compare $PWD/source  and check that the result is the same
  retake reanimate x.ds --root fresh --verify-tree x.tree   and compare it with a manifest
  retake reanimate x.ds --root /mnt/new --speed x2          on another file system, twice as fast as traced
")]
pub struct Options {
    /// The trace, a DataSeries file
    #[arg(value_name = "TRACE")]
    trace: PathBuf,

    /// The folder that takes the place of `/`; made if it does not exist
    #[arg(long, value_name = "DIR")]
    root: PathBuf,

    /// Make the files that the trace must have found
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto", num_args = 0..=1,
        require_equals = true, default_missing_value = "always")]
    prepare: Prepare,

    /// What is compared with the trace
    #[arg(long, value_enum, value_name = "WHAT", default_value = "full")]
    verify: Verify,

    /// Which calls keep their order
    #[arg(long, value_enum, value_name = "ORDER", default_value = "resource")]
    order: Order,

    /// When calls are made: `asap`, `traced` for the pauses of the original, or `xN` for N times as
    /// fast as that
    #[arg(long, value_name = "SPEED", default_value = "asap", value_parser = speed)]
    speed: retake_reanimate::Speed,

    /// The most threads to use. If more threads of the trace live at the same time, some share one
    #[arg(long, value_name = "N", default_value = "256")]
    threads: NonZeroU32,

    /// What to do when a call differs from the trace
    #[arg(long, value_enum, value_name = "WHAT", default_value = "stop")]
    on_mismatch: OnMismatch,

    /// Leave out calls that reserve more than BYTES on disk
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 30)]
    allocation_limit: u64,

    /// Compare the resulting tree with the one at ORIGINAL. PATH says where it was when traced, if
    /// it was elsewhere
    #[arg(long, value_name = "ORIGINAL[=PATH]")]
    compare: Vec<OsString>,

    /// Compare the resulting tree with a manifest of `retake trace --manifest`
    #[arg(long, value_name = "MANIFEST")]
    verify_tree: Vec<PathBuf>,

    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// When the tree that the trace found is made.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Prepare {
    /// If the root is empty
    Auto,
    /// In any case
    Always,
    /// Never: everything is there
    Never,
}

/// What is compared.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Verify {
    /// Results, errors, and all data that calls returned
    Full,
    /// Results and errors
    Results,
    /// Nothing
    None,
}

/// What to do about a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnMismatch {
    /// Go on, and report all of them
    Warn,
    /// End with the first
    Stop,
}

/// Which calls keep their order.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Order {
    /// Calls that use the same file, name, descriptor or process
    Resource,
    /// Also calls that did not overlap in time
    Overlap,
    /// All, one at a time
    Strict,
}

fn speed(text: &str) -> std::result::Result<retake_reanimate::Speed, String> {
    use retake_reanimate::Speed;
    match text {
        "asap" => Ok(Speed::AsSoonAsPossible),
        "traced" => Ok(Speed::Traced(1.0)),
        text => {
            let factor = text.strip_prefix('x').unwrap_or(text).parse::<f64>().ok();
            let factor = factor.filter(|factor| factor.is_finite() && *factor > 0.0);
            factor
                .map(Speed::Traced)
                .ok_or_else(|| String::from("use asap, traced, or a factor such as x2 or x0.5"))
        }
    }
}

impl Options {
    fn for_replay(&self) -> retake_reanimate::Options {
        use retake_reanimate as replay;
        replay::Options {
            verify: match self.verify {
                Verify::Full => replay::Verify::Full,
                Verify::Results => replay::Verify::Results,
                Verify::None => replay::Verify::None,
            },
            order: match self.order {
                Order::Resource => replay::Order::Resource,
                Order::Overlap => replay::Order::Overlap,
                Order::Strict => replay::Order::Strict,
            },
            prepare: match self.prepare {
                Prepare::Auto => replay::Prepare::Auto,
                Prepare::Always => replay::Prepare::Always,
                Prepare::Never => replay::Prepare::Never,
            },
            speed: self.speed,
            threads: self.threads,
            keeps_going: self.on_mismatch == OnMismatch::Warn,
            allocation_limit: self.allocation_limit,
            ..replay::Options::new(&self.root)
        }
    }
}

/// A tree and the result of its comparison.
#[derive(Debug, Serialize)]
struct Compared {
    original: PathBuf,
    copy: PathBuf,
    #[serde(flatten)]
    comparison: Comparison,
}

/// The whole report.
#[derive(Debug, Serialize)]
struct Printed<'report> {
    #[serde(flatten)]
    report: &'report Report,
    compared: &'report [Compared],
}

/// Replays, compares and reports.
pub fn run(options: &Options) -> Result<()> {
    let bar = bar();
    let open = |pass| {
        // The digest of the packed data finds all damage to the file. The digest of the unpacked
        // data would take a sixth of the whole replay's time.
        let reading = TraceReaderOptions {
            digests: Digests::Packed,
            skips_written: pass == Pass::Preparing,
            ..Default::default()
        };
        records(&options.trace, &reading)
    };
    let replayed = reanimate(&options.for_replay(), open, &mut |step| show(&bar, step));
    bar.finish_and_clear();
    let report = replayed.map_err(|error| {
        let failure = Failure::new(error.to_string());
        match error {
            retake_reanimate::Error::Trace(_) => {
                failure.attempt("retake ds info TRACE, which says what can be read of it")
            }
            _ => failure,
        }
    })?;
    let trees = options.compare.iter().map(|what| compare(&options.root, what));
    let manifests = options.verify_tree.iter().map(|file| verify_tree(&options.root, file));
    let compared = trees.chain(manifests).collect::<Result<Vec<_>>>()?;
    let mut output = Output::new();
    if options.json {
        output.json(&Printed { report: &report, compared: &compared })?;
    } else {
        print(&mut output, &report, &compared)?;
    }
    output.finish()?;
    verdict(&report, &compared)
}

type Read = std::result::Result<TraceRecord, TraceError>;

fn records(
    path: &Path,
    options: &TraceReaderOptions,
) -> std::result::Result<impl Iterator<Item = Read> + Send + use<>, TraceError> {
    let mut reader = TraceReader::open(path, options)?;
    Ok(std::iter::from_fn(move || reader.next_record().transpose()))
}

fn bar() -> ProgressBar {
    use std::io::IsTerminal;
    let target = if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(None, target);
    let style = ProgressStyle::with_template("{spinner} {msg} {human_pos} calls, {per_sec}");
    bar.set_style(style.expect("the template is well-formed"));
    bar
}

fn show(bar: &ProgressBar, step: Step) {
    let (message, calls) = match step {
        Step::Preparing(calls) => ("preparing", calls),
        Step::Replaying(calls) => ("replaying", calls),
    };
    bar.set_message(message);
    bar.set_position(calls);
}

fn compare(root: &Path, what: &OsStr) -> Result<Compared> {
    let bytes = what.as_bytes();
    let (original, place) = match bytes.iter().rposition(|byte| *byte == b'=') {
        Some(index) => {
            (OsStr::from_bytes(&bytes[..index]), Some(OsStr::from_bytes(&bytes[index + 1..])))
        }
        None => (what, None),
    };
    let original = std::fs::canonicalize(original)
        .map_err(|error| Failure::system("compare", Path::new(original).display(), &error))?;
    let place = place.map_or_else(|| original.clone(), PathBuf::from);
    let copy = below(root, &place);
    let comparison =
        compare_trees(&original, &copy).map_err(|error| Failure::new(error.to_string()))?;
    Ok(Compared { original, copy, comparison })
}

/// The place below the root of something that was traced at an absolute path.
fn below(root: &Path, place: &Path) -> PathBuf {
    let below: PathBuf =
        place.components().filter(|part| matches!(part, std::path::Component::Normal(_))).collect();
    root.join(below)
}

fn verify_tree(root: &Path, file: &Path) -> Result<Compared> {
    let text =
        std::fs::read(file).map_err(|error| Failure::system("read", file.display(), &error))?;
    let manifest: Manifest = serde_json::from_slice(&text).map_err(|error| {
        Failure::new(format!("{} is not a manifest: {error}", file.display()))
            .attempt("retake trace --manifest FILE, which writes one")
    })?;
    let copy = below(root, Path::new(&manifest.tree));
    let comparison = manifest.compare(&copy).map_err(|error| Failure::new(error.to_string()))?;
    Ok(Compared { original: file.to_owned(), copy, comparison })
}

fn print(output: &mut Output, report: &Report, compared: &[Compared]) -> Result<()> {
    if let Some(prepared) = &report.prepared {
        let counts = format!(
            "{} files, {} directories, {} others",
            prepared.files, prepared.directories, prepared.others
        );
        output.line(format!("prepared    {counts} in {:.2} s", report.preparation_seconds))?;
        prepared
            .failures
            .iter()
            .take(SHOWN)
            .try_for_each(|failure| output.line(format!("            {failure}")))?;
    }
    let simulated: u64 = report.simulated.values().sum();
    let skipped: u64 = report.skipped.values().sum();
    output.line(format!(
        "calls       {} in {:.2} s, by {} threads",
        report.calls, report.replay_seconds, report.threads
    ))?;
    output.line(format!("verified    {}", output.styled(Style::Green, report.verified)))?;
    let style = if report.mismatched == 0 { Style::Green } else { Style::Red };
    output.line(format!("different   {}", output.styled(style, report.mismatched)))?;
    reasons(output, "simulated", simulated, &report.simulated)?;
    reasons(output, "left out", skipped, &report.skipped)?;
    for reason in &report.incomplete {
        output.line(format!("incomplete  {reason}"))?;
    }
    for found in report.mismatches.iter().take(SHOWN) {
        output.line(format!("call {} of thread {}: {}", found.id, found.thread, found.call))?;
        output.line(format!("  expected  {}", found.expected))?;
        output.line(format!("  actual    {}", found.actual))?;
    }
    if report.mismatched as usize > SHOWN {
        output.line(format!("and {} more; --json has them", report.mismatched as usize - SHOWN))?;
    }
    for tree in compared {
        let (count, files) = (tree.comparison.difference_count, tree.comparison.files);
        output.line(format!(
            "compared    {} with {}: {files} files, {count} differences",
            tree.original.display(),
            tree.copy.display()
        ))?;
        for difference in tree.comparison.differences.iter().take(SHOWN) {
            output.line(format!("  {}: {}", difference.path, difference.what))?;
        }
    }
    Ok(())
}

fn reasons(
    output: &mut Output,
    label: &str,
    count: u64,
    reasons: &BTreeMap<&'static str, u64>,
) -> Result<()> {
    output.line(format!("{label:<11} {count}"))?;
    reasons.iter().try_for_each(|(reason, count)| {
        output.line(output.styled(Style::Faint, format!("  {count:>8}  {reason}")))
    })
}

fn verdict(report: &Report, compared: &[Compared]) -> Result<()> {
    if !report.is_faithful() {
        let failure =
            Failure::new("the replay differs from the trace").with_status(STATUS_DIVERGED);
        return Err(if report.stopped {
            failure.attempt("--on-mismatch warn, to see all differences")
        } else {
            failure
        });
    }
    match compared.iter().find(|tree| !tree.comparison.is_same()) {
        Some(tree) => {
            Err(Failure::new(format!("{} differs from the original", tree.copy.display()))
                .with_status(STATUS_DIVERGED))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use retake_reanimate::Speed;

    #[test]
    fn speeds_are_read() {
        assert_eq!(speed("asap"), Ok(Speed::AsSoonAsPossible));
        assert_eq!(speed("traced"), Ok(Speed::Traced(1.0)));
        assert_eq!(speed("x2.5"), Ok(Speed::Traced(2.5)));
        for wrong in ["", "x", "x0", "x-1", "xinf", "fast"] {
            assert!(speed(wrong).is_err(), "{wrong}");
        }
    }
}
