//! Recordings have the times of events.

mod cli_support;

use std::collections::HashMap;
use std::time::Duration;

use cli_support::Place;
use cli_support::debugging::compile;
use cli_support::started::{start_recording, wait_for_output, wait_until};
use rustix::process::{Signal, kill_process};
use serde_json::Value;

/// The time limit of a recording, on a busy machine.
const LIMIT: Duration = Duration::from_secs(30);

/// Reads the clock before and after calls that do not report the time.
const CLOCKS: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static unsigned long now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_REALTIME, &time);
	return time.tv_sec * 1000000000UL + time.tv_nsec;
}
int main(void)
{
	for (int i = 0; i < 100; i++) {
		unsigned long before = now();
		syscall(SYS_getppid);
		unsigned long after = now();
		printf("%lu %lu\n", before, after);
		if (i % 10 == 0)
			usleep(3000);
	}
	return 0;
}
"#;

/// Has threads that wait for each other, a signal, a child, and another program.
const MANY: &str = r#"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <sys/wait.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile long sum;
static void handler(int number) { sum += number; }
static void *work(void *argument)
{
	struct timespec time;
	for (int i = 0; i < 3000; i++) {
		pthread_mutex_lock(&lock);
		sum++;
		pthread_mutex_unlock(&lock);
		if (i % 500 == 0)
			usleep(100);
		clock_gettime(i % 2 ? CLOCK_MONOTONIC : CLOCK_REALTIME, &time);
	}
	return argument;
}
int main(void)
{
	pthread_t threads[3];
	signal(SIGUSR1, handler);
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, work, NULL);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	raise(SIGUSR1);
	if (fork() == 0)
		execl("/bin/true", "true", NULL);
	wait(NULL);
	printf("%ld\n", sum);
	return 0;
}
"#;

/// Calls the kernel from code made at run time. After that, reads of the counter trap.
const MADE: &str = r#"
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void)
{
	static const unsigned char code[] = {0xb8, 110, 0, 0, 0, 0x0f, 5, 0xc3}; /* getppid */
	void *made = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(made, code, sizeof code);
	for (int i = 0; i < 20; i++) {
		((long (*)(void))made)();
		if (i % 5 == 0)
			usleep(30000);
	}
	return 0;
}
"#;

fn build(place: &Place, source: &str) {
    compile(place, "program", source, &["-O1", "-pthread"]);
}

fn events(place: &Place, recording: &str) -> Vec<Value> {
    let lines = place.run_well(&["dump", "--json", recording]);
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn elapsed(event: &Value) -> u64 {
    event["elapsed_ns"].as_u64().unwrap_or_else(|| panic!("no time: {event}"))
}

/// The time of an event in nanoseconds since 1970.
fn unix_ns(event: &Value) -> u64 {
    let time: jiff::Timestamp = event["time"].as_str().unwrap().parse().unwrap();
    u64::try_from(time.as_nanosecond()).unwrap()
}

fn has_stamps(place: &Place, recording: &str) -> bool {
    let info = place.run_json(&["info", "--json", recording]);
    let has = info["metadata"]["ticks_per_second"].as_u64().unwrap() > 0;
    if !has {
        eprintln!("skipped: this processor's counter is no clock");
    }
    has
}

/// Checks that the times in each stream increase, and lie between the beginning and the end.
fn are_in_order(place: &Place, recording: &str) -> Vec<Value> {
    let metadata = place.run_json(&["info", "--json", recording])["metadata"].clone();
    let moment = |value: &Value| value[1].as_u64().unwrap();
    let (began, ended) = (moment(&metadata["began"]), moment(&metadata["outcome"]["ended"]));
    let events = events(place, recording);
    let mut last: HashMap<u64, u64> = HashMap::new();
    for event in &events {
        let last = last.entry(event["stream"].as_u64().unwrap()).or_default();
        assert!(elapsed(event) >= *last, "after {last}: {event}");
        *last = elapsed(event);
        // The time of day may be adjusted, usually in small steps.
        let at = unix_ns(event);
        assert!((began - 1_000_000..=ended + 1_000_000).contains(&at), "{began} {ended} {event}");
    }
    events
}

#[test]
fn events_agree_with_what_the_program_read() {
    let place = Place::new("times-agree");
    build(&place, CLOCKS);
    let printed = place.run_well(&["record", "-o", "made", "./program"]);
    if !has_stamps(&place, "./made") {
        return;
    }
    let events = are_in_order(&place, "./made");
    let asked = events.iter().filter(|event| event["call"] == "getppid");
    let (mut count, mut near) = (0, 0);
    for (line, event) in printed.lines().zip(asked) {
        let (before, after) = line.split_once(' ').unwrap();
        let (before, after): (u64, u64) = (before.parse().unwrap(), after.parse().unwrap());
        let at = unix_ns(event);
        assert_eq!(event["time_is_exact"], true, "{event}");
        assert!(at + 50_000_000 > before && at < after + 50_000_000, "{line}: {event}");
        count += 1;
        near += u32::from(at + 1_000_000 > before && at < after + 1_000_000);
    }
    assert!(count == 100 && near >= 90, "{near} of {count}");
    assert_eq!(place.run_well(&["replay", "./made"]), printed);
}

#[test]
fn times_go_forwards_in_every_stream() {
    let place = Place::new("times-forwards");
    build(&place, MANY);
    for policy in ["serial", "sync"] {
        let printed = place.run_well(&["record", "--policy", policy, "-o", policy, "./program"]);
        let recording = format!("./{policy}");
        let events = are_in_order(&place, &recording);
        if has_stamps(&place, &recording) {
            let exact = events.iter().filter(|event| {
                ["call", "start", "exec", "exit", "signal"]
                    .contains(&event["kind"].as_str().unwrap())
            });
            exact.for_each(|event| assert_eq!(event["time_is_exact"], true, "{event}"));
        }
        assert_eq!(place.run_well(&["replay", &recording]), printed, "{policy}");
    }
}

#[test]
fn waiting_shows_where_the_counter_traps() {
    let place = Place::new("times-trap");
    build(&place, MADE);
    place.run_well(&["record", "-o", "made", "./program"]);
    if !has_stamps(&place, "./made") {
        return;
    }
    let events = are_in_order(&place, "./made");
    let waits: Vec<(u64, &Value)> = events
        .windows(2)
        .filter(|pair| pair[1]["call"] == "clock_nanosleep")
        .map(|pair| (elapsed(&pair[1]) - elapsed(&pair[0]), &pair[1]))
        .collect();
    assert_eq!(waits.len(), 4);
    for (took, event) in waits {
        assert!(event["time_is_exact"] == true && took >= 25_000_000, "{took}: {event}");
    }
    place.run_well(&["replay", "./made"]);
}

#[test]
fn times_are_shown_as_strace_has_them() {
    let place = Place::new("times-shown");
    place.run_well(&["record", "-o", "made", "sleep", "0.2"]);
    if !has_stamps(&place, "./made") {
        return;
    }
    let line = |option: &str| {
        let text = place.run_well(&["dump", option, "--call", "clock_nanosleep", "./made"]);
        let line = text.lines().nth(1).unwrap_or_else(|| panic!("{text}")).trim_start();
        line.split_once("  ").unwrap().1.trim_start().to_owned()
    };
    let digits = |text: &str| text.chars().take_while(|c| "0123456789:.".contains(*c)).count();
    for (option, width) in [("-t", 8), ("-tt", 15), ("-ttt", 17), ("-r", 8), ("--elapsed", 8)] {
        let line = line(option);
        assert_eq!(digits(&line), width, "{option}: {line}");
        assert!(line[width..].starts_with("  clock_nanosleep("), "{option}: {line}");
    }
    assert!(line("-r").starts_with("0.000000"), "nothing is shown before it");
    assert!(line("--elapsed").as_str() >= "0.2");
    place.run_badly(&["dump", "-r", "-t", "./made"], 125, &["cannot be used with"]);
    // A range of events must not change their times.
    let all = place.run_well(&["dump", "-ttt", "./made"]);
    let part = place.run_well(&["dump", "-ttt", "--range", "20..23", "./made"]);
    assert_eq!(
        all.lines().skip(21).take(3).collect::<Vec<_>>().join("\n"),
        part.lines().skip(1).collect::<Vec<_>>().join("\n")
    );
}

#[test]
fn processes_have_times_of_day() {
    let place = Place::new("times-processes");
    place.run_well(&["record", "sh", "-c", "sleep 0.1; true & wait"]);
    let processes = place.run_json(&["ps", "--json"]);
    for process in processes.as_array().unwrap() {
        let time = |name: &str| process[name].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        let ran_ms = time("ended_at").duration_since(time("started_at")).as_millis() as f64;
        let told = process["ended_ms"].as_f64().unwrap() - process["started_ms"].as_f64().unwrap();
        assert!((ran_ms - told).abs() < 20.0, "{ran_ms} ms: {process}");
    }
    let text = place.run_well(&["ps", "-w"]);
    let heading = text.lines().next().unwrap();
    assert!(heading.contains("START") && heading.contains("END"), "{text}");
}

/// The ends of its processes are not recorded. Their last events tell the times.
#[test]
fn a_recording_of_a_killed_recorder_has_times() {
    let place = Place::new("times-killed");
    let printed = place.work("printed");
    let command = ["sh", "-c", "while :; do echo line; sleep 0.01; done"];
    let mut recorder = start_recording(&place, &command, &printed);
    wait_for_output(&printed, 200, LIMIT);
    kill_process(recorder.pid(), Signal::KILL).unwrap();
    recorder.wait(LIMIT);
    wait_until("the recording to be completed", LIMIT, || {
        let told = place.run_within(&["info", "./made"], LIMIT);
        told.stdout.contains("its guardian completed") && !told.stderr.contains("still being")
    });
    if !has_stamps(&place, "./made") {
        return;
    }
    are_in_order(&place, "./made");
    let processes = place.run_json(&["ps", "--json", "./made"]);
    let time = |name: &str| processes[0][name].as_f64().unwrap();
    let ran_ms = time("ended_ms") - time("started_ms");
    assert!((300.0..30_000.0).contains(&ran_ms), "{ran_ms} ms");
}
