//! Workload files: lines of `key = value`, `#` for comments. docs/BENCHMARKS.md lists the keys.

use std::path::Path;

use super::Result;

/// The most memory of the supervisor while it records, in MB.
const MEMORY_LIMIT_MB: u64 = 64;

/// The baseline of record and replay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Baseline {
    #[default]
    Native,
    /// The program natively on one core. For programs with threads, which take turns while
    /// recorded.
    OneCore,
}

/// The place of a workload's files while it runs. Recordings are always on disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Place {
    #[default]
    Disk,
    /// In /dev/shm if there is room. For workloads with so many new and removed files that they
    /// would measure the disk.
    Memory,
}

/// One workload file.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Workload {
    /// The file's name without its number.
    pub name: String,
    /// The title for people.
    pub title: String,
    /// Required commands, or absolute paths of programs. The workload is skipped without them.
    pub requires: Vec<String>,
    /// The Debian packages that have them.
    pub packages: String,
    /// Programs of `benches/programs` to compile into the work folder, without their `.c`.
    pub compile: Vec<String>,
    /// A bash script that prepares the work folder.
    pub prepare: String,
    /// A bash script that runs before each run, or empty.
    pub reset: String,
    /// The folder in which the command runs. Empty for the work folder.
    pub folder: String,
    /// The measured program and its arguments.
    pub command: Vec<String>,
    pub baseline: Baseline,
    /// The highest good ratio of recording to the baseline.
    pub record_limit: Option<f64>,
    /// The highest good ratio of replay to the baseline. In any case, replay must not be slower
    /// than the recording.
    pub replay_limit: Option<f64>,
    /// The highest good ratios of recording and replay to the native program on all cores, with the
    /// better policy. If set, `--policy sync` is measured, too.
    pub parallel_limits: Option<(f64, f64)>,
    pub memory_limit_mb: u64,
    pub place: Place,
    /// The free space that it needs there, in MB.
    pub disk_mb: u64,
    /// For servers, a bash script that succeeds once the server answers. Empty for a program that
    /// ends by itself.
    pub ready: String,
    /// For servers, a bash script that drives the server and prints the figures. It is not
    /// recorded.
    pub load: String,
    /// The signal that ends a server.
    pub stop: String,
    /// The lowest good ratio of a recorded server's throughput to the native one's.
    pub throughput_limit: Option<f64>,
    /// The highest good ratio of the 99.9th percentile of latency.
    pub latency_limit: Option<f64>,
    /// An estimate of the least possible cost, as `record / replay`, for people. The figures of
    /// others follow.
    pub floor: String,
    pub published: String,
    pub same_machine: String,
}

impl Workload {
    /// Returns the name that selects it, and its title.
    pub fn name_and_title(&self) -> (&str, &str) {
        (&self.name, &self.title)
    }

    /// Returns whether it has to be driven and stopped.
    pub fn is_server(&self) -> bool {
        !self.load.is_empty()
    }

    /// Returns the highest good ratio of time per request or run, recorded to the baseline.
    pub fn record_ratio_limit(&self) -> Option<f64> {
        self.record_limit.or(self.throughput_limit.map(f64::recip))
    }
}

/// Reads all workload files of `folder`, in the order of their names.
///
/// # Errors
/// A file cannot be read or has a mistake, with its line.
pub fn read_all(folder: &Path) -> Result<Vec<Workload>> {
    let mut paths = Vec::new();
    for entry in
        std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?
    {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "workload") {
            paths.push(path);
        }
    }
    paths.sort();
    let mut workloads = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path)?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let name = stem.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '-');
        let workload = parse(name, &text);
        workloads.push(workload.map_err(|error| format!("{}:{error}", path.display()))?);
    }
    Ok(workloads)
}

/// Parses one file. An error starts with the number of its line.
pub fn parse(name: &str, text: &str) -> std::result::Result<Workload, String> {
    let mut workload = Workload {
        name: name.to_owned(),
        memory_limit_mb: MEMORY_LIMIT_MB,
        stop: "TERM".to_owned(),
        ..Workload::default()
    };
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        set(&mut workload, line).map_err(|error| format!("{}: {error}", index + 1))?;
    }
    let last = text.lines().count();
    let missing = [
        ("title", workload.title.is_empty()),
        ("command", workload.command.is_empty()),
        ("a name", workload.name.is_empty()),
        ("load", workload.load.is_empty() && !workload.ready.is_empty()),
        ("ready", workload.ready.is_empty() && workload.is_server()),
    ];
    for (key, is_missing) in missing {
        if is_missing {
            return Err(format!("{last}: {key} is missing"));
        }
    }
    Ok(workload)
}

fn set(workload: &mut Workload, line: &str) -> std::result::Result<(), String> {
    let (key, value) = line.split_once('=').ok_or("not `key = value`")?;
    let value = value.trim_end();
    let trimmed = value.trim();
    match key.trim() {
        "title" => workload.title = trimmed.to_owned(),
        "requires" => workload.requires = words(trimmed),
        "packages" => workload.packages = trimmed.to_owned(),
        "compile" => workload.compile = words(trimmed),
        "prepare" => append_line(&mut workload.prepare, value),
        "reset" => append_line(&mut workload.reset, value),
        "folder" => workload.folder = trimmed.to_owned(),
        "command" => workload.command = split_command(trimmed)?,
        "baseline" => workload.baseline = parse_baseline(trimmed)?,
        "place" => workload.place = parse_place(trimmed)?,
        "record_limit" => workload.record_limit = Some(parse_ratio(trimmed)?),
        "replay_limit" => workload.replay_limit = Some(parse_ratio(trimmed)?),
        "parallel_limits" => workload.parallel_limits = Some(parse_ratios(trimmed)?),
        "memory_limit_mb" => workload.memory_limit_mb = parse_number(trimmed)?,
        "disk_mb" => workload.disk_mb = parse_number(trimmed)?,
        "ready" => append_line(&mut workload.ready, value),
        "load" => append_line(&mut workload.load, value),
        "stop" => workload.stop = trimmed.to_owned(),
        "throughput_limit" => workload.throughput_limit = Some(parse_ratio(trimmed)?),
        "latency_limit" => workload.latency_limit = Some(parse_ratio(trimmed)?),
        "floor" => workload.floor = trimmed.to_owned(),
        "published" => workload.published = trimmed.to_owned(),
        "same_machine" => workload.same_machine = trimmed.to_owned(),
        other => return Err(format!("no such key: {other}")),
    }
    Ok(())
}

fn words(value: &str) -> Vec<String> {
    value.split_whitespace().map(str::to_owned).collect()
}

fn append_line(script: &mut String, line: &str) {
    script.push_str(line.strip_prefix(' ').unwrap_or(line));
    script.push('\n');
}

fn parse_baseline(value: &str) -> std::result::Result<Baseline, String> {
    match value {
        "native" => Ok(Baseline::Native),
        "one-core" => Ok(Baseline::OneCore),
        _ => Err(format!("baseline is native or one-core, not {value}")),
    }
}

fn parse_place(value: &str) -> std::result::Result<Place, String> {
    match value {
        "disk" => Ok(Place::Disk),
        "memory" => Ok(Place::Memory),
        _ => Err(format!("place is disk or memory, not {value}")),
    }
}

fn parse_ratio(value: &str) -> std::result::Result<f64, String> {
    match value.parse::<f64>() {
        Ok(ratio) if ratio.is_finite() && ratio > 0.0 => Ok(ratio),
        _ => Err(format!("not a ratio: {value}")),
    }
}

/// Parses `record / replay`.
fn parse_ratios(value: &str) -> std::result::Result<(f64, f64), String> {
    let (record, replay) =
        value.split_once('/').ok_or_else(|| format!("not `record / replay`: {value}"))?;
    Ok((parse_ratio(record.trim())?, parse_ratio(replay.trim())?))
}

fn parse_number(value: &str) -> std::result::Result<u64, String> {
    value.parse().map_err(|_| format!("not a number: {value}"))
}

/// Splits at blanks outside single or double quotes. There is no escape character.
fn split_command(text: &str) -> std::result::Result<Vec<String>, String> {
    let mut arguments = Vec::new();
    let mut current: Option<String> = None;
    let mut quote = None;
    for letter in text.chars() {
        if quote == Some(letter) {
            quote = None;
        } else if quote.is_none() && matches!(letter, '\'' | '"') {
            quote = Some(letter);
            current.get_or_insert_default();
        } else if quote.is_none() && letter.is_whitespace() {
            arguments.extend(current.take());
        } else {
            current.get_or_insert_default().push(letter);
        }
    }
    if let Some(quote) = quote {
        return Err(format!("a {quote} is not closed"));
    }
    arguments.extend(current);
    Ok(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read() {
        let text = "# why\ntitle = A b\nrequires = gcc  xz\nprepare = for x in 1; do\nprepare \
        =     echo = $x\nprepare = done\n\
                    command = sh -c 'a  b'\nbaseline = one-core\nrecord_limit = 1.4\ndisk_mb = 5\n";
        let workload = parse("it", text).unwrap();
        assert_eq!(workload.title, "A b");
        assert_eq!(workload.requires, ["gcc", "xz"]);
        assert_eq!(workload.prepare, "for x in 1; do\n    echo = $x\ndone\n");
        assert_eq!(workload.command, ["sh", "-c", "a  b"]);
        assert_eq!(workload.baseline, Baseline::OneCore);
        assert_eq!((workload.record_limit, workload.replay_limit), (Some(1.4), None));
        assert_eq!((workload.disk_mb, workload.memory_limit_mb), (5, MEMORY_LIMIT_MB));
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        for (text, expected) in [
            ("title = a\nnonsense\n", "2: not `key = value`"),
            ("titel = a\n", "1: no such key: titel"),
            ("title = a\n", "1: command is missing"),
            ("command = a\n", "1: title is missing"),
            ("command = 'a\n", "1: a ' is not closed"),
            ("title = a\ncommand = a\nload = b\n", "3: ready is missing"),
            ("throughput_limit = 0\n", "1: not a ratio: 0"),
            ("record_limit = -1\n", "1: not a ratio: -1"),
            ("record_limit = inf\n", "1: not a ratio: inf"),
            ("baseline = two\n", "1: baseline is native or one-core, not two"),
            ("place = here\n", "1: place is disk or memory, not here"),
            ("disk_mb = 1e3\n", "1: not a number: 1e3"),
        ] {
            assert_eq!(parse("it", text), Err(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn servers_have_limits_of_their_own() {
        let text = "title = a\ncommand = a\nready = b\nload = c\nload = d\nthroughput_limit = \
        0.8\nstop = INT\n";
        let server = parse("it", text).unwrap();
        assert!(server.is_server());
        assert_eq!(
            (server.load.as_str(), server.stop.as_str(), server.record_ratio_limit()),
            ("c\nd\n", "INT", Some(1.25))
        );
        assert_eq!(parse("it", "title = a\ncommand = a\n").unwrap().stop, "TERM");
    }

    #[test]
    fn commands_are_split() {
        let split = |text| split_command(text).unwrap();
        assert_eq!(split("a 'b c'd  \"e'f\" ''"), ["a", "b cd", "e'f", ""]);
        assert!(split("  ").is_empty());
    }

    #[test]
    fn the_workloads_of_this_repository_are_right() {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let workloads = read_all(&repository.join("benches/workloads")).unwrap();
        assert!(workloads.len() >= 40);
        for workload in workloads {
            for program in &workload.compile {
                let source = repository.join(format!("benches/programs/{program}.c"));
                assert!(source.is_file(), "{}", source.display());
            }
        }
    }
}
