//! The command line: a misspelt name is an error that lists the known ones, and nothing runs.

use std::process::{Command, Output};

fn xtask(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(arguments).output().expect("it starts")
}

/// Returns the error output of a failing command. If it ran after all, it would complain about the
/// missing program.
fn refusal(arguments: &[&str]) -> String {
    let output = xtask(&[arguments, &["--retake", "/nowhere/retake"]].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{arguments:?}");
    assert!(output.stdout.is_empty() && !said.contains("/nowhere"), "{arguments:?}: {said}");
    said
}

/// Every subject of a benchmark and every list of programs, with two names that it knows.
const SELECTIONS: [(&[&str], [&str; 2]); 8] = [
    (&["bench"], ["small-calls", "go-http"]),
    (&["bench", "--micro"], ["getppid", "payload-out"]),
    (&["bench", "--scaling"], ["threads", "payload"]),
    (&["bench", "--tracing"], ["dd-null", "mariadb"]),
    (&["bench", "--counts"], ["open-close", "true"]),
    (&["real"], ["git", "vim"]),
    (&["corpus"], ["nginx", "xz"]),
    (&["debugger"], ["race", "tree"]),
];

#[test]
fn misspelt_selections_are_told_with_the_known_names() {
    for (command, known) in SELECTIONS {
        for wrong in ["foo", "", "Git", "foo,", "small calls"] {
            let said = refusal(&[command, &["--only", wrong]].concat());
            let first = wrong.split(',').next().unwrap();
            assert!(said.contains(&format!("{first:?}; there are ")), "{command:?}: {said}");
            assert!(known.iter().all(|name| said.contains(name)), "{command:?}: {said}");
        }
        // A known name does not make up for an unknown one.
        let said = refusal(&[command, &["--only", &format!("{},foo", known[0])]].concat());
        assert!(said.contains("\"foo\"; there are "), "{command:?}: {said}");
    }
    for command in ["real", "corpus", "debugger"] {
        assert!(refusal(&[command, "foo"]).contains("no program \"foo\"; there are "));
        assert!(refusal(&[command, ""]).contains("no program \"\"; there are "));
    }
}

#[test]
fn known_names_are_listed() {
    for (command, known) in SELECTIONS {
        let names = |more: &[&str]| {
            let output = xtask(&[command, &["--list"], more].concat());
            assert!(output.status.success(), "{command:?}");
            let text = String::from_utf8(output.stdout).unwrap();
            text.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let all = names(&[]);
        assert!(known.iter().all(|name| all.iter().any(|one| one == name)), "{command:?}: {all:?}");
        assert_eq!(names(&["--only", &known.join(",")]), known, "{command:?}");
    }
}

#[test]
fn names_of_another_subject_are_not_known() {
    assert!(refusal(&["bench", "--micro", "--only", "xz"]).contains("no benchmark \"xz\""));
    assert!(refusal(&["bench", "--only", "getppid"]).contains("no benchmark \"getppid\""));
    assert!(refusal(&["corpus", "git"]).contains("no program \"git\""));
}

#[test]
fn wrong_command_lines_are_refused() {
    let of_options = [&["gen", "--chek"][..], &["real", "--seeks", "1"], &["bench", "--only"]];
    for wrong in [&[][..], &["tody"], &["tidy", "now"]].into_iter().chain(of_options) {
        let output = xtask(wrong);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("--help"), "{wrong:?}");
    }
}

#[test]
fn every_command_explains_itself() {
    for command in ["gen", "tidy", "bench", "real", "corpus", "debugger"] {
        let output = xtask(&[command, "--help"]);
        let said = String::from_utf8(output.stdout).unwrap();
        let usage = format!("Usage: cargo xtask {command}");
        assert!(output.status.success() && said.contains(&usage), "{said}");
    }
}

#[test]
fn what_is_generated_is_checked() {
    assert!(xtask(&["gen", "--check"]).status.success());
}
