//! Recordings made to do harm. Their replay changes nothing outside, reports the attack, and ends
//! with 120. The programs in `tests/attacks/` do nothing while they are recorded.

mod cli_support;

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use cli_support::altered_copy::with_runtime;
use cli_support::{Place, Ran, compile_program, source_file};
use retake_contract::header::{Header, Request, Slot};
use retake_testing::needs;

const LIMIT: Duration = Duration::from_secs(60);
const DIVERGED: i32 = 120;
/// The beginning of replay's message about a forbidden call.
const TOLD: &str = "the recording attacks";

/// What an attack could reach outside of the replay.
struct Outside {
    folder: PathBuf,
    kept: PathBuf,
    listener: TcpListener,
    process: Child,
    segment: String,
}

impl Outside {
    fn new(place: &Place) -> Self {
        let folder = place.work("../outside");
        fs::create_dir_all(&folder).unwrap();
        let kept = folder.join("kept");
        fs::write(&kept, "as it was").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let process = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap();
        let made = Command::new("ipcmk").args(["-M", "4096"]).output().unwrap();
        let said = String::from_utf8(made.stdout).unwrap();
        let segment = said.split_whitespace().last().unwrap().to_owned();
        Self { folder, kept, listener, process, segment }
    }

    /// The attacker's arguments for an attack.
    fn named(&self, attack: &str) -> [String; 4] {
        let creates = ["open_write", "x32", "by_interrupt", "by_sysenter", "executes"];
        let path = if creates.iter().any(|prefix| attack.starts_with(prefix)) {
            self.folder.join("made")
        } else {
            self.kept.clone()
        };
        let path = path.to_str().unwrap().to_owned();
        [attack.to_owned(), path, self.process.id().to_string(), self.segment.clone()]
    }

    fn assert_untouched(&mut self, after: &str) {
        let entries: Vec<_> = fs::read_dir(&self.folder).unwrap().flatten().collect();
        assert_eq!(entries.len(), 1, "{after}: {entries:?}");
        assert_eq!(fs::read_to_string(&self.kept).unwrap(), "as it was", "{after}");
        let connected = self.listener.accept().map(drop).map_err(|error| error.kind());
        assert_eq!(connected, Err(std::io::ErrorKind::WouldBlock), "{after}");
        assert_eq!(self.process.try_wait().unwrap(), None, "{after}: a process was ended");
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        assert!(status.contains("TracerPid:\t0\n"), "{after}: a process is traced");
        let ipcs = Command::new("ipcs").args(["-m", "-i", &self.segment]).output().unwrap();
        let about = String::from_utf8(ipcs.stdout).unwrap();
        assert!(about.contains("nattch=0"), "{after}: {about}");
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = Command::new("ipcrm").args(["-m", &self.segment]).status();
    }
}

fn attacker(place: &Place) -> String {
    let executable = place.work("attacker");
    compile_program("attacks/attacker", &["-O1", "-Wall", "-Werror"], &executable);
    executable.to_str().unwrap().to_owned()
}

/// Records a program that attacks at the given place in its code.
fn record(place: &Place, program: &str, arguments: &[String], place_in_program: &str) {
    let mut command = vec!["record", "-o", "attack", "--", program];
    command.extend(arguments.iter().map(String::as_str));
    command.extend((!place_in_program.is_empty()).then_some(place_in_program));
    let _ = fs::remove_dir_all(place.work("attack"));
    let recorded = place.run_within(&command, LIMIT);
    assert_eq!((recorded.status, recorded.stdout.as_str()), (Some(0), "went on\n"), "{recorded:?}");
}

fn assert_told(ran: &Ran, attack: &str) {
    assert_eq!(ran.status, Some(DIVERGED), "{attack}: {ran:?}");
    assert!(ran.stderr.contains(TOLD), "{attack}: {ran:?}");
    assert!(!ran.stdout.contains("went on"), "{attack}: {ran:?}");
}

/// The attacks and the messages about them. An empty message stands for any.
const ATTACKS: &[(&str, &str)] = &[
    ("open_write", "openat("),
    ("open_read", "openat("),
    ("x32", "call 1073742081("),
    ("removes", "unlink("),
    ("connects", "socket("),
    ("kills", "kill("),
    ("kills_thread", "tgkill("),
    ("traces", "ptrace("),
    ("mounts", "mount("),
    ("attaches", "shmat("),
    ("removes_segment", "shmctl("),
    ("rings", "io_uring_setup("),
    ("unshares", "clone("),
    ("tells_all", "clone("),
    ("forks_unseen", "clone3("),
    ("limits", "prlimit64("),
    ("truncates", "ftruncate("),
    ("types", "ioctl("),
    ("writes_memory", "process_vm_writev("),
    ("executes", "execve("),
    ("executes_beside", "execveat("),
    ("by_interrupt", "of 32-bit programs("),
    ("by_itself", "unlink("),
    ("by_all", "unlink("),
    ("by_sigreturn", "unlink("),
    ("by_sysenter", ""),
    ("by_vsyscall", ""),
    ("names_others", ""),
];

#[test]
fn a_recording_that_attacks_touches_nothing() {
    let place = Place::new("attack");
    let program = attacker(&place);
    let mut outside = Outside::new(&place);
    for (attack, told) in ATTACKS {
        record(&place, &program, &outside.named(attack), "");
        let replayed = place.run_within(&["replay", "attack"], LIMIT);
        outside.assert_untouched(attack);
        assert_eq!(replayed.status, Some(DIVERGED), "{attack}: {replayed:?}");
        if !told.is_empty() {
            assert_told(&replayed, attack);
            assert!(replayed.stderr.contains(told), "{attack}: {replayed:?}");
        }
    }
}

#[test]
fn whatever_a_replayed_process_becomes_or_makes_is_confined() {
    let place = Place::new("attack-descendants");
    let program = attacker(&place);
    let mut outside = Outside::new(&place);
    for way in ["fork", "thread", "exec"] {
        record(&place, &program, &outside.named("removes"), way);
        let replayed = place.run_within(&["replay", "attack"], LIMIT);
        outside.assert_untouched(way);
        assert_told(&replayed, way);
        let (_, from) = replayed.stderr.split_once(" from ").unwrap();
        let (address, _) = from.split_once(' ').unwrap();
        assert!(replayed.stderr.contains(&format!(", 0x0, {address}, ")), "{way}: {replayed:?}");
    }
}

#[test]
fn other_ways_to_replay_are_confined_too() {
    needs!("gdb");
    let place = Place::new("attack-debug");
    let program = attacker(&place);
    let mut outside = Outside::new(&place);
    for attack in ["removes", "kills", "by_interrupt", "names_others"] {
        record(&place, &program, &outside.named(attack), "");
        let ways: &[&[&str]] = &[
            &["backtrace", "attack"],
            &["debug", "attack", "--", "-batch", "-ex", "continue"],
            &["debug", "--at", "end", "attack", "--", "-batch", "-ex", "reverse-stepi"],
            &["checkpoint", "attack", "--every", "10"],
            &["trace", "--from", "attack", "-o", "trace.ds"],
        ];
        for way in ways {
            let ran = place.run_within(way, LIMIT);
            outside.assert_untouched(&format!("{attack}, {way:?}: {ran:?}"));
            assert!(!ran.stdout.contains("went on"), "{attack}, {way:?}: {ran:?}");
        }
    }
}

#[test]
fn a_stored_program_that_was_changed_is_confined() {
    let place = Place::new("attack-patched");
    let executable = place.work("patched");
    compile_program("attacks/patched", &["-O1"], &executable);
    let mut outside = Outside::new(&place);
    let path = outside.kept.to_str().unwrap().to_owned();
    record(&place, executable.to_str().unwrap(), &[path], "");
    const MARK: &[u8] = b"RTKPATCH\x66\x90";
    const CALL: &[u8] = &[0x0f, 0x05];
    let mut changed = 0;
    for name in place.files_of("attack") {
        let file = place.work("attack").join("files").join(name);
        let mut bytes = fs::read(&file).unwrap();
        let Some(at) = bytes.windows(MARK.len()).position(|window| window == MARK) else {
            continue;
        };
        bytes[at + 8..at + MARK.len()].copy_from_slice(CALL);
        // The file is a link to the store's, which must not change.
        fs::remove_file(&file).unwrap();
        fs::write(&file, bytes).unwrap();
        changed += 1;
    }
    assert!(changed > 0, "no stored file has the mark");
    let replayed = place.run_within(&["replay", "attack"], LIMIT);
    outside.assert_untouched("patched");
    // The runtime sees this call, unlike the attacker's other calls.
    assert_eq!((replayed.status, replayed.stdout.as_str()), (Some(DIVERGED), ""), "{replayed:?}");
}

/// Compiles a runtime that makes this attack, and returns its text.
fn hostile_runtime(place: &Place, outside: &Outside, attack: &str, target: &str) -> Vec<u8> {
    let header = |field: usize| field.to_string();
    let slots = std::mem::offset_of!(Header, slots);
    let request = slots + std::mem::offset_of!(Slot, request);
    let kept = outside.kept.to_str().unwrap();
    let path = if attack == "creates" { format!("{kept}-not") } else { kept.to_owned() };
    let mut options =
        vec!["-O1", "-ffreestanding", "-fno-builtin", "-nostdlib", "-static", "-fpie"];
    options.extend([
        "-no-pie",
        "-mgeneral-regs-only",
        "-fno-stack-protector",
        "-fcf-protection=none",
    ]);
    options.extend(["-fno-asynchronous-unwind-tables", "-Wall", "-Wextra", "-Werror"]);
    options.extend(["-Wl,--oformat=binary", "-Wl,--build-id=none", "-Wl,-z,max-page-size=4096"]);
    let script = format!("-Wl,-T,{}", source_file("../runtime/link.ld").display());
    options.push(&script);
    let defined = [
        ("ATTACK", attack.to_owned()),
        ("PATH", format!("\"{path}\"")),
        ("PID", outside.process.id().to_string()),
        ("TARGET", target.to_owned()),
        ("THREAD_PROCESS", header(slots + std::mem::offset_of!(Slot, pid))),
        ("TID", header(slots + std::mem::offset_of!(Slot, tid))),
        ("KIND", header(request + std::mem::offset_of!(Request, kind))),
        ("REPLY", header(request + std::mem::offset_of!(Request, reply))),
        ("ARGUMENTS", header(request + std::mem::offset_of!(Request, arguments))),
        ("DOORBELL", header(std::mem::offset_of!(Header, request_doorbell))),
        ("SLOTS_USED", header(std::mem::offset_of!(Header, slots_used))),
        ("QUEUE", header(std::mem::offset_of!(Header, request_queue))),
    ];
    let defined: Vec<String> =
        defined.iter().map(|(name, value)| format!("-D{name}={value}")).collect();
    options.extend(defined.iter().map(String::as_str));
    let file = place.work(attack);
    compile_program("attacks/runtime", &options, &file);
    fs::read(file).unwrap()
}

/// The runtime comes from the recording, so it can be an attacker's, with its right hash. It runs
/// before any program does.
#[test]
fn a_runtime_that_attacks_touches_nothing() {
    let place = Place::new("attack-runtime");
    let mut outside = Outside::new(&place);
    place.run_well(&["record", "-o", "made", "echo", "went on"]);
    // Memory of the other process that can be written: its stack.
    let maps = fs::read_to_string(format!("/proc/{}/maps", outside.process.id())).unwrap();
    let stack = maps.lines().find(|line| line.ends_with("[stack]")).unwrap();
    let target = u64::from_str_radix(stack.split('-').next().unwrap(), 16).unwrap();
    let memory = fs::File::open(format!("/proc/{}/mem", outside.process.id())).unwrap();
    let contents = || {
        let mut bytes = [0; 4096];
        memory.read_exact_at(&mut bytes, target).unwrap();
        bytes
    };
    let before = contents();
    for (attack, told) in [
        ("removes", "unlink("),
        ("creates", "openat("),
        ("kills", "kill("),
        ("hides", "unlink("),
        ("executes", "execve("),
        ("interrupts", "of 32-bit programs("),
        ("asks", ""),
        ("asks_all", ""),
    ] {
        let text = hostile_runtime(&place, &outside, attack, &format!("{target}UL"));
        let _ = fs::remove_dir_all(place.work("attack"));
        with_runtime(&place.work("made"), &place.work("attack"), &text);
        for way in [&["replay"][..], &["trace", "--from"], &["checkpoint", "--at", "end"]] {
            let ran = place.run_within(&[way, &["attack"]].concat(), LIMIT);
            outside.assert_untouched(&format!("{attack}, {way:?}: {ran:?}"));
            assert_eq!(before, contents(), "{attack}, {way:?}: memory was written: {ran:?}");
            assert!(!ran.stderr.contains("panicked"), "{attack}, {way:?}: {ran:?}");
            if way == ["replay"] && !told.is_empty() {
                assert_told(&ran, attack);
                assert!(ran.stderr.contains(told), "{attack}: {ran:?}");
            }
        }
    }
}

#[test]
fn what_the_user_has_open_a_replayed_process_has_not() {
    let place = Place::new("attack-descriptors");
    let program = attacker(&place);
    let mut outside = Outside::new(&place);
    record(&place, &program, &outside.named("few_descriptors"), "");
    let script = "exec 9<>\"$1\"; exec \"$0\" replay attack";
    let kept = outside.kept.to_str().unwrap().to_owned();
    let mut command =
        place.command_of("sh", &["-c", script, env!("CARGO_BIN_EXE_retake"), kept.as_str()]);
    let output = command.output().unwrap();
    outside.assert_untouched("few_descriptors");
    // The attacker makes this call if only one descriptor is open: that of the runtime's
    // executable.
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("kill("), "{said}");
}
