//! Limits of threads: how many there can be, what reaches them, and who takes turns.

use super::cli_support::{Place, Ran};
use super::{DIVERGED, compile, record};
use retake_testing::needs;
use retake_testing::report::{self, Cause};

/// Makes threads until there are as many as the first argument says, and counts how often there
/// could be no more for a while.
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

#[test]
fn threads_without_room_fail_until_others_end() {
    needs!("root", "unshare");
    let place = Place::new("limits-threads");
    compile(&place, "makes", MAKES_THREADS, &[]);
    // The limit is the namespace's own: others that record meanwhile have theirs.
    let script = "echo 60 > /proc/sys/kernel/shmmni || exit 99; exec \"$0\" record ./makes 300";
    let mut shell = place.command_of(
        "timeout",
        &["30", "unshare", "--ipc", "sh", "-c", script, env!("CARGO_BIN_EXE_retake")],
    );
    let ran = Ran::of(shell.output().unwrap(), &[]);
    if ran.status == Some(99) || ran.stderr.contains("unshare") {
        report::skip(Cause::Machine, "no IPC namespaces can be made");
        return;
    }
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(0), "300 threads, 1\n"), "{ran:?}");
    assert_eq!(ran.stderr.matches("cannot make room for more threads").count(), 1, "{ran:?}");
    assert_eq!(place.run_well(&["replay"]), ran.stdout);
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
    // Delivered behind the call before, so it went round less often.
    let replayed = place.run(&["replay"]);
    assert!(matches!(replayed.status, Some(0 | DIVERGED)), "{replayed:?}");
}

/// Two processes compute; with an argument, in memory that they share.
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

/// Nothing keeps processes from running in parallel but turns, and only those that share memory
/// take any.
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
