//! Threads that often take turns share a core, both while recording and at replay. The processes
//! that they start do not. A thread that computes is stopped where replay finds the place quickly.

mod cli_support;

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cli_support::{Place, compile_program};
use retake_testing::c::compiler;
use retake_testing::needs;

/// The most visits of other moments in a search for the places where threads were stopped. There
/// are some 50 places. Where no jump can be planted, each needs a hundred thousand visits.
const MOST_VISITS: u64 = 50_000;

/// The time limit for finding a process in one round.
const PATIENCE: Duration = Duration::from_secs(1);

/// The rounds of the first program. In each, two threads take turns, and then a process is started
/// that prints more than a pipe holds. There are several, because the threads may sometimes run on
/// any core.
const ROUNDS: usize = 8;
/// The output of a round, which is more than a pipe holds.
const OUTPUT_BYTES: usize = 100_000;

const TURNS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn, turns = 500, work;
static void *take_turns(void *parity)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < turns; i++) {
        while (turn % 2 != (parity != 0))
            pthread_cond_wait(&changed, &lock);
        for (volatile int j = 0; j < work; j++) {}
        turn++;
        pthread_cond_signal(&changed);
    }
    pthread_mutex_unlock(&lock);
    return 0;
}
static void take_turns_with_another(void)
{
    pthread_t other;
    pthread_create(&other, 0, take_turns, "odd");
    take_turns(0);
    pthread_join(other, 0);
}
"#;

const STARTS_OTHERS: &str = r#"
int main(void)
{
    static char much[100000];
    memset(much, 'x', sizeof much);
    for (int i = 0; i < 8; i++) {
        int status;
        take_turns_with_another();
        if (fork() == 0)
            return write(1, much, sizeof much) != sizeof much;
        wait(&status);
    }
    return 0;
}
"#;

/// Takes turns until it is bound to one core. Then goes on alone until it may run on all cores, for
/// five seconds at most.
const GOES_ON_ALONE: &str = r#"
static int may_run_on(const char *cores)
{
    char line[256], wanted[256];
    int is_so = 0;
    FILE *status = fopen("/proc/thread-self/status", "r");
    snprintf(wanted, sizeof wanted, "Cpus_allowed_list:\t%s\n", cores);
    while (fgets(line, sizeof line, status))
        is_so |= strcmp(line, wanted) == 0;
    fclose(status);
    return is_so;
}
int main(int count, char **arguments)
{
    const char *cores = arguments[count - 1];
    int i = 0;
    do {
        take_turns_with_another();
    } while (may_run_on(cores) && ++i < 20);
    if (i == 20)
        return 2;
    for (time_t end = time(0) + 5; !may_run_on(cores) && time(0) < end;)
        for (volatile long j = 0; j < 1000000; j++) {}
    return !may_run_on(cores);
}
"#;

/// Takes turns for a fraction of a second. These are fewer turns than those after which the threads
/// may run on any core again.
const COMPUTES_IN_TURN: &str = r#"
int main(void)
{
    turns = 5000;
    work = 40000;
    take_turns_with_another();
    return 0;
}
"#;

struct Process {
    pid: String,
    parent: String,
    cores: String,
}

fn processes() -> Vec<Process> {
    let folders = std::fs::read_dir("/proc").unwrap().flatten();
    let statuses =
        folders.filter_map(|folder| std::fs::read_to_string(folder.path().join("status")).ok());
    statuses
        .map(|status| Process {
            pid: field(&status, "Pid:"),
            parent: field(&status, "PPid:"),
            cores: field(&status, "Cpus_allowed_list:"),
        })
        .collect()
}

fn field(status: &str, name: &str) -> String {
    status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned()
}

fn parent_of<'a>(process: &Process, all: &'a [Process]) -> Option<&'a Process> {
    all.iter().find(|other| other.pid == process.parent)
}

fn is_below(process: &Process, above: u32, all: &[Process]) -> bool {
    let lineage = std::iter::successors(parent_of(process, all), |parent| parent_of(parent, all));
    lineage.take(8).any(|parent| parent.pid == above.to_string())
}

/// The core of a descendant of `above` that is bound to one core.
fn core_below(above: u32) -> Option<u32> {
    let all = processes();
    all.iter()
        .filter(|process| is_below(process, above, &all))
        .find_map(|process| process.cores.parse().ok())
}

/// Whether a descendant of `above` is bound to one core and has a child that may run on all.
fn shares_a_core(above: u32, cores: &str) -> bool {
    let all = processes();
    let parents =
        all.iter().filter(|child| child.cores == cores).filter_map(|child| parent_of(child, &all));
    parents
        .filter(|parent| parent.cores.parse::<u32>().is_ok())
        .any(|parent| is_below(parent, above, &all))
}

/// The cores of this process, as listed in `/proc`.
fn all_cores() -> String {
    field(&std::fs::read_to_string("/proc/self/status").unwrap(), "Cpus_allowed_list:")
}

#[test]
fn turns_are_taken_on_one_core() {
    needs!("two cores");
    let cores = all_cores();
    let place = Place::new("turns_are_taken_on_one_core");
    let program = compile(&place, STARTS_OTHERS);
    for arguments in [&["record", "--", &program][..], &["replay"]] {
        assert!(
            shared_a_core(&place, arguments, &cores),
            "{arguments:?}: the threads were never seen on one core"
        );
    }
}

#[test]
fn who_takes_no_more_turns_is_set_free() {
    needs!("two cores");
    let cores = all_cores();
    let place = Place::new("who_takes_no_more_turns_is_set_free");
    let program = compile(&place, GOES_ON_ALONE);
    place.run_well(&["record", "--", &program, &cores]);
}

#[test]
fn who_shares_a_core_with_others_moves_to_one_that_is_idle() {
    needs!("two cores", "idle times");
    let place = Place::new("who_shares_a_core_with_others_moves_to_one_that_is_idle");
    let program = compile(&place, COMPUTES_IN_TURN);
    // All cores may be busy with other tests.
    assert!((0..ROUNDS).any(|_| moved_away(&place, &program)), "the threads never left the core");
}

/// Records the program, and computes on the core to which its threads are bound. Returns whether
/// the threads soon move to another core.
fn moved_away(place: &Place, program: &str) -> bool {
    let mut running = place.command(&["record", "--", program]).spawn().unwrap();
    let retake = running.id();
    let first = wait_for(PATIENCE / 2, || core_below(retake));
    let moved = first.is_some_and(|first| {
        let computes = "ulimit -t 5; while :; do :; done";
        let mut other = Command::new("taskset")
            .args(["-c", &first.to_string(), "sh", "-c", computes])
            .spawn()
            .unwrap();
        let moved =
            wait_for(PATIENCE / 2, || core_below(retake).filter(|core| *core != first)).is_some();
        other.kill().unwrap();
        other.wait().unwrap();
        moved
    });
    assert!(running.wait().unwrap().success());
    moved
}

fn wait_for<T>(patience: Duration, look: impl Fn() -> Option<T>) -> Option<T> {
    let began = Instant::now();
    std::iter::repeat_with(|| {
        std::thread::sleep(Duration::from_millis(2));
        look()
    })
    .take_while(|_| began.elapsed() < patience)
    .flatten()
    .next()
}

/// Runs a retake command, which must succeed. Returns whether the threads were seen sharing a core.
fn shared_a_core(place: &Place, arguments: &[&str], cores: &str) -> bool {
    let mut running = place.command(arguments).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = running.stdout.take().unwrap();
    let mut seen = false;
    for _ in 0..ROUNDS {
        seen = seen
            || wait_for(PATIENCE, || shares_a_core(running.id(), cores).then_some(())).is_some();
        output.read_exact(&mut vec![0; OUTPUT_BYTES]).unwrap();
    }
    assert!(running.wait().unwrap().success());
    seen
}

fn compile(place: &Place, main: &str) -> String {
    let (source, program) = (place.work("turns.c"), place.work("turns"));
    std::fs::write(&source, [TURNS, main].concat()).unwrap();
    let output = Command::new(compiler())
        .args(["-O1", "-pthread", "-o"])
        .args([&program, &source])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program.display().to_string()
}

/// The number before these words in what a command said.
fn number_before(said: &str, words: &str) -> Option<u64> {
    let before = said.split(words).next()?;
    let number = before.rsplit(", after ").next()?;
    number.replace(|one: char| !one.is_ascii_digit(), "").parse().ok()
}

#[test]
fn threads_are_stopped_where_a_jump_can_be_planted() {
    let place = Place::new("cores-places");
    let program = place.work("program");
    compile_program("programs/forced_slow_words", &["-O1", "-pthread"], &program);
    for _ in 0..4 {
        place.run_well(&["record", program.to_str().unwrap()]);
        let said = place.run(&["replay", "--statistics"]).stderr;
        let visits = number_before(&said, " other visits");
        assert!(visits.is_some_and(|visits| visits < MOST_VISITS), "{visits:?}: {said}");
    }
}
