//! Limits of threads: how many there can be, which signals reach them, and which take turns.

use super::cli_support::{Place, Ran};
use super::{DIVERGED, PATIENCE, compile, record};
use retake_testing::needs;
use retake_testing::report::{self, Cause};
use std::time::Duration;

/// The time limit for thousands of threads, on a busy machine.
const LONG: Duration = Duration::from_secs(30 * PATIENCE.as_secs());

/// Makes as many threads as the first argument says. Prints whether it had to wait for room.
const MAKES_THREADS: &str = r#"
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void *pause_once(void *unused)
{
    usleep(20000);
    return unused;
}
int main(int count, char **arguments)
{
    int failed = 0, wanted = atoi(arguments[1]);
    pthread_t *threads = calloc(wanted, sizeof *threads);
    for (int i = 0; i < wanted; i++) {
        int error;
        while ((error = pthread_create(&threads[i], 0, pause_once, 0)) != 0) {
            if (error != EAGAIN)
                return 9;
            failed = 1;
            usleep(2000);
        }
    }
    for (int i = 0; i < wanted; i++)
        pthread_join(threads[i], 0);
    printf("%d threads, %d\n", wanted, failed);
    return count - 2;
}"#;

/// Runs a command in its own IPC namespace with these kernel settings, which other recordings do
/// not see. Returns `None` if the namespace cannot be made.
fn run_with_settings(place: &Place, settings: &[(&str, u64)], words: &[&str]) -> Option<Ran> {
    let settings: String = settings
        .iter()
        .map(|(name, value)| format!("echo {value} > /proc/sys/kernel/{name} || exit 99; "))
        .collect();
    let script = format!("{settings} exec \"$@\"");
    let unshare = ["120", "unshare", "--ipc", "sh", "-c", &script, "sh"];
    let ran =
        Ran::of(place.command_of("timeout", &[&unshare, words].concat()).output().unwrap(), &[]);
    if ran.status == Some(99) || ran.stderr.contains("unshare") {
        report::skip(Cause::Machine, "no IPC namespaces can be made");
        return None;
    }
    Some(ran)
}

const RETAKE: &str = env!("CARGO_BIN_EXE_retake");

#[test]
fn threads_without_room_fail_until_others_end() {
    needs!("root", "unshare");
    let place = Place::new("limits-threads");
    compile(&place, "makes", MAKES_THREADS, &[]);
    // This many pages of shared memory are enough for a session and some rings.
    let words = [RETAKE, "record", "./makes", "300"];
    let Some(ran) = run_with_settings(&place, &[("shmall", 24_000)], &words) else { return };
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(0), "300 threads, 1\n"), "{ran:?}");
    assert_eq!(ran.stderr.matches("cannot make room for more threads").count(), 1, "{ran:?}");
    assert_eq!(place.run_well(&["replay"]), ran.stdout);
}

/// Has as many threads at a time as the first argument says. The second argument is the size of
/// their stacks in bytes. With a third one, prints the address space that it has used, and its
/// limit.
const MANY_THREADS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t all_are_here = PTHREAD_COND_INITIALIZER;
static long here, wanted, sum;
static int gate[2];
static void *work(void *number)
{
    char byte;
    pthread_mutex_lock(&lock);
    if (++here == wanted)
        pthread_cond_signal(&all_are_here);
    pthread_mutex_unlock(&lock);
    if (read(gate[0], &byte, 1) != 0)
        exit(8);
    pthread_mutex_lock(&lock);
    sum += (long)number;
    pthread_mutex_unlock(&lock);
    return number;
}
static void tell(void)
{
    char line[256];
    struct rlimit limit;
    FILE *status = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, status))
        if (!strncmp(line, "VmPeak", 6))
            printf("%ld\n", atol(line + 7));
    fclose(status);
    getrlimit(RLIMIT_AS, &limit);
    printf("%ld %ld\n", (long)limit.rlim_cur, (long)limit.rlim_max);
}
int main(int count, char **arguments)
{
    wanted = atol(arguments[1]);
    pthread_t *threads = calloc(wanted, sizeof *threads);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, atol(arguments[2]));
    if (pipe(gate))
        return 1;
    for (long i = 0; i < wanted; i++) {
        int error = pthread_create(&threads[i], &attributes, work, (void *)i);
        if (error) {
            printf("only %ld: %s\n", i, strerror(error));
            return 9;
        }
    }
    pthread_mutex_lock(&lock);
    while (here < wanted)
        pthread_cond_wait(&all_are_here, &lock);
    pthread_mutex_unlock(&lock);
    if (count > 3)
        tell();
    close(gate[1]);
    for (long i = 0; i < wanted; i++)
        pthread_join(threads[i], 0);
    printf("%ld threads at a time, %ld\n", wanted, sum);
    return 0;
}"#;

fn told_by(threads: u64) -> String {
    format!("{threads} threads at a time, {}\n", threads * (threads - 1) / 2)
}

fn records_and_replays_many(threads: u64) {
    let place = Place::new("limits-many-threads");
    compile(&place, "many", MANY_THREADS, &[]);
    let threads_word = threads.to_string();
    let began = std::time::Instant::now();
    let ran = place.run_within(&["record", "./many", &threads_word, "65536"], LONG);
    let recorded = began.elapsed();
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(0), told_by(threads).as_str()), "{ran:?}");
    assert_eq!(ran.stderr, "");
    let ran = place.run_within(&["replay"], LONG);
    assert_eq!((ran.status, ran.stdout), (Some(0), told_by(threads)), "{:?}", ran.stderr);
    println!("recorded in {recorded:?}, replayed in {:?}", began.elapsed() - recorded);
}

#[test]
fn three_thousand_threads_at_a_time() {
    records_and_replays_many(3000);
}

/// Run it with `cargo test -p retake --test limits -- --ignored --nocapture twenty`.
#[test]
#[ignore = "it takes most of the threads that a machine can have, and minutes"]
fn twenty_thousand_threads_at_a_time() {
    records_and_replays_many(20_000);
}

#[test]
fn two_thousand_threads_leave_room_for_another_recording() {
    needs!("root", "unshare");
    let place = Place::new("limits-beside");
    compile(&place, "many", MANY_THREADS, &[]);
    let script =
        "\"$0\" record -o one ./many 2000 65536 & \"$0\" record -o two ./many 1500 65536; wait $!";
    let words = ["sh", "-c", script, RETAKE];
    let Some(ran) = run_with_settings(&place, &[("shmmni", 128)], &words) else { return };
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    for (name, threads) in [("one", 2000), ("two", 1500)] {
        let replayed = place.run_within(&["replay", &format!("./{name}")], LONG);
        assert_eq!((replayed.status, replayed.stdout), (Some(0), told_by(threads)), "{name}");
        assert!(ran.stdout.contains(&told_by(threads)), "{ran:?}");
    }
}

#[test]
fn too_few_segments_are_an_error_at_once() {
    needs!("root", "unshare");
    let place = Place::new("limits-segments");
    let few = [("shmmni", 8)];
    let touch = ["touch", "begun"];
    let words = [&[RETAKE, "record"], touch.as_slice()].concat();
    let Some(ran) = run_with_settings(&place, &few, &words) else { return };
    assert!(ran.status != Some(0) && ran.stderr.contains("kernel.shmmni"), "{ran:?}");
    let left = place.recordings();
    assert!(!place.work("begun").exists() && left.iter().all(|name| name == "latest"), "{ran:?}");
    let doctor = run_with_settings(&place, &few, &[RETAKE, "doctor"]).unwrap();
    assert!(doctor.status != Some(0) && doctor.stdout.contains("kernel.shmmni=4096"), "{doctor:?}");
}

/// The output of the program with many threads, without a recorder.
fn many_natively(place: &Place, threads: &str, stack: &str) -> String {
    let output = place.command_of("./many", &[threads, stack, "tell"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// The peak address space of a program in KB, and its limits in bytes.
fn addresses(printed: &str) -> (u64, &str) {
    let mut lines = printed.lines();
    (lines.next().unwrap().parse().unwrap(), lines.next().unwrap())
}

#[test]
fn limits_of_address_space_are_the_programs() {
    let place = Place::new("limits-addresses");
    compile(&place, "many", MANY_THREADS, &[]);
    for (threads, stack) in [("1", "65536"), ("500", "65536")] {
        let limit = 3 * addresses(&many_natively(&place, threads, stack)).0;
        let script = format!("ulimit -v {limit}; exec ./many {threads} {stack} tell");
        let recorded = place.run_well(&["record", "sh", "-c", &script]);
        assert_eq!(addresses(&recorded).1, format!("{0} {0}", limit * 1024));
        assert_eq!(place.run_well(&["replay"]), recorded);
    }
}

/// The limit holds for the recorder as well, which needs 96 MB at least.
#[test]
fn a_recorder_of_little_address_space_makes_do_with_it() {
    let place = Place::new("limits-scarce");
    compile(&place, "many", MANY_THREADS, &[]);
    for (threads, stack) in [("1", "65536"), ("500", "1000000"), ("50", "8000000")] {
        let limit = (3 * addresses(&many_natively(&place, threads, stack)).0).max(98_304);
        let script = format!("ulimit -v {limit}; exec \"$0\" record ./many {threads} {stack} tell");
        let ran = Ran::of(place.command_of("sh", &["-c", &script, RETAKE]).output().unwrap(), &[]);
        assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
        assert_eq!(addresses(&ran.stdout).1, format!("{0} {0}", limit * 1024));
        assert_eq!(place.run_well(&["replay"]), ran.stdout);
    }
}

/// Maps memory until that fails.
const MAPS_ALL: &str = r#"
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
int main(void)
{
    struct rlimit limit = {1 << 30, 1 << 30};
    int blocks = 0;
    setrlimit(RLIMIT_AS, &limit);
    while (mmap(0, 10 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
        blocks++;
    printf("%d\n", blocks);
    return 0;
}"#;

#[test]
fn a_recorded_program_can_map_as_much_as_natively() {
    let place = Place::new("limits-maps");
    compile(&place, "maps", MAPS_ALL, &[]);
    let natively = place.command_of("./maps", &[]).output().unwrap().stdout;
    let blocks = |printed: &str| printed.trim().parse::<u64>().unwrap();
    let natively = blocks(std::str::from_utf8(&natively).unwrap());
    let recorded = blocks(&record(&place, &[], "./maps"));
    assert!((natively..natively + 5).contains(&recorded), "{recorded} of {natively}");
    // The same must hold if the recorder's own address space is limited.
    let script = "ulimit -v 4000000; exec \"$0\" record ./maps";
    let scarce = place.command_of("sh", &["-c", script, RETAKE]).output().unwrap().stdout;
    let scarce = blocks(std::str::from_utf8(&scarce).unwrap());
    assert!((natively..natively + 5).contains(&scarce), "{scarce} of {natively}");
}

/// The first thread computes until a handler tells it to stop.
const IS_INTERRUPTED: &str = r#"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static volatile int stopped;
static pthread_t first;
static void stop(int number) { stopped = number; }
static void *interrupt(void *unused)
{
    usleep(50000);
    pthread_kill(first, SIGUSR1);
    return unused;
}
int main(void)
{
    unsigned long rounds = 0;
    pthread_t other;
    signal(SIGUSR1, stop);
    first = pthread_self();
    pthread_create(&other, 0, interrupt, 0);
    while (!stopped)
        rounds++;
    pthread_join(other, 0);
    puts("interrupted");
    return rounds == 0;
}"#;

#[test]
fn under_the_sync_policy_signals_reach_a_thread_that_computes() {
    let place = Place::new("limits-sync-signal");
    compile(&place, "interrupted", IS_INTERRUPTED, &[]);
    for _ in 0..3 {
        assert_eq!(record(&place, &["--policy", "sync"], "./interrupted"), "interrupted\n");
    }
    // Replay delivers the signal right after the previous call, so the loop has fewer rounds.
    let replayed = place.run(&["replay"]);
    assert!(matches!(replayed.status, Some(0 | DIVERGED)), "{replayed:?}");
}

/// Two processes compute: each in its own memory, or with an argument in shared memory.
const COMPUTES: &str = r#"
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char **arguments)
{
    int kind = (arguments[1] ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS;
    volatile unsigned long *sum = mmap(0, 4096, PROT_READ | PROT_WRITE, kind, -1, 0);
    for (int i = 0; i < 2; i++) {
        if (!fork()) {
            for (unsigned long round = 0; round < 100000000; round++)
                *sum += round;
            _exit(0);
        }
    }
    while (wait(0) > 0)
        ;
    return count > 2;
}"#;

/// Processes run in parallel unless they take turns, and only those that share memory do.
#[test]
fn processes_that_share_nothing_take_no_turns() {
    let place = Place::new("limits-parallel");
    compile(&place, "computes", COMPUTES, &[]);
    let turns = |arguments: &[&str]| -> u64 {
        place.run_well(&[&["record", "./computes"], arguments].concat());
        assert_eq!(place.run_well(&["replay"]), "");
        let processes = place.run_json(&["ps", "--json"]);
        let processes = processes.as_array().unwrap();
        assert_eq!(processes.len(), 3);
        let threads = processes.iter().flat_map(|process| process["threads"].as_array().unwrap());
        threads
            .map(|thread| thread["turns"].as_u64().unwrap() + thread["waits"].as_u64().unwrap())
            .sum()
    };
    assert_eq!(turns(&[]), 0);
    assert!(turns(&["shared"]) > 0);
}
