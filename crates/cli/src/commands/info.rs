//! `retake info`: shows everything that a recording says about itself.

mod build_ids;
mod mapped_names;

use std::collections::BTreeMap;
use std::ffi::OsString;

use clap::Args;
use retake_model::{Dropped, EventKind, errno, table};
use retake_recording::{
    EventReader, LeftOut, Metadata, Numbered, Policy, Recording, StreamKind, Warning,
};
use retake_supervisor::runtime;
use serde::Serialize;

use crate::failure::{Failure, Result};
use crate::machine;
use crate::output::{Output, Style, Table};
use crate::recordings;
use crate::text;

/// Options of `retake info`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  retake info                     the latest recording
  retake info make-1 --calls      with a count of every system call
  retake info --build-ids --json | jq -r '.build_ids[].build_id'
                                  the ids by which debuginfod finds sources and symbols
  retake info old.retake --verify read everything and say what is damaged; status 125 if anything is
")]
pub struct Options {
    /// A name, a path, or `latest`
    #[arg(value_name = "RECORDING", default_value = "latest", hide_default_value = true)]
    recording: OsString,

    /// Count the system calls, by reading all events
    #[arg(long)]
    calls: bool,

    /// List the ELF files that programs mapped, with their build ids, by reading all events
    #[arg(long)]
    build_ids: bool,

    /// Read everything, to find all damage
    #[arg(long)]
    verify: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Everything that is shown.
#[derive(Debug, Serialize)]
struct Info<'recording> {
    path: String,
    is_packed: bool,
    file_bytes: u64,
    stream_count: usize,
    event_count: u64,
    content_count: usize,
    content_bytes: u64,
    /// The number of kept checkpoints.
    checkpoint_count: usize,
    /// The bytes of their files.
    checkpoint_bytes: u64,
    /// The percentage of calls that were handled without stopping the thread; absent if nothing was
    /// counted. Where calls were not counted, it is the percentage of events, most of which are
    /// calls.
    without_stop_percent: Option<f64>,
    #[serde(skip)]
    is_of_calls: bool,
    /// Why the recording cannot be replayed here.
    obstacles: Vec<String>,
    warnings: Vec<String>,
    /// What was dropped while recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    dropped: Option<DroppedCounts>,
    #[serde(skip)]
    dropped_text: Option<String>,
    /// What threads did before the images at which replay begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<LeftOut>,
    #[serde(skip)]
    left_out_text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    calls: Option<BTreeMap<String, CallCount>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    build_ids: Option<Vec<build_ids::Built>>,
    metadata: &'recording Metadata,
}

/// What `--keep-last` has dropped.
#[derive(Debug, Serialize)]
struct DroppedCounts {
    processes: u64,
    /// Threads that are dropped completely.
    streams: u64,
    /// Threads of which only the beginning is left.
    cut_streams: u64,
    events: u64,
    stream_bytes: u64,
    /// Calls whose output is not printed at replay.
    console_writes: u64,
    /// The time by which all these processes had ended, in milliseconds since recording began.
    until_ms: f64,
}

impl DroppedCounts {
    fn of(dropped: &Dropped) -> Option<Self> {
        (!dropped.is_nothing()).then(|| Self {
            processes: dropped.processes,
            streams: dropped.streams.count(),
            cut_streams: dropped.cut.count(),
            events: dropped.events,
            stream_bytes: dropped.bytes,
            console_writes: dropped.console.count(),
            until_ms: dropped.until_ns as f64 / 1e6,
        })
    }
}

/// The number of uses of a system call, and of its failures.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
struct CallCount {
    count: u64,
    errors: u64,
}

/// Prints the description of a recording.
pub fn run(options: &Options) -> Result<()> {
    let recording = recordings::open(&options.recording)?;
    let info = collect(&recording, options)?;
    let mut output = Output::new();
    if options.json {
        output.json(&info)?;
    } else {
        print(&info, &mut output)?;
    }
    let damage_count = info.warnings.len();
    output.finish()?;
    if options.verify && damage_count > 0 {
        return Err(Failure::new(format!("the recording is not whole: {damage_count} warnings")));
    }
    Ok(())
}

fn collect<'recording>(
    recording: &'recording Recording,
    options: &Options,
) -> Result<Info<'recording>> {
    let metadata = recording.metadata();
    let contents = recording.contents()?;
    let calls = options.calls.then(|| count_calls(recording)).transpose()?;
    let warnings: Vec<Warning> = if options.verify {
        let mut warnings = recording.check()?;
        warnings.extend(recording.check_events()?);
        warnings
    } else {
        recording.warnings().to_vec()
    };
    let streams: Vec<_> =
        recording.streams().filter(|stream| stream.info.kind != StreamKind::Supervisor).collect();
    let dropped = recordings::dropped(recording);
    let checkpoints = recordings::checkpoints(recording).list()?;
    let event_count = streams.iter().map(|stream| stream.event_count).fold(0, u64::saturating_add);
    let call_count = calls
        .as_ref()
        .map(|calls| calls.values().map(|call| call.count).sum())
        .or_else(|| counter(metadata, "calls"));
    Ok(Info {
        path: recording.path().to_string_lossy().into_owned(),
        is_packed: recording.is_packed(),
        file_bytes: recording.file_bytes(),
        stream_count: streams.len(),
        event_count,
        content_count: contents.len(),
        content_bytes: contents.iter().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes)),
        checkpoint_count: checkpoints.len(),
        checkpoint_bytes: checkpoints.iter().map(|kept| kept.bytes).fold(0, u64::saturating_add),
        is_of_calls: call_count.is_some(),
        without_stop_percent: without_stop(metadata, call_count.unwrap_or(event_count)),
        obstacles: obstacles(recording),
        warnings: warnings.iter().map(ToString::to_string).collect(),
        dropped: DroppedCounts::of(&dropped),
        dropped_text: recordings::dropped_text(&dropped),
        left_out: recording.begins_late().then(|| recording.left_out()),
        left_out_text: recordings::left_out_text(recording),
        calls,
        build_ids: options.build_ids.then(|| build_ids::of(recording)).transpose()?,
        metadata,
    })
}

fn counter(metadata: &Metadata, name: &str) -> Option<u64> {
    metadata.outcome.as_ref()?.counters.get(name).copied()
}

fn without_stop(metadata: &Metadata, calls: u64) -> Option<f64> {
    let stops = counter(metadata, "ptrace_stops")?;
    (calls > 0).then(|| 100.0 * (1.0 - stops.min(calls) as f64 / calls as f64))
}

fn obstacles(recording: &Recording) -> Vec<String> {
    let metadata = recording.metadata();
    // The first line says what is the matter, the others what to do.
    let said = runtime::check(recording).map_err(|error| error.to_string()).err();
    let first = said.as_deref().and_then(|text| text.lines().next());
    let mut obstacles: Vec<String> = first.map(str::to_owned).into_iter().collect();
    let missing = machine::missing_features(&metadata.machine.features_needed);
    if !missing.is_empty() {
        obstacles.push(format!("this processor lacks {}", missing.join(" ")));
    }
    obstacles
}

fn count_calls(recording: &Recording) -> Result<BTreeMap<String, CallCount>> {
    let mut by_number: BTreeMap<u16, CallCount> = BTreeMap::new();
    for stream in recording.streams() {
        let mut reader = EventReader::new(recording, stream.info.id)?;
        let mut begun_exec = None;
        while let Some(Numbered { kind, event, .. }) = reader.next()? {
            // An exec that begins and then fails is logged as a call, too.
            if let (Some(number), Some(EventKind::Exec)) = (begun_exec.take(), kind) {
                by_number.entry(number).or_default().count += 1;
            }
            match event {
                Ok(event) if event.is_begun_exec() => begun_exec = Some(event.number()),
                Ok(event) if event.kind() == EventKind::Call => {
                    let call = by_number.entry(event.number()).or_default();
                    call.count += 1;
                    call.errors += u64::from(errno::of_result(event.value()).is_some());
                }
                _ => {}
            }
        }
    }
    let name = |number| {
        table::call(number).map_or_else(|| format!("syscall_{number}"), |row| row.name.to_owned())
    };
    Ok(by_number.into_iter().map(|(number, count)| (name(number), count)).collect())
}

fn print(info: &Info<'_>, output: &mut Output) -> Result<()> {
    for (label, value) in lines(info) {
        let label = output.styled(Style::Bold, format!("{label:<12}"));
        output.line(format!("{label}{}", text::harmless(&value)))?;
    }
    for (label, texts, style) in
        [("not here", &info.obstacles, Style::Red), ("warning", &info.warnings, Style::Yellow)]
    {
        for text in texts {
            let label = output.styled(style, format!("{label:<12}"));
            output.line(format!("{label}{}", text::harmless(text)))?;
        }
    }
    if let Some(calls) = &info.calls {
        output.line("")?;
        print_calls(calls, output)?;
    }
    if let Some(built) = &info.build_ids {
        output.line("")?;
        build_ids::print(built, output)?;
    }
    Ok(())
}

type Line = (&'static str, String);

fn lines(info: &Info<'_>) -> Vec<Line> {
    let mut lines = lines_of_run(info);
    lines.extend(lines_of_counts(info));
    lines.extend(lines_of_making(info.metadata));
    lines
}

/// The command, and how it ended.
fn lines_of_run(info: &Info<'_>) -> Vec<Line> {
    let metadata = info.metadata;
    let (duration, exit) = match &metadata.outcome {
        Some(outcome) => (text::duration(outcome.duration_ms), text::exit(outcome.exit)),
        None => ("unknown".to_owned(), "unknown: the recording has no end".to_owned()),
    };
    let environment = format!("{} variables", metadata.environment_count);
    vec![
        ("recording", info.path.clone()),
        ("command", text::command(&metadata.arguments)),
        ("program", metadata.command.to_string_lossy()),
        ("folder", metadata.working_directory.to_string_lossy()),
        ("environment", environment),
        ("started", text::local_time(metadata.started_unix_ms)),
        ("duration", duration),
        ("exit", exit),
    ]
}

/// The sizes of the recording.
fn lines_of_counts(info: &Info<'_>) -> Vec<Line> {
    let events = text::count(info.event_count);
    let streams = text::count(info.stream_count as u64);
    let files = text::count(info.content_count as u64);
    let (file_bytes, content_bytes) =
        (text::bytes(info.file_bytes), text::bytes(info.content_bytes));
    let mut lines = vec![
        ("events", format!("{events} in {streams} streams, {file_bytes}")),
        ("files", format!("{files} with {content_bytes}")),
    ];
    if info.checkpoint_count > 0 {
        lines.push((
            "checkpoints",
            format!(
                "{} with {}",
                text::count(info.checkpoint_count as u64),
                text::bytes(info.checkpoint_bytes)
            ),
        ));
    }
    if let Some(percent) = info.without_stop_percent {
        let stops = text::count(counter(info.metadata, "ptrace_stops").unwrap_or(0));
        let what = if info.is_of_calls { "calls" } else { "events" };
        let text = format!("{stops} ptrace stops; {percent:.3} % of the {what} needed none");
        lines.push(("stops", text));
    }
    lines.extend(line_of_dropped(info));
    lines.extend(info.left_out_text.clone().map(|text| ("left out", text)));
    lines.extend(line_of_calls(info.metadata));
    lines.extend(line_of_threads(info.metadata));
    lines.extend(line_of_forced(info.metadata));
    lines.extend(counter(info.metadata, "execs").map(|value| ("execs", text::count(value))));
    lines
}

/// What was dropped, and what follows from that.
fn line_of_dropped(info: &Info<'_>) -> Option<Line> {
    let (text, counts) = info.dropped_text.as_ref().zip(info.dropped.as_ref())?;
    let printed = match counts.console_writes {
        0 => String::new(),
        count => format!(", except what these processes printed ({} writes)", text::count(count)),
    };
    Some(("left out", format!("{text}; all else can be replayed{printed}")))
}

/// How the calls reached the runtime.
fn line_of_calls(metadata: &Metadata) -> Option<Line> {
    let calls = counter(metadata, "calls")?;
    let dispatched = counter(metadata, "dispatched_calls")?.min(calls);
    let fast = calls - dispatched;
    let percent = if calls == 0 { 100.0 } else { 100.0 * fast as f64 / calls as f64 };
    let (calls, fast, dispatched) =
        (text::count(calls), text::count(fast), text::count(dispatched));
    Some((
        "calls",
        format!("{calls}: {fast} ({percent:.3} %) from patched code, {dispatched} by dispatch"),
    ))
}

/// How often the threads waited for each other.
fn line_of_threads(metadata: &Metadata) -> Option<Line> {
    let [threads, turns, waits, wait_us] =
        ["threads", "turns", "baton_waits", "baton_wait_us"].map(|name| counter(metadata, name));
    let (threads, turns, waits) = (text::count(threads?), text::count(turns?), text::count(waits?));
    let waited = text::duration(wait_us? / 1000);
    Some((
        "threads",
        format!("{threads}, {turns} turns, waited {waits} times for a turn, {waited} in all"),
    ))
}

/// The number of places between events at which threads were stopped. The cost of finding them
/// again is known only after a replay.
fn line_of_forced(metadata: &Metadata) -> Option<Line> {
    let forced = counter(metadata, "forced_points")?;
    let hint = if forced == 0 {
        ""
    } else {
        "; what it costs to find them again: retake replay --statistics"
    };
    Some(("forced", format!("{} places between events{hint}", text::count(forced))))
}

/// The policy. If it was chosen automatically, also the choice and its reason.
fn policy(metadata: &Metadata) -> String {
    let name = format!("{:?}", metadata.policy).to_lowercase();
    let Some(outcome) = metadata.outcome.as_ref().filter(|_| metadata.policy == Policy::Auto)
    else {
        return name;
    };
    let count = |name: &str| outcome.counters.get(name).copied().unwrap_or_default();
    let [parallel, serial] = [count("parallel_processes"), count("serial_processes")];
    let because = outcome.serial_because.as_ref().map_or(String::new(), |code| {
        format!(" because of {code}, which does not tell by what threads synchronise")
    });
    let late = outcome.untold_late.as_ref().map_or(String::new(), |code| {
        format!("; not known to be exact: {code} came when they ran (--policy serial is exact)")
    });
    let between = match count("signals_between") {
        0 => String::new(),
        signals => format!(
            "; not known to be exact: signals came to threads that computed, {} times (--policy \
             serial is exact)",
            text::count(signals)
        ),
    };
    format!(
        "{name}; with threads: {parallel} in parallel, {serial} in turns{because}{late}{between}"
    )
}

/// How and where the recording was made.
fn lines_of_making(metadata: &Metadata) -> Vec<Line> {
    let machine = &metadata.machine;
    let settings: Vec<String> =
        metadata.settings.iter().map(|(name, value)| format!("{name} {value}")).collect();
    let retake = format!(
        "{}, contract {}.{}, runtime {:.12}",
        metadata.retake_version,
        metadata.contract_version,
        metadata.contract_revision,
        metadata.runtime_hash
    );
    vec![
        ("check", format!("{:?}", metadata.check_level).to_lowercase()),
        ("policy", policy(metadata)),
        ("settings", settings.join(", ")),
        ("machine", format!("Linux {}, {}", machine.kernel, machine.cpu_model)),
        ("features", machine.features_needed.join(" ")),
        ("retake", retake),
    ]
}

fn print_calls(calls: &BTreeMap<String, CallCount>, output: &mut Output) -> Result<()> {
    let mut table = Table::new(&["CALLS", "ERRORS", "NAME"], &[0, 1]);
    let mut sorted: Vec<_> = calls.iter().collect();
    sorted.sort_by_key(|(_, call)| std::cmp::Reverse(call.count));
    for (name, call) in sorted {
        table.row([text::count(call.count), text::count(call.errors), name.clone()]);
    }
    table.print(output)
}
