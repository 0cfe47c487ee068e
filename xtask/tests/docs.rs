//! Checks the cargo commands in the documentation. A `cargo xtask` command is run, or it is in
//! `tests/not_run.txt` with the reason; then its options must exist. For commands that build and
//! run other things, the target must exist. `crates/cli/tests/docs` runs all other commands.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use retake_testing::listed::{complaints, is_listed, listed};
use retake_testing::pages::{Page, pages, repository};

/// The command that `crates/cli/tests/docs` runs.
const BUILD_AND_RUN: &str = "cargo run --release -p retake --";

/// Runs an xtask command, for a minute at most. Longer ones belong on the list.
fn xtask(arguments: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "60", env!("CARGO_BIN_EXE_xtask")]).args(arguments);
    command.current_dir(repository()).output().expect("it starts")
}

/// Returns the cargo commands in code blocks and back quotes, each with the path of its page.
fn commands_of_cargo(pages: &[Page]) -> Vec<(&str, String)> {
    let of_page = |page: &Page| {
        let spans = page.spans().into_iter().map(|(_, span)| span);
        let commands = page.commands().into_iter().map(|command| command.text);
        commands.chain(spans).collect::<Vec<_>>()
    };
    let all =
        pages.iter().flat_map(|page| of_page(page).into_iter().map(|it| (page.path.as_str(), it)));
    all.filter(|(_, text)| text.split(' ').any(|word| word == "cargo") && text.contains("cargo "))
        .collect()
}

/// The list is checked first, because a command that is missing in it may run for hours.
#[test]
fn the_list_has_what_is_shown_and_all_else_runs() {
    let (pages, listed) = (pages(), listed());
    let complaints = complaints(&listed, &pages);
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    let mut count = 0;
    for page in &pages {
        for command in page.commands() {
            let is_mine = command.text.contains("cargo ") && !command.text.contains(BUILD_AND_RUN);
            if !is_mine || is_listed(&listed, &page.path, &command.text) {
                continue;
            }
            let arguments = command.text.strip_prefix("cargo xtask ");
            let arguments = arguments.unwrap_or_else(|| panic!("{}: {command:?}", page.path));
            let output = xtask(&arguments.split(' ').collect::<Vec<_>>());
            assert!(output.status.success(), "{}: {command:?}: {output:?}", page.path);
            count += 1;
        }
    }
    assert!(count > 1, "{count} commands");
}

#[test]
fn options_of_xtask_are_known() {
    let mut count = 0;
    for (page, text) in commands_of_cargo(&pages()) {
        let Some((_, text)) = text.split_once("cargo xtask ") else { continue };
        let mut words = text.split(' ');
        let Some(name) = words.next() else { continue };
        let output = xtask(&[name, "--help"]);
        let help = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{page}: cargo xtask {text}");
        for option in words.filter(|word| word.starts_with("--")) {
            assert!(help.contains(option), "{page}: cargo xtask {text}: no {option}");
            count += 1;
        }
    }
    assert!(count > 15, "{count} options");
}

/// Returns the folders of packages that a command may name.
fn packages(name: Option<&str>) -> Vec<PathBuf> {
    let root = repository();
    let crates = fs::read_dir(root.join("crates")).unwrap().flatten().map(|entry| entry.path());
    let all = crates.chain([root.join("xtask"), root.join("fuzz")]);
    let is_named = |folder: &PathBuf| {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
        name.is_none_or(|name| manifest.contains(&format!("\nname = \"{name}\"\n")))
    };
    all.filter(is_named).collect()
}

/// Returns the sources of a target: a file, or all files of a folder.
fn sources(target: &Path) -> Option<String> {
    if let Ok(text) = fs::read_to_string(target.with_extension("rs")) {
        return Some(text);
    }
    let files = fs::read_dir(target).ok()?.flatten().map(|entry| entry.path());
    Some(files.filter_map(|file| fs::read_to_string(file).ok()).collect())
}

/// Returns what is wrong with a command that lets cargo build and run something.
fn fault(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split(' ').collect();
    let after = |option: &str| words.windows(2).find(|two| two[0] == option).map(|two| two[1]);
    let packages = packages(after("-p"));
    if packages.is_empty() {
        return Some("no such package".to_owned());
    }
    let kinds = [("--test", "tests"), ("--example", "examples"), ("--bin", "fuzz_targets")];
    let target = kinds.iter().find_map(|(option, folder)| Some((after(option)?, folder)));
    let (name, folder) = target?;
    let found = packages.iter().find_map(|package| sources(&package.join(folder).join(name)));
    let Some(found) = found else { return Some(format!("no {name} in {folder}")) };
    let variable = words[0].split_once('=').map(|(variable, _)| variable);
    let place = words.iter().position(|word| *word == name).expect("it is there");
    let tests = words[place + 1..].iter().take_while(|word| !word.starts_with('-'));
    let tests = tests.filter(|_| folder.starts_with("tests")).copied();
    let missing = variable.into_iter().chain(tests).find(|name| !found.contains(name));
    missing.map(|name| format!("nothing about {name} there"))
}

#[test]
fn what_cargo_is_to_build_is_there() {
    let mut count = 0;
    for (page, text) in commands_of_cargo(&pages()) {
        let runs = ["cargo test ", "cargo run "].iter().any(|it| text.contains(it));
        if !runs || text.contains(BUILD_AND_RUN) {
            continue;
        }
        assert_eq!(fault(&text), None, "{page}: {text}");
        count += 1;
    }
    assert!(count > 8, "{count} commands");
    assert!(fault("cargo test -p gone").is_some() && fault("cargo test --test gone").is_some());
    assert!(fault("cargo test -p retake --test chaos gone").is_some());
    assert!(fault("RETAKE_GONE=1 cargo test -p retake --test chaos").is_some());
}

/// The rows that explain the tables must be rows of the tables.
#[test]
fn rows_that_are_shown_are_in_the_tables() {
    let joined = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let tables = ["syscalls", "ioctls"]
        .map(|name| fs::read_to_string(repository().join(format!("tables/{name}.tbl"))).unwrap());
    let rows: Vec<String> = tables.iter().flat_map(|text| text.lines().map(joined)).collect();
    let page = fs::read_to_string(repository().join("docs/HOWTO_ADD_SYSCALL.md")).unwrap();
    let shown = page.lines().filter(|line| line.starts_with("    ") && !line.starts_with("    #"));
    let shown: Vec<String> = shown.map(joined).collect();
    assert!(shown.len() > 1, "{shown:?}");
    for row in shown {
        assert!(rows.contains(&row), "no table has: {row}");
    }
}
