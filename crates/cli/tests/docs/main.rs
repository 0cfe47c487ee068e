//! Runs every command and session in the documentation. Each must print what the page shows.
//!
//! `retake_testing::pages` finds the commands in the pages. `docs/README.md` tells readers what may
//! differ. [`PREPARED`] makes the files that commands need. `tests/not_run.txt` lists commands that
//! cannot be run, with reasons. `xtask/tests/docs.rs` tests the commands of cargo.

#[path = "../cli_support/mod.rs"]
mod cli_support;
mod dialogue;
mod session;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use cli_support::Place;
use retake_testing::listed::{Listed, is_listed, listed};
use retake_testing::needs;
use retake_testing::needs::is_lacking;
use retake_testing::pages::{Command, Page, pages};
use session::Session;

/// Scripts that run before commands of pages.
const PREPARED: &[(&str, &str, &str)] = &[
    ("README.md", "retake record make -j2", r"printf 'all: a b\na b:\n\techo $@\n' > Makefile"),
    (
        "docs/CHAOS.md",
        "retake record --chaos --until-failure -n 1000 -- ./test",
        "gcc -pthread -o test $REPOSITORY/tests/chaos/semaphore_misuse.c",
    ),
    (
        "docs/COMPILER.md",
        "make CC='retake cc' CXX='retake c++'",
        r"cp $REPOSITORY/tests/declared/locks.cc prog.cc
        printf 'CXXFLAGS = -std=c++20\nLDLIBS = -pthread\nprog:\n' > Makefile",
    ),
    ("docs/DEBUG.md", LOOKUP, "cp -r $REPOSITORY/examples examples"),
    ("docs/DEBUGGING.md", RACE, "cp -r $REPOSITORY/examples examples"),
    ("docs/PYTHON.md", ACCOUNT, "cp -r $REPOSITORY/examples examples"),
    (
        "docs/REANIMATE.md",
        "retake trace -o x.ds -- tar xf source.tar",
        "mkdir source; echo text > source/file; ln source/file source/name
        tar cf source.tar source; rm -r source",
    ),
    (
        "docs/SECURITY.md",
        r#"retake replay ./untrusted; echo "status $?""#,
        "gcc -O1 -o attacker $REPOSITORY/tests/attacks/attacker.c
        retake record -o untrusted ./attacker removes $PWD/kept 1 1",
    ),
];

const LOOKUP: &str = "cd examples; gcc -g -o lookup lookup.c; echo 10x1 > digits";
const ACCOUNT: &str = r#"cd examples; retake record python3 account.py; echo "status $?""#;
const RACE: &str = "cd examples; gcc -g -pthread -o race race.c";

/// The pages whose sessions hold for most orders of threads, with the number of tries.
const BY_CHANCE: &[(&str, usize)] = &[("docs/DEBUGGING.md", 5)];

/// Text that looks like a command, but is none.
const NO_COMMANDS: [&str; 1] = ["retake sparse 1"];

/// Whether this test runs a command. The test of xtask runs those of cargo, except commands that
/// build and run retake.
fn is_mine(command: &Command) -> bool {
    !command.text.contains("cargo ") || command.text.contains(session::BUILD_AND_RUN)
}

#[test]
fn every_command_goes_as_it_is_shown() {
    needs!("gcc", "g++", "make", "tar");
    let (pages, listed) = (pages(), listed());
    for (page, command, _) in PREPARED {
        let page = pages.iter().find(|it| it.path == *page).expect("a page");
        assert!(page.commands().iter().any(|it| it.text == *command), "{}: {command}", page.path);
    }
    let next = AtomicUsize::new(0);
    let complaints = Mutex::new(Vec::new());
    let worker = || {
        while let Some(page) = pages.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(complaint) = run_with_luck(page, &listed) {
                complaints.lock().unwrap().push(format!("{}:{complaint}", page.path));
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(worker);
        worker();
    });
    let complaints = complaints.into_inner().unwrap();
    assert!(complaints.is_empty(), "{}", complaints.join("\n\n"));
}

/// Runs a page until it prints what it shows: once, or as often as [`BY_CHANCE`] allows.
fn run_with_luck(page: &Page, listed: &[Listed]) -> Result<(), String> {
    let tries =
        BY_CHANCE.iter().find(|(path, _)| *path == page.path).map_or(1, |(_, tries)| *tries);
    let mut result = run(page, listed);
    for _ in 1..tries {
        if result.is_ok() {
            break;
        }
        result = run(page, listed);
    }
    result
}

fn run(page: &Page, listed: &[Listed]) -> Result<(), String> {
    let is_run =
        |command: &Command| is_mine(command) && !is_listed(listed, &page.path, &command.text);
    let commands: Vec<Command> = page.commands().into_iter().filter(is_run).collect();
    let needs_debugger = commands.iter().any(|command| command.to_debugger);
    if commands.is_empty() || needs_debugger && is_lacking("gdb") {
        return Ok(());
    }
    let place = Place::new(&format!("docs-{}", page.path.replace('/', "-")));
    let mut session = Session::new(&place);
    for (at, command) in commands.iter().enumerate() {
        let is_this = |it: &&(&str, &str, &str)| it.0 == page.path && it.1 == command.text;
        if let Some((.., script)) = PREPARED.iter().find(is_this) {
            session.prepare(script);
        }
        let opens = !command.to_debugger && commands.get(at + 1).is_some_and(|it| it.to_debugger);
        let said = session.run(command, opens);
        said.map_err(|said| format!("{}: {}\n{said}", command.line, command.text))?;
    }
    Ok(())
}

/// Commands in back quotes in the text have only options that their help lists.
#[test]
fn every_option_of_a_command_in_the_text_is_known() {
    let place = Place::new("docs-options");
    let mut helps: BTreeMap<String, String> = BTreeMap::new();
    let mut count = 0;
    for page in pages() {
        for (line, span) in page.spans() {
            let mut words = span.split(' ').filter(|word| !word.is_empty());
            let (Some("retake"), Some(command)) = (words.next(), words.next()) else { continue };
            let is_name = command.chars().all(|it| it.is_ascii_lowercase() || it == '+');
            if !is_name || NO_COMMANDS.contains(&span.as_str()) {
                continue;
            }
            let help = helps
                .entry(command.to_owned())
                .or_insert_with(|| place.run_well(&[command, "--help"]));
            // The words after `--` are the program's.
            for option in words.take_while(|word| *word != "--").filter_map(option) {
                assert!(help.contains(&option), "{}:{line}: {span}: no {option}", page.path);
                count += 1;
            }
        }
    }
    assert!(count > 20, "{count} options");
}

/// The option in a word of a synopsis.
fn option(word: &str) -> Option<String> {
    let word = word.trim_start_matches('[').split(['=', '[', ']', '|', ',']).next()?;
    (word.starts_with('-') && word.len() > 1).then(|| word.to_owned())
}
