//! `retake debug --lldb`: lldb on a recording, forwards and backwards.

mod cli_support;

use std::fs;
use std::time::Duration;

use cli_support::Place;
use retake_testing::c::compiler;
use retake_testing::needs;

const LONG: Duration = Duration::from_secs(120);

const SOURCE: &str = "
int depth(int n)
{
    if (n == 0)
        *(volatile int *)0 = 1;
    return depth(n - 1) + 1;
}
int main(void) { return depth(3); }
";

const COMMANDS: &str = "\
bt
breakpoint set -n depth
reverse-continue
frame variable n
reverse-continue
frame variable n
reverse-stepi
when
seek begin
go
continue
frame variable n
register write rax 5
register read rax
seek crash
go
crash
";

#[test]
fn lldb_goes_forwards_and_backwards() {
    needs!("lldb");
    let place = Place::new("lldb");
    fs::write(place.work("crash.c"), SOURCE).unwrap();
    fs::write(place.work("commands"), COMMANDS).unwrap();
    assert!(
        place
            .command_of(&compiler(), &["-g", "-O0", "crash.c", "-o", "crash"])
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(place.run(&["record", "./crash"]).signal, Some(11));
    // lldb must show the recorded file.
    fs::remove_file(place.work("crash")).unwrap();
    let ran = place.run_command(&["debug", "--lldb", "--", "-b", "-s", "commands"], LONG, |_| ());
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let shown: Vec<&str> = ran
        .stdout
        .lines()
        .filter(|line| {
            line.contains("(int) n = ") || line.contains("rax = ") || line.contains("SEGV_MAPERR")
        })
        .collect();
    let wanted = [
        "(int) n = 0",
        "(int) n = 1",
        "(int) n = 3",
        "rax = 0x0000000000000005",
        "nothing is mapped at 0x0",
    ];
    assert!(
        shown.len() == wanted.len()
            && shown.iter().zip(wanted).all(|(line, wanted)| line.contains(wanted)),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout.contains("depth(n=0) at crash.c:5") && ran.stdout.contains("main at crash.c:8"),
        "{}",
        ran.stdout
    );
    assert_eq!(place.scratch(), [""; 0]);
}

#[test]
fn a_debugger_that_is_not_there_is_said() {
    let place = Place::new("no-lldb");
    assert_eq!(place.run(&["record", "true"]).status, Some(0));
    let ran = place.run(&["debug", "--lldb=/nowhere/lldb"]);
    assert_eq!(ran.status, Some(125), "{ran:?}");
    assert!(
        ran.stderr.contains("there is no /nowhere/lldb") && ran.stderr.contains("apt install lldb"),
        "{ran:?}"
    );
}
