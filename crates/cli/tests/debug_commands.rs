//! Commands around the debugger: where it begins, what it adds to gdb, `retake backtrace`, and
//! `retake record --debug-on-crash`.

mod cli_support;

use cli_support::Place;
use cli_support::debugging::{PLAIN, compile, gdb, in_order, no_process_is_left, record};
use retake_testing::needs;
use retake_testing::needs::is_lacking;

/// Reads a file, sleeps, and prints on both outputs.
const FILE: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
static char line[64];
int copy;
int main(void)
{
	struct timespec now;
	int fd = open("data", O_RDONLY);
	read(fd, line, sizeof line - 1);
	close(fd);
	copy = line[2];
	printf("read %s", line);
	fflush(stdout);
	fprintf(stderr, "an error\n");
	clock_gettime(CLOCK_MONOTONIC, &now);
	usleep(200000);
	clock_gettime(CLOCK_MONOTONIC, &now);
	puts("the end\252");
	fflush(stdout);
	return copy == 0;
}
"#;

/// One thread waits for the other, which aborts.
const ABORTS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static void *worker(void *argument)
{
	int left = (int)(long)argument;
	puts("giving up");
	fflush(stdout);
	if (left == 7)
		abort();
	return NULL;
}
int main(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, worker, (void *)7L);
	pthread_join(thread, NULL);
	return 0;
}
"#;

/// A time at which the program of [`FILE`] sleeps, as a place.
fn while_it_sleeps(place: &Place) -> String {
    let text = gdb(place, &[], &["break main", "continue", "break usleep", "continue", "elapsed"]);
    let seconds = text
        .split_once("about ")
        .and_then(|(_, rest)| rest.split_once(" s after"))
        .unwrap_or_else(|| panic!("{text}"))
        .0;
    format!("{:.3}s", seconds.parse::<f64>().unwrap() + 0.1)
}

#[test]
fn it_begins_at_the_crash_or_the_end() {
    needs!("gdb");
    let place = Place::new("debug-at");
    let program = compile(&place, "plain", PLAIN, &[]);
    record(&place, &[&program]);
    let text = gdb(&place, &["--at", "end"], &["backtrace -1", "break twice", "reverse-continue"]);
    in_order(&text, &["_exit", "_start", "twice (x=9)"]);
    place.run_badly(&["debug", "--at", "crash", "--", "-batch"], 125, &["did not crash"]);
    place.run_badly(&["debug", "--at", "1:5", "--", "-batch"], 125, &["never had a thread 1"]);
    place.run_badly(&["debug", "--at", "nowhere"], 125, &["is not a place", "THREAD:EVENT"]);
    record(&place, &[&program, "crash"]);
    for at in ["crash", "exit"] {
        let text = gdb(&place, &["--at", at], &["info locals", "up", "print sum"]);
        in_order(
            &text,
            &[
                "follow (node=",
                "SIGSEGV (SEGV_MAPERR: nothing is mapped at 0x0)",
                "main (argc=2",
                "= 90",
            ],
        );
    }
    let text = gdb(&place, &["--at", "12"], &["when"]);
    in_order(&text, &["event 12 of thread", "at 20", " s after recording began"]);
    // gdb must not report the files that it reads from the recording.
    assert!(!text.contains("File transfers"), "{text}");
}

#[test]
fn a_killed_process_has_an_end_too() {
    needs!("gdb");
    let place = Place::new("debug-killed");
    let source = "#include <signal.h>\n#include <unistd.h>\n\
                  int main(void) { if (fork() == 0) { usleep(50000); kill(getppid(), SIGKILL); return 0; } for (;;) pause(); }\n";
    let program = compile(&place, "killed", source, &[]);
    record(&place, &[&program]);
    let text =
        gdb(&place, &["--at", "exit"], &["backtrace", "reverse-stepi", "seek begin", "when"]);
    in_order(&text, &["main ()", "event "]);
}

#[test]
fn output_and_times_up_to_here() {
    needs!("gdb");
    let place = Place::new("debug-output");
    std::fs::write(place.work("data"), "some text\n").unwrap();
    let program = compile(&place, "file", FILE, &[]);
    record(&place, &[&program]);
    let seek = format!("seek {}", while_it_sleeps(&place));
    let commands = [
        "echo A\\n",
        "continue",
        "echo B\\n",
        "reverse-continue",
        "continue",
        "echo C\\n",
        "output",
        "stdout",
        "stderr",
        &seek,
    ];
    let text = gdb(
        &place,
        &[],
        &[&commands[..], &["elapsed", "output", "events 1", "echo D\\n"]].concat(),
    );
    let part = |from: &str, to: &str| {
        text.split_once(from).unwrap().1.split_once(to).unwrap().0.to_owned()
    };
    // The program's output appears once, however often it is replayed.
    let shown = text.split_once("--- standard error").unwrap().1;
    assert!(
        shown.contains("read some text\nan error\nthe end\\xaa\n")
            && shown.matches("some text").count() == 1,
        "{text}"
    );
    let rest = part("C\n", "D\n");
    assert!(
        rest.starts_with(
            "read some text\nan error\nthe end\\xaa\nread some text\nthe end\\xaa\nan error\n"
        ),
        "{text}"
    );
    in_order(&rest, &["about ", "after recording began", "read some text", "an error", "<- here"]);
    assert_eq!(rest.matches("the end").count(), 2, "{text}");
}

#[test]
fn where_a_value_comes_from() {
    needs!("gdb");
    let place = Place::new("debug-origin");
    std::fs::write(place.work("data"), "some text\n").unwrap();
    let program = compile(&place, "file", FILE, &[]);
    record(&place, &[&program]);
    let commands = [
        "origin copy",
        "origin line[2]",
        "origin line[60]",
        "origin 1 + 1",
        "origin line",
        "seek exit",
        "checkpoint",
        "delete checkpoint 1",
    ];
    let text = gdb(
        &place,
        &["--at", "exit"],
        &[&commands[..], &["info checkpoints", "delete checkpoint 1"]].concat(),
    );
    in_order(&text, &["written by the instruction", "mov", "main () at", "copy = line[2]"]);
    in_order(
        &text,
        &[
            "written by the system call of event",
            "read(3, \"some text\\n\", 63) = 10",
            "byte 2 of 10",
            "descriptor 3 is from event",
        ],
    );
    in_order(
        &text,
        &["openat(AT_FDCWD, \"data\"", "it was not written since the beginning", "no checkpoints"],
    );
    for error in ["has no address", "has 64 bytes", "there is no checkpoint 1"] {
        assert!(text.contains(error), "{error} in {text}");
    }
}

#[test]
fn a_backtrace_for_logs() {
    let place = Place::new("backtrace");
    let program = compile(&place, "plain", PLAIN, &[]);
    record(&place, &["sh", "-c", &format!("{program}; {program} crash; exit 0")]);
    let text = place.run_well(&["backtrace", "--gdb", "no-such-gdb"]);
    in_order(
        &text,
        &[
            "crashed: SIGSEGV (SEGV_MAPERR: nothing is mapped at 0x0)",
            "there is no no-such-gdb",
            "apt install gdb",
        ],
    );
    in_order(&text, &["last events", "write(1, \"sum 90 of", "+++ killed by SIGSEGV"]);
    needs!("gdb");
    let text = place.run_well(&["backtrace", "--events", "1"]);
    in_order(
        &text,
        &[
            "crashed: SIGSEGV",
            "#0  follow (node=0x",
            "plain.c:13",
            "#1  main (argc=2",
            "node = {value = 5, next = 0x0}",
            "sum = 90",
        ],
    );
    let json = place.run_json(&["backtrace", "--json"]);
    assert_eq!(json["crash"]["signal"], "SIGSEGV");
    assert_eq!(json["crash"]["address"], "0x0");
    let frames = &json["threads"][0]["frames"];
    assert_eq!(
        (&frames[0]["function"], &frames[0]["line"], &frames[1]["function"]),
        (&"follow".into(), &13.into(), &"main".into()),
        "{json}"
    );
    assert_eq!(json["processes"].as_array().map(Vec::len), Some(3));
    // Another place, and another process.
    let text = place.run_well(&["backtrace", "-p", "sh"]);
    in_order(&text, &["thread ", "_exit"]);
    record(&place, &[&program]);
    in_order(&place.run_well(&["backtrace"]), &["nothing crashed", "EXIT", "3", "plain"]);
    no_process_is_left(&place);
}

#[test]
fn gdb_must_know_python() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new("no-python");
    record(&place, &["true"]);
    let fake = place.work("gdb");
    std::fs::write(&fake, "#!/bin/sh\necho --without-python\n").unwrap();
    std::fs::set_permissions(&fake, std::fs::Permissions::from_mode(0o755)).unwrap();
    place.run_badly(
        &["debug", "--gdb", fake.to_str().unwrap()],
        125,
        &["without Python", "monitor help"],
    );
    place.run_badly(
        &["debug", "--gdb", "no-such-gdb"],
        125,
        &["there is no no-such-gdb", "apt install gdb", "--serve"],
    );
}

#[test]
fn the_race_of_the_examples_is_followed_back() {
    needs!("gdb");
    let place = Place::new("debug-race");
    let source =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/race.c"))
            .unwrap();
    let program = compile(&place, "race", &source, &[]);
    // Chance decides how long the search for a crash takes. The search for the last write is the
    // same from any end of the program. On a busy machine some runs crash.
    let ends_well = |_| place.run(&["record", "--", &program]).status == Some(0);
    assert!((0..50).any(ends_well), "every run crashed");
    let text =
        gdb(&place, &["--at", "exit"], &["print *current", "last current", "info threads", "when"]);
    in_order(&text, &["word 1", "replace (", "current = make(1)", "event "]);
}

#[test]
fn parts_of_a_replay_and_what_it_does() {
    let place = Place::new("replay-parts");
    std::fs::write(place.work("data"), "some text\n").unwrap();
    let program = compile(&place, "file", FILE, &[]);
    record(&place, &[&program]);
    if !is_lacking("gdb") {
        let moment = while_it_sleeps(&place);
        let ran = place.run(&["replay", "--until", &moment]);
        assert_eq!((ran.status, ran.stdout.as_str()), (Some(0), "read some text\n"), "{ran:?}");
        in_order(&ran.stderr, &["an error\n", "retake: thread ", ", event "]);
    }
    let ran = place.run(&["replay", "--until", "exit", "--quiet"]);
    assert_eq!(ran.stdout, "", "{ran:?}");
    in_order(&ran.stderr, &["retake: thread ", "the end", "exited with 0"]);
    place.run_badly(&["replay", "--until", "crash"], 125, &["did not crash"]);
    let ran = place.run(&["replay", "--trace-calls"]);
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (Some(0), "read some text\nthe end\u{fffd}\n"),
        "{ran:?}"
    );
    in_order(
        &ran.stderr,
        &[
            "an error\n",
            "openat(AT_FDCWD, \"data\"",
            "read(3, \"some text\\n\", 63) ",
            "write(2, \"an error\\n\", 9) ",
        ],
    );
    no_process_is_left(&place);
}

#[test]
fn a_profile_is_the_same_each_time() {
    needs!("gdb");
    let place = Place::new("replay-profile");
    let source = "#include <unistd.h>\nvoid often(void) \
    { for (int i = 0; i < 90; i++) getppid(); }\n\
                  void seldom(void) { for (int i = 0; i < 10; i++) getppid(); }\nint main(void) { often(); seldom(); return 0; }\n";
    let program = compile(&place, "busy", source, &[]);
    record(&place, &[&program]);
    let profile = |name: &str| {
        place.run_well(&["replay", "--profile", name, "--samples", "40"]);
        std::fs::read_to_string(place.work(name)).unwrap()
    };
    let stacks = profile("one.folded");
    assert_eq!(stacks, profile("two.folded"));
    let count = |function: &str| {
        let lines = stacks.lines().filter(|line| line.contains(&format!("main;{function};")));
        lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum::<u64>()
    };
    assert!(count("often") > 5 * count("seldom") && count("seldom") > 0, "{stacks}");
    assert!(profile("graph.svg").contains("<title>often: "));
    no_process_is_left(&place);
}

#[test]
fn a_crash_is_looked_at_at_once() {
    needs!("gdb");
    let place = Place::new("on-crash");
    let program = compile(&place, "aborts", ABORTS, &[]);
    let ran = place.run(&["record", "--debug-on-crash", &program]);
    // Without a terminal there is a backtrace, and the program's own output and end.
    assert_eq!((ran.signal, ran.stdout.as_str()), (Some(6), "giving up\n"), "{ran:?}");
    in_order(
        &ran.stderr,
        &[
            "crashed: SIGABRT (SI_TKILL",
            "recorded",
            "raise",
            "abort",
            "worker (argument=0x7)",
            "left = 7",
            "start_thread",
        ],
    );
    in_order(
        &ran.stderr,
        &["start_thread", "thread ", "pthread_join", "last events", "tgkill(", "killed by SIGABRT"],
    );
    let plain = compile(&place, "plain", PLAIN, &[]);
    let ran = place.run(&["record", "--debug-on-crash", &plain]);
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(3), ""), "{ran:?}");
    no_process_is_left(&place);
}

/// Each thread has its own variables: of the program, of a library that it needs, and of one that
/// it loads.
const THREAD_LOCAL: &str = r#"
#include <errno.h>
#include <pthread.h>
#include <unistd.h>
#ifdef LOADS
#include <dlfcn.h>
#endif
__thread long own = 5;
__thread char wide[64] __attribute__((aligned(64)));
extern __thread int needed;
static int *(*get_loaded)(void);
int *get_needed(void);
void here(int number) { }
static void *worker(void *argument)
{
	own = wide[0] = *get_needed() = (long)argument;
	if (get_loaded)
		*get_loaded() = own + 100;
	errno = own + 10;
	here(own);
	return NULL;
}
int main(int argc, char **argv)
{
	pthread_t thread;
#ifdef LOADS
	get_loaded = dlsym(dlopen(argv[1], RTLD_NOW), "get_loaded");
#endif
	worker((void *)30);
	pthread_create(&thread, NULL, worker, (void *)31);
	pthread_join(thread, NULL);
	here(0);
	return own;
}
"#;

const NEEDED: &str = "__thread int needed = 6; int *get_needed(void) { return &needed; }\n";
const LOADED: &str =
    "__thread int filler[5000], loaded = 7; int *get_loaded(void) { return &loaded; }\n";

#[test]
fn thread_local_variables() {
    needs!("gdb");
    let place = Place::new("debug-tls");
    let needed = compile(&place, "libneeded.so", NEEDED, &["-shared", "-fPIC"]);
    let loaded = compile(&place, "libloaded.so", LOADED, &["-shared", "-fPIC"]);
    let dynamic = compile(
        &place,
        "dynamic",
        THREAD_LOCAL,
        &["-DLOADS", &needed, "-ldl", "-Wl,-rpath,$ORIGIN"],
    );
    let shown = ["print own", "print (int)wide[0]", "print needed", "print loaded"];
    let commands = [
        &["print own", "break here", "continue"],
        &shown[..],
        &["continue"],
        &shown,
        &["continue"],
        &shown,
        &["reverse-continue"],
        &shown,
    ]
    .concat();
    record(&place, &[&dynamic, &loaded]);
    let text = gdb(&place, &[], &commands);
    let values = |number: u32| format!("= {number}\n").repeat(3) + &format!("= 1{number}\n");
    let values = [30, 31].map(values);
    let [first, second] = values.each_ref().map(|text| text.split_inclusive('\n'));
    for here in ["here (number=30)", "here (number=0)"] {
        let expected: Vec<&str> = [here]
            .into_iter()
            .chain(first.clone())
            .chain(["here (number=31)"])
            .chain(second.clone())
            .collect();
        in_order(&text, &expected);
    }
    assert!(text.contains("Cannot find thread-local"), "before there are any: {text}");
}

#[test]
fn thread_local_variables_of_static_programs() {
    needs!("gdb");
    let place = Place::new("debug-tls-static");
    std::fs::write(place.work("needed.c"), NEEDED).unwrap();
    let fixed = compile(
        &place,
        "static",
        THREAD_LOCAL,
        &["-static", &place.work("needed.c").to_string_lossy()],
    );
    record(&place, &[&fixed]);
    let text = gdb(
        &place,
        &[],
        &[
            "break here",
            "continue",
            "print own",
            "print needed",
            "continue",
            "print own",
            "print needed",
            "print (int)wide[0]",
        ],
    );
    in_order(
        &text,
        &["here (number=30)", "= 30\n", "= 30\n", "here (number=31)", "= 31\n", "= 31\n", "= 31\n"],
    );
}
