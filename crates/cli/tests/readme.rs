//! The commands in README.md exist, with the options that it mentions. The tests in `docs` run its
//! sessions.

mod cli_support;

use std::fs;
use std::path::Path;

use cli_support::Place;

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

/// Replay needs neither the files that the program read nor anything else of the machine.
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
