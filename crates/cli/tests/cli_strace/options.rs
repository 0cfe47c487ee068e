//! Options that strace has too: what they show, and where it is written.

use super::cli_support::Place;
use super::strace;
use retake_testing::needs;
use std::fs;
use std::process::Command;
use std::time::Duration;

#[test]
fn summaries_have_the_columns_that_strace_has() {
    needs!("strace");
    let place = Place::new("trace-summary-beside-strace");
    let table = |text: &str| {
        let rows = text.lines().skip(2).filter(|line| !line.starts_with("--"));
        // A row has the calls, the errors if there were any, and the name.
        let row = |line: &str| {
            line.split_whitespace().skip(3).map(str::to_owned).collect::<Vec<_>>().join(" ")
        };
        let mut rows: Vec<String> = rows.map(row).collect();
        rows.sort();
        (text.lines().next().unwrap_or_default().trim_end().to_owned(), rows)
    };
    let environment =
        |command: &mut Command| _ = command.env("LC_ALL", "C").env_remove("LD_LIBRARY_PATH");
    let columns = "time-percent,total-time,avg-time,calls,errors,name";
    for order in ["calls", "name", "errors", "avg-time", "max-time", "min-time", "nothing"] {
        let mut strace = strace();
        environment(
            strace
                .args(["-c", "-w", "-S", order, "-U", columns, "cat", "/etc/passwd", "none"])
                .current_dir(place.work("")),
        );
        let theirs = table(
            &String::from_utf8_lossy(&strace.output().unwrap().stderr)
                .replace("cat: none: No such file or directory\n", ""),
        );
        let arguments = [
            "trace",
            "--method",
            "ptrace",
            "-c",
            "-w",
            "-S",
            order,
            "-U",
            columns,
            "cat",
            "/etc/passwd",
            "none",
        ];
        let ran = place.run_command(&arguments, Duration::from_secs(60), environment);
        let mut ours = table(&ran.stderr.replace("cat: none: No such file or directory\n", ""));
        // strace counts two executions of the first program: one before its tracing begins, and one
        // after. We count one.
        let without_exec = |rows: &mut Vec<String>| {
            rows.retain(|row| {
                !row.ends_with("execve") && !row.ends_with("exit_group") && !row.ends_with("total")
            })
        };
        let (heading, mut expected) = theirs;
        without_exec(&mut expected);
        without_exec(&mut ours.1);
        assert_eq!((ours.0, ours.1), (heading, expected), "{order}");
    }
}

#[test]
fn each_thread_has_a_file_of_its_own_if_asked() {
    let place = Place::new("trace-separately");
    let files = |prefix: &str| {
        let entries = fs::read_dir(place.work(""))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = entries.filter(|name| name.starts_with(prefix)).collect();
        names.sort();
        names
    };
    place.run_well(&["trace", "-ff", "-o", "own", "sh", "-c", "cat /etc/passwd; exit 0"]);
    let own = files("own.");
    assert_eq!(own.len(), 2, "{own:?}");
    for name in &own {
        let text = fs::read_to_string(place.work(name)).unwrap();
        assert!(
            text.ends_with("+++ exited with 0 +++\n") && !text.contains("[pid"),
            "{name}: {text}"
        );
        let number = name.rsplit('.').next().unwrap();
        assert!(
            number.parse::<u32>().is_ok() && !text.lines().any(|line| line.starts_with(number)),
            "{name}: {text}"
        );
    }
    place.run_badly(
        &["trace", "-c", "-ff", "-o", "own", "true"],
        125,
        &["summary", "-f in place of -ff"],
    );
    // `-A` appends to the file. With `-f`, each line has the number of its process.
    place.run_well(&["trace", "-f", "-e", "none", "-o", "appended", "true"]);
    let once = fs::read_to_string(place.work("appended")).unwrap();
    place.run_well(&["trace", "-f", "-A", "-e", "none", "-o", "appended", "true"]);
    let twice = fs::read_to_string(place.work("appended")).unwrap();
    assert!(
        twice.starts_with(&once)
            && twice.lines().count() == 2 * once.lines().count()
            && once.lines().count() > 0,
        "{twice}"
    );
    assert!(
        once.lines()
            .all(|line| line.split(' ').next().is_some_and(|first| first.parse::<u32>().is_ok())),
        "{once}"
    );
}

#[test]
fn options_choose_what_is_shown() {
    let place = Place::new("trace-chosen");
    fs::write(place.work("data"), "some text\n").unwrap();
    let shown = |options: &[&str]| {
        let ran = place.run(
            &[&["trace", "-q", "-e", "openat"][..], options, &["cat", "data", "none"]].concat(),
        );
        ran.stderr
            .lines()
            .filter(|line| line.contains("openat("))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let all = shown(&[]);
    let failed = |lines: &[String]| lines.iter().filter(|line| line.contains("= -1 ")).count();
    assert!(failed(&all) > 0 && failed(&all) < all.len(), "{all:?}");
    for (options, successful, unsuccessful) in [
        (&["-z"][..], true, false),
        (&["-Z"], false, true),
        (&["-e", "status=successful,failed"], true, true),
        (&["-e", "status=!failed"], true, false),
        (&["-e", "status=unfinished,detached"], false, false),
    ] {
        let lines = shown(options);
        let expected = if successful { all.len() - failed(&all) } else { 0 }
            + if unsuccessful { failed(&all) } else { 0 };
        assert_eq!(
            (lines.len(), failed(&lines)),
            (expected, if unsuccessful { failed(&all) } else { 0 }),
            "{options:?}: {lines:?}"
        );
    }
    assert!(shown(&["-n"]).iter().all(|line| line.starts_with("[ 257] openat(")), "numbers");
    assert!(
        shown(&["-a", "90"]).iter().all(|line| line.find(" = ") >= Some(89)),
        "the column of results"
    );
    let said = place.run_well(&[
        "trace",
        "-E",
        "WORD=said",
        "-E",
        "HOME",
        "-o",
        "out.txt",
        "sh",
        "-c",
        "echo $WORD ${HOME-none}",
    ]);
    assert_eq!(said, "said none\n");
    for (option, hint) in [
        ("-k", "retake debug"),
        ("-i", "retake debug"),
        ("-uroot", "sudo -u"),
        ("-Xraw", "retake ds txt"),
        ("-D", "-p PID"),
        ("-Y", "execve"),
    ] {
        place.run_badly(&["trace", option, "true"], 125, &["strace", hint]);
    }
    place.run_badly(&["trace", "-e", "inject=openat:error=ENOENT", "true"], 125, &["--chaos"]);
    place.run_badly(&["trace", "-p", "12 x"], 125, &["x is not the number of a process"]);
}
