//! What `info`, `ps`, `dump` and `replay --statistics` say about calls, threads and processes.

mod cli_support;

use std::fs;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cli_support::Place;
use retake_testing::needs;

#[test]
fn nearly_no_call_of_git_log_needs_a_stop() {
    needs!("git");
    let place = Place::new("accounts-git");
    let make = "git init -q . && for i in $(seq 1 60); do seq $i $((i + 300)) > a; git add a; \
                git -c user.name=n -c user.email=e@x commit -q -m $i || exit 1; done";
    assert!(
        Command::new("sh")
            .args(["-c", make])
            .current_dir(place.work(""))
            .env("HOME", place.work(""))
            .status()
            .unwrap()
            .success()
    );
    let recorded = place.run(&["record", "git", "log", "-p"]);
    assert_eq!(recorded.status, Some(0), "{recorded:?}");
    let info = place.run_json(&["info", "--json"]);
    let counter = |name: &str| {
        info["metadata"]["outcome"]["counters"][name]
            .as_u64()
            .unwrap_or_else(|| panic!("no counter {name}"))
    };
    let (calls, stops, dispatched) =
        (counter("calls"), counter("ptrace_stops"), counter("dispatched_calls"));
    assert!(calls > 1000 * stops, "{stops} stops for {calls} calls");
    assert!(calls > 20 * dispatched, "{dispatched} of {calls} calls were caught by dispatch");
    let counted: u64 = place.run_json(&["info", "--json", "--calls"])["calls"]
        .as_object()
        .unwrap()
        .values()
        .map(|call| call["count"].as_u64().unwrap())
        .sum();
    // An exit is a call as well as an event of its own kind.
    assert!(
        counted <= calls && calls <= counted + counter("threads"),
        "{counted} calls in the streams, {calls} were counted while recording"
    );
    let replayed = place.run(&["replay", "--quiet", "--statistics"]);
    assert_eq!(replayed.status, Some(0), "{replayed:?}");
    assert!(replayed.stderr.contains("without a ptrace stop"), "{replayed:?}");
}

/// The supervisor's peak memory while a script ran, in KB.
fn peak_while_recording(place: &Place, script: &str) -> u64 {
    let mut recorder =
        place.command(&["record", "sh", "-c", script]).stdout(Stdio::null()).spawn().unwrap();
    let (mut peak_kb, start) = (0, Instant::now());
    let ended = loop {
        let status =
            fs::read_to_string(format!("/proc/{}/status", recorder.id())).unwrap_or_default();
        let high_water = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse().ok());
        peak_kb = peak_kb.max(high_water.unwrap_or(0));
        if let Some(ended) = recorder.try_wait().unwrap() {
            break ended;
        }
        if start.elapsed() > Duration::from_secs(60) {
            recorder.kill().unwrap();
        }
        sleep(Duration::from_millis(2));
    };
    assert!(ended.success(), "{script}: {ended}");
    peak_kb
}

#[test]
fn the_supervisor_needs_little_memory() {
    let place = Place::new("accounts-memory");
    for script in [
        "head -c 100000000 /dev/zero > zeros; dd if=zeros of=/dev/null bs=64k",
        "for i in $(seq 60); do (sleep 0.3) & done; wait",
        "seq 400000 | sort | tail -n 1",
    ] {
        let peak_kb = peak_while_recording(&place, script);
        assert!((1000..=64 << 10).contains(&peak_kb), "{peak_kb} KB while recording {script}");
    }
}

#[test]
fn processes_and_threads_have_times_and_turns() {
    let place = Place::new("accounts-ps");
    place.run_well(&["record", "sh", "-c", "sleep 0.1; true & wait"]);
    let processes = place.run_json(&["ps", "--json"]);
    let processes = processes.as_array().unwrap();
    assert!(processes.len() >= 2, "{processes:?}");
    let time = |process: &serde_json::Value, name: &str| {
        process[name].as_f64().unwrap_or_else(|| panic!("no {name} in {process}"))
    };
    for process in processes {
        assert!(time(process, "started_ms") <= time(process, "ended_ms"), "{process}");
        let threads = process["threads"].as_array().unwrap();
        assert_eq!(threads.len() as u64, process["thread_count"].as_u64().unwrap());
        assert!(threads.iter().all(|thread| thread["waits"].is_u64()), "{process}");
    }
    let is_sleep = |process: &&serde_json::Value| {
        process["program"].as_str().is_some_and(|program| program.ends_with("/sleep"))
    };
    let sleep =
        processes.iter().find(is_sleep).unwrap_or_else(|| panic!("no sleep in {processes:?}"));
    let slept = time(sleep, "ended_ms") - time(sleep, "started_ms");
    assert!((100.0..10_000.0).contains(&slept), "{sleep}");
    assert!(
        time(&processes[0], "ended_ms") >= time(sleep, "ended_ms"),
        "the shell waits for it: {processes:?}"
    );
    let text = place.run_well(&["ps", "--threads"]);
    assert!(text.lines().next().unwrap().contains("TURNS"), "{text}");
    let info = place.run_well(&["info"]);
    for part in ["from patched code", "turns, waited", "places between events"] {
        assert!(info.contains(part), "{part:?} is not in {info}");
    }
    let dump = place.run_well(&["dump", "--kind", "thread"]);
    assert!(dump.contains("thread of stream 0: from "), "{dump}");
    let lines = place.run_well(&["dump", "--kind", "thread", "--json"]);
    let accounts: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let account = accounts.iter().find(|account| account["of_stream"] == 0).unwrap();
    let of_ps = processes.iter().find(|process| process["stream"] == account["of_stream"]).unwrap();
    for name in ["calls", "dispatched_calls", "signals", "waits", "waited_ms"] {
        assert_eq!(account[name], of_ps["threads"][0][name], "{name} of {account}");
    }
    assert!(account["calls"].as_u64().unwrap() > 10, "{account}");
    assert!(
        !place.run_well(&["dump"]).contains("thread of stream"),
        "what the supervisor notes is no event of the program"
    );
}

/// Replay repeats a write to a mapped file, which costs more than the write itself. Writes to other
/// files are not repeated, however many files are mapped.
#[test]
fn writes_to_a_file_that_is_not_mapped_are_left_alone() {
    needs!("python3");
    let place = Place::new("accounts-mapped-files");
    let script = "import mmap, os\n\
                  kept = []\n\
                  for i in range(150):\n\
                  \x20   with open(f'file-{i}', 'w+b') as file:\n\
                  \x20       file.write(b'x' * 5000); file.flush()\n\
                  \x20       kept.append(mmap.mmap(file.fileno(), 5000, prot=mmap.PROT_READ))\n\
                  with open('file-1', 'r+b') as file: file.write(b'changed')\n\
                  with open('log', 'wb', 0) as log:\n\
                  \x20   for i in range(1000): log.write(b'line')\n\
                  \x20   print(os.stat(log.fileno()).st_ino, os.stat('file-1').st_ino, kept[1][:7])\n";
    let recorded = place.run(&["record", "python3", "-c", script]);
    assert_eq!(recorded.status, Some(0), "{recorded:?}");
    let numbers: Vec<u64> =
        recorded.stdout.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let outcome = place.run_json(&["info", "--json"])["metadata"]["outcome"].clone();
    let changed: Vec<u64> = outcome["changed_files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file[1].as_u64().unwrap())
        .collect();
    assert!(
        changed.contains(&numbers[1]) && !changed.contains(&numbers[0]),
        "{numbers:?} {changed:?}"
    );
    assert_eq!(place.run(&["replay"]).stdout, recorded.stdout);
}
