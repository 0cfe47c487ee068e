//! README.md shows what happens: its session is run, and its commands are there, with the options
//! that it names.

mod cli_support;

use std::fs;
use std::path::Path;
use std::process::Output;

use cli_support::Place;
use regex_lite::Regex;

fn readme() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md")).unwrap()
}

/// The text below a heading, up to the next one.
fn section<'text>(text: &'text str, heading: &str) -> &'text str {
    let (_, after) = text
        .split_once(&format!("\n## {heading}\n"))
        .unwrap_or_else(|| panic!("no heading {heading}"));
    after.split("\n## ").next().unwrap()
}

/// A line without what differs between machines and runs: numbers, units, and the widths of
/// columns.
fn shape(line: &str) -> String {
    let numbers = Regex::new(r"0x[0-9a-f]+|[0-9]+(\.[0-9]+)?").unwrap();
    let units = Regex::new(r"N (ms|s|B|kB|MB)\b").unwrap();
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    units.replace_all(&numbers.replace_all(&line, "N"), "N UNIT").into_owned()
}

fn shapes<'text>(lines: impl Iterator<Item = &'text str>) -> Vec<String> {
    lines.map(shape).collect()
}

/// The commands of a console block, each with the lines that it prints.
fn session(block: &str) -> Vec<(&str, Vec<&str>)> {
    let mut commands: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in block.lines() {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => commands.push((command, Vec::new())),
            (None, Some((_, printed))) => printed.push(line),
            (None, None) => panic!("the session begins with a command, not {line}"),
        }
    }
    commands
}

#[test]
fn the_session_goes_as_it_is_shown() {
    let text = readme();
    let block =
        section(&text, "A session").split("```").nth(1).unwrap().strip_prefix("console\n").unwrap();
    let place = Place::new("readme-session");
    fs::write(place.work("words"), "one\ntwo\nthree\n").unwrap();
    let folder = Path::new(env!("CARGO_BIN_EXE_retake")).parent().unwrap();
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", folder.display());
    // The numbers of processes that are shown, and those that they have here.
    let mut numbers: Vec<(String, String)> = Vec::new();
    for (shown, printed) in session(block) {
        let command =
            numbers.iter().fold(shown.to_owned(), |command, (old, new)| command.replace(old, new));
        let output: Output =
            place.command_of("sh", &["-c", &command]).env("PATH", &path).output().unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{command}");
        assert_eq!(
            shapes(stdout.lines()),
            shapes(printed.iter().copied()),
            "{command} prints\n{stdout}"
        );
        if shown == "retake ps" {
            let number = |line: &str| line.split_whitespace().next().unwrap().to_owned();
            numbers = printed
                .iter()
                .skip(1)
                .map(|line| number(line))
                .zip(stdout.lines().skip(1).map(number))
                .collect();
        }
    }
    assert_eq!(numbers.len(), 3, "the session shows the processes");
}

#[test]
fn every_command_is_there_with_its_options_and_examples() {
    let text = readme();
    let table = section(&text, "A session").lines().filter(|line| line.starts_with("| `"));
    let place = Place::new("readme-commands");
    let mut count = 0;
    for row in table {
        let [_, names, does, _] = row.split('|').collect::<Vec<_>>()[..] else { panic!("{row}") };
        for (at, name) in names.split('`').skip(1).step_by(2).enumerate() {
            let command = name.split(' ').next().unwrap();
            let help = place.run_well(&[command, "--help"]);
            let short = place.run_well(&[command, "-h"]);
            assert!(help.contains("Examples:") && short.contains("Usage:"), "{command}: {help}");
            let named =
                name.split(' ').chain(does.split('`').skip(1).step_by(2).filter(|_| at == 0));
            for option in named.filter(|word| word.starts_with("--")) {
                assert!(help.contains(option), "{command} has no {option}: {help}");
            }
            count += 1;
        }
    }
    assert!(count > 15, "{count} commands");
}

#[test]
fn statuses_are_those_of_the_table_in_the_help() {
    let (text, place) = (readme(), Place::new("readme-statuses"));
    let help = place.run_well(&["--help"]);
    for status in ["120", "125", "126", "127"] {
        assert!(
            section(&text, "A session").contains(status)
                && help.contains(&format!("\n  {status}  ")),
            "{status}: {help}"
        );
    }
    place.run_badly(&["replay", "nothing"], 125, &[]);
    place.run_badly(&["record", "./nothing"], 127, &[]);
    place.run_badly(&["record", "/etc/passwd"], 126, &[]);
}

/// Nothing that it read, and nothing else of the machine, is needed.
#[test]
fn replay_needs_nothing_but_the_recording() {
    let place = Place::new("readme-alone");
    fs::write(place.work("input"), "read\n").unwrap();
    fs::copy("/bin/cat", place.work("reader")).unwrap();
    place.run_well(&[
        "record",
        "-o",
        "made",
        "sh",
        "-c",
        "./reader input; date +%N; cat /proc/sys/kernel/random/uuid",
    ]);
    let first = place.run_well(&["replay", "./made"]);
    fs::remove_file(place.work("input")).unwrap();
    fs::remove_file(place.work("reader")).unwrap();
    assert!(first.starts_with("read\n"), "{first}");
    assert_eq!(place.run_well(&["replay", "--check=full", "./made"]), first);
}
