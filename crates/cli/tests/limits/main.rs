//! The limits of whole programs in `docs/LIMITS.md`: which programs are refused, which lose
//! something, and where replay reports a divergence.

#[path = "../cli_support/mod.rs"]
mod cli_support;
mod threads;

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cli_support::{Place, Ran};
use retake_testing::c::compiler;
use retake_testing::needs;
use retake_testing::report::{self, Cause};

/// The exit status of a replay that diverged.
const DIVERGED: i32 = 120;
const PATIENCE: Duration = Duration::from_secs(20);
const NOBODY: u32 = 65534;

/// Compiles a program in the working folder.
fn compile(place: &Place, name: &str, source: &str, options: &[&str]) {
    fs::write(place.work(&format!("{name}.c")), source).unwrap();
    let file = format!("{name}.c");
    let arguments = [&["-O1", "-pthread", "-o", name, &file], options].concat();
    assert!(place.command_of(&compiler(), &arguments).status().unwrap().success());
}

/// Records a program that must succeed and report nothing. Returns its output.
fn record(place: &Place, options: &[&str], program: &str) -> String {
    place.run_well(&[&["record"], options, &["--", program]].concat())
}

/// Checks that replay reports a divergence, and prints nothing that it cannot know.
fn replay_diverges(place: &Place, arguments: &[&str]) {
    let ran = place.run(&[&["replay"], arguments].concat());
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(DIVERGED), ""), "{ran:?}");
    assert!(ran.stderr.contains("error: replay diverged"), "{ran:?}");
}

/// A 32-bit program that exits with status 7.
fn program_of_32_bits() -> Vec<u8> {
    const BASE: u32 = 0x0804_8000;
    const HEADERS: u32 = 52 + 32;
    // mov $1, %eax; mov $7, %ebx; int $0x80
    let code = [0xb8, 1, 0, 0, 0, 0xbb, 7, 0, 0, 0, 0xcd, 0x80];
    let size = HEADERS + code.len() as u32;
    let mut bytes = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    let halves =
        |values: &[u16]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let words =
        |values: &[u32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    // An executable for i386.
    bytes.extend(halves(&[2, 3]));
    bytes.extend(words(&[1, BASE + HEADERS, 52, 0, 0]));
    bytes.extend(halves(&[52, 32, 1, 0, 0, 0]));
    bytes.extend(words(&[1, 0, BASE, BASE, size, size, 5, 0x1000]));
    bytes.extend(code);
    bytes
}

#[test]
fn programs_of_32_bits_are_killed_and_their_parents_go_on() {
    let place = Place::new("limits-32");
    fs::write(place.work("old"), program_of_32_bits()).unwrap();
    fs::set_permissions(place.work("old"), Permissions::from_mode(0o755)).unwrap();
    if Command::new(place.work("old")).status().ok().and_then(|status| status.code()) != Some(7) {
        report::skip(Cause::Machine, "this kernel runs no programs of 32 bits");
        return;
    }
    let ran = place.run(&["record", "./old"]);
    assert_eq!((ran.status, ran.signal), (None, Some(9)), "{ran:?}");
    assert!(ran.stderr.contains("only 64-bit x86 programs can be recorded"), "{ran:?}");
    let ran = place.run(&["record", "sh", "-c", "./old; echo $?"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(0), "137\n"), "{ran:?}");
    assert_eq!(place.run(&["replay"]).stdout, "137\n");
}

#[test]
fn set_user_id_programs_run_without_the_privilege() {
    needs!("root", "setpriv");
    let folder = std::env::temp_dir().join(format!("retake-set-user-id-{}", std::process::id()));
    fs::create_dir(&folder).unwrap();
    std::os::unix::fs::chown(&folder, Some(NOBODY), Some(NOBODY)).unwrap();
    let (retake, id) = (folder.join("retake"), folder.join("id"));
    fs::copy(env!("CARGO_BIN_EXE_retake"), &retake).unwrap();
    fs::copy("/usr/bin/id", &id).unwrap();
    fs::set_permissions(&id, Permissions::from_mode(0o4755)).unwrap();
    let run = |words: &[&str]| {
        let user = NOBODY.to_string();
        let output = Command::new("setpriv")
            .args(["--reuid", &user, "--regid", &user, "--clear-groups"])
            .args(words)
            .env("RETAKE_DIR", folder.join("recordings"))
            .env("TMPDIR", &folder)
            .current_dir(&folder)
            .output();
        Ran::of(output.unwrap(), words)
    };
    let natively = run(&["./id", "-u"]);
    let recorded = run(&["./retake", "record", "./id", "-u"]);
    let replayed = run(&["./retake", "replay"]);
    fs::remove_dir_all(&folder).unwrap();
    if natively.stdout != "0\n" {
        report::skip(Cause::Machine, "the temporary folder has no set-user-id programs");
        return;
    }
    for ran in [recorded, replayed] {
        assert_eq!((ran.status, ran.stdout), (Some(0), format!("{NOBODY}\n")), "{:?}", ran.stderr);
    }
}

/// The bytes of the instruction `syscall` are the end of a constant that is loaded.
const CALL_INSIDE: &str = r#"
#include <stdio.h>
#include <unistd.h>
extern char inside[];
__asm__(".type outer, @function\nouter: .byte 0xb8, 0x90\ninside: .byte 0x0f, 0x05, 0xc3\nret\n.size outer, . - outer");
int main(void)
{
    long number = 39;
    __asm__ volatile("call inside" : "+a"(number) : : "rcx", "r11", "memory");
    printf("%d\n", number == getpid());
    return 0;
}"#;

#[test]
fn a_call_inside_an_instruction_is_noticed_at_replay() {
    let place = Place::new("limits-inside");
    compile(&place, "inside", CALL_INSIDE, &[]);
    assert_eq!(record(&place, &[], "./inside"), "1\n");
    replay_diverges(&place, &[]);
    assert_eq!(record(&place, &["--no-fast-path"], "./inside"), "1\n");
    assert_eq!(place.run_well(&["replay"]), "1\n");
}

#[test]
fn random_numbers_in_code_made_at_run_time_are_noticed_at_replay() {
    if !std::arch::is_x86_feature_detected!("rdrand") {
        report::skip(Cause::Machine, "this processor has no RDRAND");
        return;
    }
    let place = Place::new("limits-random");
    let source = r#"
        #include <stdio.h>
        #include <string.h>
        #include <sys/mman.h>
        int main(void)
        {
            static const unsigned char code[] = {0x48, 0x0f, 0xc7, 0xf0, 0x73, 0xfa, 0xc3};
            void *made = mmap(0, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            memcpy(made, code, sizeof code);
            printf("%lx\n", ((unsigned long (*)(void))made)());
            return 0;
        }"#;
    compile(&place, "random", source, &[]);
    record(&place, &[], "./random");
    replay_diverges(&place, &[]);
}

/// Sets a byte when it has mapped the file, and waits until another process writes there.
const WATCHES_A_FILE: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void)
{
    volatile char *shown = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, open("shared", O_RDWR), 0);
    shown[0] = 1;
    while (!shown[1])
        usleep(1000);
    printf("%d\n", shown[1]);
    return 0;
}"#;

#[test]
fn what_others_write_to_shared_memory_is_not_seen() {
    let place = Place::new("limits-outside");
    compile(&place, "watches", WATCHES_A_FILE, &[]);
    let file = File::create_new(place.work("shared")).unwrap();
    file.set_len(4096).unwrap();
    let mut recorder =
        place.command(&["record", "./watches"]).stdout(Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    let shared = place.work("shared");
    while fs::read(&shared).unwrap()[0] == 0 {
        assert!(start.elapsed() < PATIENCE, "it has not begun");
        sleep(Duration::from_millis(10));
    }
    File::options().write(true).open(&shared).unwrap().write_all_at(&[7], 1).unwrap();
    assert!(recorder.wait().unwrap().success());
    replay_diverges(&place, &[]);
}

/// A child counts in memory that its parent maps only for reading.
const READ_ONLY: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void)
{
    char byte;
    int ends[2], file = open("counted", O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (pipe(ends) || ftruncate(file, 4096))
        return 1;
    if (!fork()) {
        volatile unsigned *count = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        write(ends[1], "x", 1);
        while (++*count < 400000000)
            ;
        _exit(0);
    }
    read(ends[0], &byte, 1);
    volatile unsigned *count = mmap(0, 4096, PROT_READ, MAP_SHARED, open("counted", O_RDONLY), 0);
    usleep(100000);
    printf("%u\n", *count);
    wait(0);
    return 0;
}"#;

#[test]
fn files_on_disk_that_are_mapped_only_to_read_are_not_ordered() {
    let place = Place::new("limits-read-only");
    compile(&place, "counts", READ_ONLY, &["-Wno-unused-result"]);
    let printed = record(&place, &[], "./counts");
    assert!(printed.trim().parse::<u32>().unwrap() < 400_000_000, "the two ran in parallel");
    replay_diverges(&place, &[]);
}

/// One thread waits in a read. Another one waits for data in the buffer, and counts its looks.
const WATCHES_A_BUFFER: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static volatile char buffer[8];
static unsigned long looks;
static void *look(void *unused)
{
    while (!buffer[0])
        looks++;
    return unused;
}
int main(void)
{
    int ends[2];
    pthread_t looker;
    if (pipe(ends))
        return 1;
    if (!fork()) {
        usleep(200000);
        return write(ends[1], "data", 4) != 4;
    }
    pthread_create(&looker, 0, look, 0);
    long result = read(ends[0], (char *)buffer, 8);
    pthread_join(looker, 0);
    printf("%ld %lu\n", result, looks);
    return 0;
}"#;

/// Replay may succeed, report a divergence, or not end. It must not print anything else.
#[test]
fn a_buffer_that_another_thread_watches_misleads_nobody() {
    needs!("two cores");
    let place = Place::new("limits-buffer");
    compile(&place, "watches", WATCHES_A_BUFFER, &[]);
    let printed = record(&place, &[], "./watches");
    let output = place
        .command_of("timeout", &["5", env!("CARGO_BIN_EXE_retake"), "replay"])
        .output()
        .unwrap();
    let ran = Ran::of(output, &[]);
    let ended = match ran.status {
        Some(0) => printed.as_str(),
        Some(124) | Some(DIVERGED) => "",
        _ => panic!("{ran:?}"),
    };
    assert_eq!(ran.stdout, ended, "{ran:?}");
}

/// Maps files shared, each for a moment. The first argument is their number.
const MAPS_FILES: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int count, char **arguments)
{
    unsigned long sum = 0;
    for (int i = 0; i < atoi(arguments[1]); i++) {
        char name[32];
        snprintf(name, sizeof name, "file-%d", i);
        int file = open(name, O_RDWR | O_CREAT, 0600);
        if (write(file, &i, sizeof i) != sizeof i)
            return 1;
        volatile int *shown = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        sum += *shown;
        munmap((void *)shown, 4096);
        close(file);
        unlink(name);
    }
    printf("%lu\n", sum);
    return count - 2;
}"#;

#[test]
fn more_shared_files_than_are_stored_are_told() {
    let place = Place::new("limits-files");
    compile(&place, "maps", MAPS_FILES, &[]);
    let beyond = place.run_within(&["record", "./maps", "16500"], 3 * PATIENCE);
    assert_eq!(beyond.status, Some(0), "{beyond:?}");
    let said = "cannot be stored: more files are mapped than a recording can list; replay will \
    show zeros in its place";
    assert_eq!(beyond.stderr.matches(said).count(), 1, "{beyond:?}");
    replay_diverges(&place, &[]);
}

#[test]
fn looking_for_leaks_needs_ptrace() {
    let place = Place::new("limits-leaks");
    fs::write(place.work("none.c"), "int main(void) { return 0; }").unwrap();
    if !place
        .command_of(&compiler(), &["-fsanitize=address", "none.c", "-o", "none"])
        .status()
        .unwrap()
        .success()
    {
        report::skip(Cause::NotInstalled, "this gcc has no address sanitizer");
        return;
    }
    let ran = place.run_within(&["record", "./none"], 3 * PATIENCE);
    assert!(
        ran.status == Some(1) && ran.stderr.contains("LeakSanitizer does not work under ptrace"),
        "{ran:?}"
    );
    let ran = place.run_command(&["record", "./none"], 3 * PATIENCE, |command| {
        command.env("ASAN_OPTIONS", "detect_leaks=0");
    });
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
}

#[test]
fn a_number_without_a_call_is_shown() {
    let place = Place::new("limits-number");
    let source = r#"
        #include <errno.h>
        #include <stdio.h>
        #include <unistd.h>
        int main(void)
        {
            long result = syscall(9999, 1, 2);
            printf("%ld %d\n", result, errno);
            return 0;
        }"#;
    compile(&place, "calls", source, &[]);
    assert_eq!(record(&place, &[], "./calls"), "-1 38\n");
    let shown = place.run_well(&["dump", "--range", "30.."]);
    assert!(shown.contains("syscall_9999() = -1 ENOSYS"), "{shown}");
    assert_eq!(place.run_well(&["replay"]), "-1 38\n");
}

/// The names and contents of the files in the folder.
fn contents(place: &Place) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(place.work("")).unwrap().map(|entry| entry.unwrap());
    let mut found: Vec<_> = entries
        .map(|entry| {
            (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap_or_default())
        })
        .collect();
    found.sort();
    found
}

#[test]
fn what_is_replayed_acts_on_nothing_outside() {
    let place = Place::new("limits-nothing");
    fs::write(place.work("removed"), "as it was").unwrap();
    fs::write(place.work("moved"), "as it was").unwrap();
    fs::write(place.work("changed"), "as it was").unwrap();
    let before = contents(&place);
    let script = "echo made > made; rm removed; mv moved elsewhere; echo more >> changed; mkdir \
    folder; chmod 0 changed; echo done";
    place.run_well(&["record", "sh", "-c", script]);
    assert_ne!(contents(&place), before);
    fs::remove_dir_all(place.work("")).unwrap();
    fs::create_dir(place.work("")).unwrap();
    for (name, bytes) in &before {
        fs::write(place.work(name), bytes).unwrap();
    }
    assert_eq!(place.run_well(&["replay"]), "done\n");
    assert_eq!(contents(&place), before);
    assert_eq!(fs::metadata(place.work("changed")).unwrap().permissions().mode() & 0o777, 0o644);
}
