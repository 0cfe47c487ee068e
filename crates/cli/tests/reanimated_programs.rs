//! Traces real programs and reanimates them. The trees must be the same, and every result is
//! verified. `tests/reanimate/README.md` says how to add a program.
//!
//! An ordinary test run includes the programs that take a moment. To run all, or some by name:
//!
//!     RETAKE_PROGRAMS=all cargo test --release -p retake --test reanimated_programs -- --nocapture
//!     RETAKE_PROGRAMS=git-clone,mariadb cargo test --release -p retake \
//!         --test reanimated_programs -- --nocapture

mod cli_support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use cli_support::Place;
use retake_testing::report::Cause;
use retake_trace_format::{TraceReader, TraceReaderOptions, TraceRecord};

/// A file `NAME.program`.
struct Program {
    name: String,
    keys: BTreeMap<String, Vec<String>>,
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

impl Program {
    fn read(path: &Path) -> Self {
        const KEYS: [&str; 8] = [
            "title",
            "requires",
            "packages",
            "prepare",
            "command",
            "quick",
            "recording",
            "limit_seconds",
        ];
        let mut keys: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for line in fs::read_to_string(path)
            .unwrap()
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            let (key, value) = line
                .split_once(" = ")
                .unwrap_or_else(|| panic!("{}: no key: {line}", path.display()));
            assert!(KEYS.contains(&key), "{}: unknown key {key}", path.display());
            keys.entry(key.to_owned()).or_default().push(value.to_owned());
        }
        assert!(
            keys.contains_key("title") && keys.contains_key("command"),
            "{}: title and command are needed",
            path.display()
        );
        Self { name: path.file_stem().unwrap().to_string_lossy().into_owned(), keys }
    }

    fn all(&self, key: &str) -> &[String] {
        self.keys.get(key).map_or(&[], Vec::as_slice)
    }

    fn missing(&self) -> Option<&str> {
        let is_there = |what: &str| match what.starts_with('/') {
            true => Path::new(what).exists(),
            false => ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"]
                .iter()
                .any(|folder| Path::new(folder).join(what).exists()),
        };
        self.all("requires")
            .iter()
            .flat_map(|line| line.split_whitespace())
            .find(|what| !is_there(what))
    }

    fn limit(&self) -> Duration {
        Duration::from_secs(
            self.all("limit_seconds").first().map_or(120, |seconds| seconds.parse().unwrap()),
        )
    }
}

fn environment(command: &mut Command, place: &Place, port: u16) {
    command
        .env("WORK", place.work(""))
        .env("REPOSITORY", repository())
        .env("PROGRAMS", repository().join("tests/reanimate/programs"))
        .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
        .env("PORT", port.to_string());
}

fn prepare(program: &Program, place: &Place, port: u16) {
    fs::create_dir(place.work("made")).unwrap();
    for line in program.all("prepare") {
        let mut command = Command::new("bash");
        environment(command.args(["-e", "-c", line]).current_dir(place.work("")), place, port);
        let done = command.output().unwrap();
        assert!(
            done.status.success(),
            "{}: {line}: {}",
            program.name,
            String::from_utf8_lossy(&done.stderr)
        );
    }
}

/// Checks that the ids of records have no gaps, and that nothing is missing. Returns their number.
fn check_ids(trace: &Path) -> u64 {
    let mut reader = TraceReader::open(trace, &TraceReaderOptions::default()).unwrap();
    let mut last = 0;
    while let Some(record) = reader.next_record().unwrap() {
        match &record {
            TraceRecord::Incomplete(reason) => panic!("incomplete: {reason}"),
            record => assert_eq!(record.id(), Some(last + 1)),
        }
        last += 1;
    }
    last
}

/// Traces the program while it runs. Returns the options that compare the trees.
fn traced(program: &Program, place: &Place, port: u16, method: &str, script: &str) -> [String; 2] {
    let trace = [
        "trace",
        "--method",
        method,
        "-o",
        "x.ds",
        "--manifest",
        "x.tree",
        "--tree",
        "made",
        "--",
        "bash",
        "-e",
        "-c",
        script,
    ];
    let traced =
        place.run_command(&trace, program.limit(), |command| environment(command, place, port));
    assert_eq!(traced.status, Some(0), "{}: {traced:?}", program.name);
    ["--verify-tree".to_owned(), "x.tree".to_owned()]
}

/// Records the program, and traces the recording. Returns the options that compare the trees.
fn recorded(program: &Program, place: &Place, port: u16, script: &str) -> [String; 2] {
    let record = ["record", "--moved-data", "-o", "x.recording", "--", "bash", "-e", "-c", script];
    let recorded =
        place.run_command(&record, program.limit(), |command| environment(command, place, port));
    assert_eq!(recorded.status, Some(0), "{}: {recorded:?}", program.name);
    let traced = place.run_command(
        &["trace", "--from", "x.recording", "-o", "x.ds"],
        program.limit(),
        |_| {},
    );
    assert_eq!(traced.status, Some(0), "{} from its recording: {traced:?}", program.name);
    ["--compare".to_owned(), place.work("made").display().to_string()]
}

fn run(program: &Program, method: &str) {
    let place = Place::new(&format!("program-{}-{method}", program.name));
    // The port is free now. If another process takes it, the program fails and the test notices.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    prepare(program, &place, port);
    let script = format!("cd made\n{}", program.all("command").join("\n"));
    let made = if method == RECORDING {
        recorded(program, &place, port, &script)
    } else {
        traced(program, &place, port, method, &script)
    };
    let records = check_ids(&place.work("x.ds"));
    let replay = ["reanimate", "x.ds", "--root", "fresh", "--json", &made[0], &made[1]];
    let replayed = place.run_command(&replay, program.limit(), |_| {});
    let report: serde_json::Value = serde_json::from_str(&replayed.stdout)
        .unwrap_or_else(|_| panic!("{}: {replayed:?}", program.name));
    assert_eq!(report["mismatched"], 0, "{} by {method}: {}", program.name, report["mismatches"]);
    let skipped = report["skipped"].as_object().unwrap();
    // Holes depend on the file system, so the traced answer is used.
    assert!(
        skipped.keys().all(|reason| reason == "places of holes in files"),
        "{} by {method}: {skipped:?}",
        program.name
    );
    assert_eq!(
        report["compared"][0]["difference_count"], 0,
        "{} by {method}: {}",
        program.name, report["compared"]
    );
    assert!(
        report["compared"][0]["files"].as_u64() > Some(0),
        "{}: nothing was made",
        program.name
    );
    eprintln!(
        "{} by {method}: {records} records, {} verified, {:.2} s",
        program.name,
        report["verified"],
        report["replay_seconds"].as_f64().unwrap()
    );
}

/// The method that records the program, and traces the recording.
const RECORDING: &str = "recording";

/// The methods to test. eBPF needs privilege, and clang when retake was built. `RETAKE_METHODS` may
/// name some.
fn methods() -> Vec<String> {
    if let Ok(named) = std::env::var("RETAKE_METHODS") {
        return named.split(',').map(str::to_owned).collect();
    }
    let place = Place::new("program-methods");
    let has_kernel =
        place.run(&["trace", "--method", "ebpf", "-o", "out.txt", "true"]).status == Some(0);
    ["in-process", "ptrace", RECORDING]
        .iter()
        .chain(has_kernel.then_some(&"ebpf"))
        .map(|method| (*method).to_owned())
        .collect()
}

#[test]
fn real_programs_leave_the_same_trees() {
    let folder = repository().join("tests/reanimate");
    let files = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let mut programs: Vec<Program> = files
        .filter(|path| path.extension().is_some_and(|it| it == "program"))
        .map(|path| Program::read(&path))
        .collect();
    programs.sort_by(|left, right| left.name.cmp(&right.name));
    let wanted = std::env::var("RETAKE_PROGRAMS").unwrap_or_default();
    let is_wanted = |program: &Program| match wanted.as_str() {
        "" => !program.all("quick").is_empty(),
        "all" => true,
        names => names.split(',').any(|name| name == program.name),
    };
    let methods = methods();
    for program in programs.iter().filter(|program| is_wanted(program)) {
        if let Some(missing) = program.missing() {
            let reason = format!(
                "{}: no {missing} (Debian: {})",
                program.name,
                program.all("packages").join(" ")
            );
            retake_testing::report::skip(Cause::NotInstalled, &reason);
            continue;
        }
        let is_told =
            |method: &&String| *method != RECORDING || !program.all("recording").is_empty();
        methods.iter().filter(is_told).for_each(|method| run(program, method));
    }
}
