//! Recordings with a single alteration, as a faulty recorder could make it. Replay must notice. All
//! checksums are right, so that nothing else can notice.

mod cli_support;

use retake_testing::c::compiler;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use cli_support::Place;
use retake_contract::context::{forced_body, registers};
use retake_contract::events::{
    EVENT_CALL, EVENT_EXIT, EVENT_FORCED, EVENT_HASH, EVENT_TURN, ITEM_INPUT, event, item,
};
use retake_model::table::number;
use retake_recording::{ChunkEvents, Codec, Recording, RecordingWriter, StreamId};

/// The offset of the data in an item.
const DATA: usize = item::LAYOUT_BYTES;
/// Numbers of system calls.
const READ: u16 = number::READ;
const WRITE: u16 = number::WRITE;
const GETPPID: u16 = number::GETPPID;
/// The number of arguments of `READ` and `WRITE`.
const ARGUMENTS: usize = 3;
const SIGALRM: u16 = 14;

/// Prints one part of the input, and never looks at the other. Handles a signal, and exits.
const PROGRAM: &str = r#"
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>
static char text[16], unseen[16];
static void handle(int number) { text[0] = 'h'; }
int main(void)
{
    int file = open("input", O_RDONLY);
    int count = read(file, text, sizeof text);
    read(file, unseen, sizeof unseen);
    signal(SIGUSR1, handle);
    kill(getpid(), SIGUSR1);
    write(1, text, count);
    return getppid() == 0;
}"#;

/// A signal stops it in a loop. Prints the exception flags of its mxcsr.
const COMPUTES: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
static volatile sig_atomic_t rung;
static void ring(int number) { rung = 1; }
int main(void)
{
    struct itimerval timer = {.it_value = {0, 20000}};
    unsigned mxcsr = 0x1f80;
    __asm__ volatile("ldmxcsr %0" : : "m"(mxcsr));
    signal(SIGALRM, ring);
    setitimer(ITIMER_REAL, &timer, NULL);
    for (volatile long rounds = 0; !rung; rounds++) { }
    __asm__ volatile("stmxcsr %0" : "=m"(mxcsr));
    printf("mxcsr %x\n", mxcsr);
    return 0;
}"#;

/// Waits for a second thread, and prints.
const JOINS: &str = r#"
#include <pthread.h>
#include <unistd.h>
static void *nothing(void *unused) { return unused; }
int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, nothing, NULL);
    pthread_join(thread, NULL);
    write(1, "joined", 6);
    return 0;
}"#;

/// The events of the first stream.
fn events(recording: &Recording) -> Vec<Vec<u8>> {
    let mut bytes = Vec::new();
    recording.stream(StreamId(0)).unwrap().read_to_end(&mut bytes).unwrap();
    let mut events = Vec::new();
    while let Some(size) = bytes.first_chunk::<4>() {
        let rest = bytes.split_off(u32::from_le_bytes(*size) as usize);
        events.push(std::mem::replace(&mut bytes, rest));
    }
    events
}

/// Writes a copy of a recording with other events in its first stream.
fn write(from: &Path, events: &[Vec<u8>], to: &Path) {
    let recording = Recording::open(from).unwrap();
    let writer = RecordingWriter::create(to, recording.metadata()).unwrap();
    for stream in recording.streams() {
        writer.declare_stream(&stream.info).unwrap();
        let mut bytes = Vec::new();
        recording.stream(stream.info.id).unwrap().read_to_end(&mut bytes).unwrap();
        let mut count = stream.event_count as u32;
        if stream.info.id == StreamId(0) {
            (bytes, count) = (events.concat(), events.len() as u32);
        }
        writer
            .append(stream.info.id, &bytes, ChunkEvents { first: Some(0), count }, Codec::Fast)
            .unwrap();
    }
    for file in fs::read_dir(from.join("files")).unwrap() {
        let file = file.unwrap();
        fs::hard_link(file.path(), to.join("files").join(file.file_name())).unwrap();
    }
    writer.finish(recording.metadata().outcome.as_ref().unwrap()).unwrap();
}

/// A program's recording, and the events of its first stream.
struct Original {
    place: Place,
    events: Vec<Vec<u8>>,
}

impl Original {
    fn record(test: &str) -> Self {
        Self::of(test, PROGRAM, "hixteen bytes...")
    }

    fn of(test: &str, program: &str, printed: &str) -> Self {
        let place = Place::new(test);
        fs::write(place.work("p.c"), program).unwrap();
        let compiled = std::process::Command::new(compiler())
            .args(["-pthread", "-o"])
            .arg(place.work("p"))
            .arg(place.work("p.c"))
            .status()
            .unwrap();
        assert!(compiled.success());
        fs::write(place.work("input"), "sixteen bytes...sixteen others..").unwrap();
        assert_eq!(place.run_well(&["record", "--check=full", "-o", "original", "./p"]), printed);
        let events = events(&Recording::open(&place.work("original")).unwrap());
        Self { place, events }
    }

    /// Replays these events. Returns the exit status and the error output.
    fn replay(&self, events: &[Vec<u8>], options: &[&str]) -> (Option<i32>, String) {
        write(&self.place.work("original"), events, &self.place.work("altered"));
        let ran = self.place.run(&[&["replay", "--quiet"], options, &["altered"]].concat());
        fs::remove_dir_all(self.place.work("altered")).unwrap();
        (ran.status, ran.stderr)
    }

    /// Inverts the bits of one byte of an event. Replay must report a difference in `differs`.
    fn demand(&self, what: &str, differs: &str, index: usize, at: usize) {
        let mut events = self.events.clone();
        events[index][at] ^= 0xff;
        let (status, told) = self.replay(&events, &["--check=full"]);
        let line = format!("differs   {differs}");
        assert!(
            status == Some(120) && told.contains(&line),
            "{what}, event {index}: {status:?} {told}"
        );
    }

    /// The last event of this kind and number.
    fn last(&self, kind: u8, number: u16) -> usize {
        self.before(self.events.len(), kind, number)
    }

    /// The last such event before another one.
    fn before(&self, index: usize, kind: u8, number: u16) -> usize {
        let is_meant = |event: &Vec<u8>| {
            event[event::KIND] == kind
                && event[event::NUMBER..event::NUMBER + 2] == number.to_le_bytes()
        };
        self.events[..index].iter().rposition(is_meant).expect("the program made it")
    }
}

/// Hashes are left out: replay compares those that it finds, and does not miss others.
#[test]
fn an_event_that_is_missing_or_there_twice_is_noticed() {
    let original = Original::record("altered-events");
    assert_eq!(original.replay(&original.events, &["--check=full"]), (Some(0), String::new()));
    let whole: Vec<usize> = (0..original.events.len())
        .filter(|&index| original.events[index][event::KIND] != EVENT_HASH)
        .collect();
    assert!(whole.len() > 30);
    for index in whole {
        let mut fewer = original.events.clone();
        fewer.remove(index);
        assert_ne!(
            original.replay(&fewer, &[]).0,
            Some(0),
            "event {index} is missing: {:x?}",
            original.events[index]
        );
        let mut more = original.events.clone();
        more.insert(index, original.events[index].clone());
        // Replay reads nothing after the end.
        let status = original.replay(&more, &[]).0;
        assert!(
            status != Some(0) || original.events[index][event::KIND] == EVENT_EXIT,
            "event {index} is there twice: {:x?}",
            original.events[index]
        );
    }
}

#[test]
fn what_a_call_is_and_is_given_is_compared() {
    let original = Original::record("altered-calls");
    let write = original.last(EVENT_CALL, WRITE);
    let first = event::LAYOUT_BYTES + ARGUMENTS * 8;
    assert_eq!(original.events[write][first + item::DIRECTION], ITEM_INPUT);
    original.demand("number", "system call", original.last(EVENT_CALL, GETPPID), event::NUMBER);
    for argument in 0..ARGUMENTS {
        original.demand("argument", "argument", write, event::LAYOUT_BYTES + argument * 8);
    }
    for (what, at) in [
        ("input's length", item::TOTAL_BYTES),
        ("input's hash", item::HASH),
        ("input's address", item::ADDRESS),
    ] {
        original.demand(what, "input data", write, first + at);
    }
    // The program prints what this call read.
    let printed = original.before(original.last(EVENT_CALL, READ), EVENT_CALL, READ);
    original.demand(
        "output",
        "input data",
        printed,
        event::LAYOUT_BYTES + ARGUMENTS * 8 + DATA + 1,
    );
}

#[test]
fn memory_is_compared_unless_it_is_not_to_be() {
    let original = Original::record("altered-memory");
    let exit = original.events.iter().rposition(|event| event[event::KIND] == EVENT_EXIT).unwrap();
    original.demand("memory hash", "memory", exit, event::LAYOUT_BYTES);
    let mut events = original.events.clone();
    events[exit][event::LAYOUT_BYTES] ^= 0xff;
    assert_eq!(original.replay(&events, &["--check=off"]), (Some(0), String::new()));
    original.demand("status", "result", exit, 8);
    // The program never looks at these data: only the hash of all memory covers them.
    original.demand(
        "unseen output",
        "memory",
        original.last(EVENT_CALL, READ),
        event::LAYOUT_BYTES + ARGUMENTS * 8 + DATA + 1,
    );
}

/// A stop does not compare the exceptions but sets them. Replay reports the recorded ones.
#[test]
fn the_exceptions_of_a_stop_are_those_that_were_recorded() {
    let original = Original::of("altered-exceptions", COMPUTES, "mxcsr 1f80\n");
    let forced = original.last(EVENT_FORCED, SIGALRM);
    original.demand(
        "exceptions",
        "input data",
        forced,
        event::LAYOUT_BYTES + forced_body::EXCEPTIONS,
    );
}

/// A register has never the recorded value, so replay would search for the place for ever.
#[test]
fn a_place_that_is_never_reached_is_told() {
    let original = Original::of("altered-place", COMPUTES, "mxcsr 1f80\n");
    let mut events = original.events.clone();
    let forced = &mut events[original.last(EVENT_FORCED, SIGALRM)];
    forced[event::LAYOUT_BYTES + forced_body::REGS + registers::R15] ^= 0x80;
    let since = Instant::now();
    let (status, told) = original.replay(&events, &[]);
    assert!(status == Some(120) && told.contains("differs   place of a stop"), "{status:?} {told}");
    assert!(since.elapsed() < Duration::from_secs(60), "{:?}", since.elapsed());
}

/// The first thread waits for a turn that comes after one that no thread has.
#[test]
fn a_turn_that_no_thread_has_is_told() {
    let original = Original::of("altered-turn", JOINS, "joined");
    let mut events = original.events.clone();
    let last = events.iter_mut().rfind(|event| event[event::KIND] == EVENT_TURN).unwrap();
    let turn: &mut [u8; 8] = last[event::VALUE..].first_chunk_mut().unwrap();
    *turn = (u64::from_le_bytes(*turn) + 1).to_le_bytes();
    let (status, told) = original.replay(&events, &[]);
    assert!(status == Some(120) && told.contains("differs   order of turns"), "{status:?} {told}");
}
