//! The end of a trace: a killed tracer or program, a full disk, damage, and processes that are
//! traced while they run.

mod cli_support;

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cli_support::Place;
use cli_support::traces::{calls, methods, name, records, whole};
use retake_testing::needs;
use retake_trace_format::{StartKind, TraceReader, TraceReaderOptions, TraceRecord};

/// Appends lines to `out` until it is killed. Writes its number to `pid`.
const ENDLESS: &str = "echo $$ > pid; i=0; while :; do i=$((i+1)); echo line $i >> out; done";

/// Traces [`ENDLESS`]. Returns the tracer and the program's number after the program has written
/// something.
fn endless(place: &Place, method: &str) -> (Running, u32) {
    let mut command =
        place.command(&["trace", "--method", method, "-o", "out.ds", "sh", "-c", ENDLESS]);
    let tracer = Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    wait_until("it writes", || fs::metadata(place.work("out")).is_ok_and(|file| file.len() > 1000));
    (tracer, fs::read_to_string(place.work("pid")).unwrap().trim().parse().unwrap())
}

/// Reanimates a trace. Returns the content of the resulting `out`.
fn again(place: &Place, name: &str) -> Vec<u8> {
    let report = place.run_json(&["reanimate", name, "--root", &format!("{name}-root"), "--json"]);
    assert_eq!(report["mismatched"], 0, "{report:#}");
    let below: PathBuf = place.work("out").components().skip(1).collect();
    fs::read(place.work(&format!("{name}-root")).join(below)).unwrap()
}

#[test]
fn what_a_killed_tracer_left_is_read_and_nobody_is_left() {
    for method in methods() {
        let place = Place::new(&format!("trace-killed-{method}"));
        let (mut tracer, program) = endless(&place, method);
        // The spool lags behind a little.
        std::thread::sleep(Duration::from_millis(300));
        tracer.0.kill().unwrap();
        tracer.0.wait().unwrap();
        // The program is killed, too. Its new parent may not have waited for it yet.
        let state = || {
            fs::read_to_string(format!("/proc/{program}/stat"))
                .map_or('X', |text| text.rsplit(") ").next().unwrap().chars().next().unwrap())
        };
        wait_until("the program ends", || matches!(state(), 'X' | 'Z'));
        let ran = place.run(&["trace", "--from", "./out.ds.spool", "-o", "rest.ds"]);
        assert_eq!(ran.status, Some(0), "{method}: {ran:?}");
        let told = |record: &TraceRecord| {
            matches!(record, TraceRecord::Incomplete(reason)
            if reason.contains("stopped before the program had ended"))
        };
        assert!(records(&place, "rest.ds").iter().any(told), "{method}: what is lost is said");
        let (all, kept) = (fs::read(place.work("out")).unwrap(), again(&place, "rest.ds"));
        assert!(
            kept.len() > 500 && all.starts_with(&kept),
            "{method}: {} of {}",
            kept.len(),
            all.len()
        );
    }
}

#[test]
fn a_killed_program_is_traced_to_its_end() {
    for method in methods() {
        let place = Place::new(&format!("trace-kill-{method}"));
        let (mut tracer, program) = endless(&place, method);
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(program as i32).unwrap(),
            rustix::process::Signal::KILL,
        )
        .unwrap();
        let status = tracer.0.wait().unwrap();
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&status),
            Some(9),
            "{method}: it ends as the program did"
        );
        let records = whole(&place, "out.ds");
        assert!(!place.work("out.ds.spool").exists(), "{method}");
        let (all, kept) = (fs::read(place.work("out")).unwrap(), again(&place, "out.ds"));
        let missing = all
            .strip_prefix(kept.as_slice())
            .unwrap_or_else(|| panic!("{method}: other lines than the program wrote"));
        // A process that is killed in a call may or may not have done what the call asked for. The
        // trace then says that the call has not returned.
        let last = calls(&records).into_iter().next_back().unwrap();
        let is_open = name(last) == "write" && last.returned_ns == 0;
        let lines = missing.iter().filter(|byte| **byte == b'\n').count();
        assert!(
            lines <= usize::from(is_open),
            "{method}: {lines} lines are missing after {last:?}"
        );
    }
}

#[test]
fn a_flipped_byte_in_any_extent_costs_that_extent_and_is_said() {
    const MOST: usize = 40;
    let place = Place::new("trace-flipped");
    place.run_well(&[
        "trace",
        "-o",
        "out.ds",
        "sh",
        "-c",
        "i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo line $i >> out; done",
    ]);
    place.run_well(&["ds", "repack", "out.ds", "-o", "small.ds", "-e", "4k"]);
    let bytes = fs::read(place.work("small.ds")).unwrap();
    let whole = records(&place, "small.ds");
    let reader = retake_dataseries::Reader::open(
        std::io::Cursor::new(&bytes),
        retake_dataseries::ReadOptions::default(),
    )
    .unwrap();
    let extents: Vec<usize> = reader.entries().iter().map(|entry| entry.offset as usize).collect();
    for offset in extents.iter().step_by(extents.len().div_ceil(MOST)) {
        let mut damaged = bytes.clone();
        // The offset is behind the extent's header.
        damaged[offset + 60] ^= 0x10;
        fs::write(place.work("damaged.ds"), damaged).unwrap();
        let reader =
            TraceReader::open(&place.work("damaged.ds"), &TraceReaderOptions::default()).unwrap();
        let left: Vec<TraceRecord> = reader.map(Result::unwrap).collect();
        assert!(
            left.iter().any(|record| matches!(record, TraceRecord::Incomplete(_))),
            "extent at {offset}: nothing is said"
        );
        let ids =
            |records: &[TraceRecord]| records.iter().filter(|record| record.id().is_some()).count();
        assert!(
            ids(&left) > ids(&whole) / 2,
            "extent at {offset}: {} of {}",
            ids(&left),
            ids(&whole)
        );
        let ran = place.run(&[
            "reanimate",
            "damaged.ds",
            "--root",
            "root",
            "--prepare",
            "--on-mismatch",
            "warn",
        ]);
        assert!(
            matches!(ran.status, Some(0 | 120)) && ran.stdout.contains("incomplete"),
            "extent at {offset}: {ran:?}"
        );
        fs::remove_dir_all(place.work("root")).unwrap();
    }
}

#[test]
fn what_fits_on_a_full_disk_is_read() {
    needs!("mounts");
    let place = Place::new("trace-full");
    fs::create_dir(place.work("small")).unwrap();
    // The disk vanishes with the namespace in which it is mounted.
    let script = r#"
        mount -t tmpfs -o size=2m none small || exit 99
        timeout -k 1 20 "$0" trace --method ptrace -o small/full.ds -- dd if=/dev/zero of=/dev/null bs=4k count=2000 status=none
        echo "ended with $?"
        exec timeout -k 1 20 "$0" trace --from ./small/full.ds.spool -o rest.ds
    "#;
    let mut command = Command::new("unshare");
    command
        .args(["-m", "sh", "-c", script, env!("CARGO_BIN_EXE_retake")])
        .current_dir(place.work(""))
        .stdin(Stdio::null());
    let ran = command.output().unwrap();
    let (told, stdout) =
        (String::from_utf8_lossy(&ran.stderr), String::from_utf8_lossy(&ran.stdout));
    assert!(
        stdout.contains("ended with 125")
            && told.contains("no space left")
            && told.contains("retake trace --from"),
        "{stdout} {told}"
    );
    assert!(ran.status.success(), "{told}");
    let records = records(&place, "rest.ds");
    let read = calls(&records)
        .iter()
        .filter(|call| {
            name(call) == "read" && call.result == 4096 && call.buffers[0].data.len() == 4096
        })
        .count();
    assert!((20..2000).contains(&read), "{read} of 2000");
    assert!(
        records.iter().any(|record| matches!(record, TraceRecord::Incomplete(_))),
        "what is lost is said"
    );
}

#[test]
fn a_limit_on_file_sizes_is_an_error_and_what_fitted_is_read() {
    for method in methods() {
        let place = Place::new(&format!("trace-limit-{method}"));
        let script = r#"
            ulimit -f 2000
            timeout -k 1 20 "$0" trace --method "$1" -o small.ds -- dd if=/dev/zero of=/dev/null bs=4k count=2000 status=none
            echo "ended with $?"
        "#;
        let mut command = Command::new("bash");
        command
            .args(["-c", script, env!("CARGO_BIN_EXE_retake"), method])
            .env("RETAKE_DIR", place.work("store"));
        let ran = command.current_dir(place.work("")).stdin(Stdio::null()).output().unwrap();
        let (told, stdout) =
            (String::from_utf8_lossy(&ran.stderr), String::from_utf8_lossy(&ran.stdout));
        assert!(
            stdout.contains("ended with 125")
                && told.contains("ulimit -f")
                && told.contains("retake trace --from"),
            "{method}: {stdout} {told}"
        );
        let rest = place.run(&["trace", "--from", "./small.ds.spool", "-o", "rest.ds"]);
        assert_eq!(rest.status, Some(0), "{method}: {rest:?}");
        let records = records(&place, "rest.ds");
        let read = calls(&records)
            .iter()
            .filter(|call| name(call) == "read" && call.result == 4096)
            .count();
        assert!((20..2000).contains(&read), "{method}: {read} of 2000");
        assert!(
            records.iter().any(|record| matches!(record, TraceRecord::Incomplete(_))),
            "{method}: what is lost is said"
        );
    }
}

/// A program that is killed when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn interrupt(child: &Child) {
    let pid = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(25);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn whichever_way_a_tracer_ends_the_program_goes_on() {
    use rustix::process::{Pid, Signal, kill_process};
    let place = Place::new("trace-attach-killed");
    // Threads are held for large writes.
    let program = Command::new("dd")
        .args(["if=/dev/zero", "of=/dev/null", "bs=3000000"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let program = Running(program.unwrap());
    let pid = program.0.id();
    let written = || {
        fs::read_to_string(format!("/proc/{pid}/io"))
            .unwrap()
            .lines()
            .find_map(|line| line.strip_prefix("wchar: ")?.parse().ok())
    };
    let count = || written().unwrap_or(0_u64) / 3_000_000;
    for method in methods().iter().filter(|method| **method != "in-process") {
        for (round, signal) in [Signal::KILL, Signal::TERM, Signal::KILL].into_iter().enumerate() {
            let output = format!("{method}-{round}.ds");
            let mut command = place.command(&[
                "trace",
                "--method",
                method,
                "-p",
                &pid.to_string(),
                "-o",
                &output,
            ]);
            let mut tracer =
                Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
            let is_free = || {
                fs::read_to_string(format!("/proc/{pid}/status"))
                    .unwrap()
                    .lines()
                    .any(|line| line == "TracerPid:\t0")
            };
            wait_until("it is attached to", || !is_free());
            std::thread::sleep(Duration::from_millis(30 * round as u64));
            kill_process(Pid::from_raw(tracer.0.id() as i32).unwrap(), signal).unwrap();
            let status = tracer.0.wait().unwrap();
            assert!(
                signal == Signal::KILL || status.code() == Some(0),
                "{method}: {status:?} by {signal:?}"
            );
            wait_until("nobody traces it any more", is_free);
            let before = count();
            wait_until("it goes on", || count() > before + 2);
            let left = if signal == Signal::KILL { format!("{output}.spool") } else { output };
            let folder = place.work(&left);
            let _ = fs::remove_dir_all(&folder).or_else(|_| fs::remove_file(&folder));
        }
    }
}

#[test]
fn running_processes_are_traced_and_left_as_they_were() {
    let place = Place::new("trace-attach");
    let script = "cd /; while :; do echo tick >> \"$1\"; (read line < \"$1\"); sleep 0.05; done";
    let ticks = place.work("ticks");
    let count = || fs::read_to_string(&ticks).unwrap_or_default().lines().count();
    let program = Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(&ticks)
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let program = Running(program);
    let pid = program.0.id();
    wait_until("it ticks", || count() > 2);
    for method in methods().iter().filter(|method| **method != "in-process") {
        let mut command =
            place.command(&["trace", "--method", method, "-p", &pid.to_string(), "-o", "out.ds"]);
        let mut tracer =
            Running(command.stdout(Stdio::null()).stderr(Stdio::inherit()).spawn().unwrap());
        let tracer_pid = || {
            fs::read_to_string(format!("/proc/{pid}/status"))
                .unwrap()
                .lines()
                .any(|line| line == "TracerPid:\t0")
        };
        wait_until("it is attached to", || !tracer_pid());
        let before = count();
        wait_until("it ticks while it is traced", || count() > before + 5);
        interrupt(&tracer.0);
        assert_eq!(tracer.0.wait().unwrap().code(), Some(0), "{method}");
        assert!(tracer_pid(), "{method}: nobody traces it any more");
        let after = count();
        wait_until("it ticks when it is left", || count() > after + 2);
        let records = whole(&place, "out.ds");
        let started = records.iter().find_map(|record| match record {
            // A parent's record comes before its child's.
            TraceRecord::ProcessStart(start) if start.how == StartKind::Attach => Some(start),
            _ => None,
        });
        let started = started.unwrap_or_else(|| panic!("{method}: what it had is known"));
        assert!(
            started.process == pid
                && started.working_directory == b"/"
                && started.descriptors.len() >= 3,
            "{method}: {started:?}"
        );
        let calls = calls(&records);
        let ticked = calls
            .iter()
            .filter(|call| {
                call.process == pid && name(call) == "write" && call.buffers[0].data == b"tick\n"
            })
            .count();
        assert!(ticked >= 4, "{method}: {ticked}");
        let by_children =
            calls.iter().any(|call| call.process != pid && name(call) == "read" && call.result > 0);
        assert!(by_children, "{method}: its children are followed");
    }
}
