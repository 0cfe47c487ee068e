//! `retake cc` and `retake c++`: programs whose threads synchronise by plain accesses. Their
//! compiler declares these, so that the programs run in parallel and still replay exactly.

mod cli_support;

use std::path::{Path, PathBuf};

use cli_support::parallel::{LIMIT, repeats};
use cli_support::{Place, source_file};
use retake_patch::{Options, Placement, SiteKind, Verdict, examine};
use retake_testing::c::compiler;

/// The number of recordings of each program.
const RUNS: usize = 2;

fn built(place: &Place, name: &str, options: &[&str]) -> PathBuf {
    let source = source_file(&format!("declared/{name}"));
    let executable = place.work("program");
    let compiler = if name.ends_with(".cc") { "c++" } else { "cc" };
    let files = [source.to_str().unwrap(), "-pthread", "-o", executable.to_str().unwrap()];
    let compiled = place.run_within(&[&[compiler], options, &files].concat(), LIMIT);
    assert_eq!(compiled.status, Some(0), "{compiled:?}");
    executable
}

/// The number of a file's instructions that are operations, and of those that should be but cannot.
fn operations(executable: &Path) -> (usize, usize) {
    let bytes = std::fs::read(executable).unwrap();
    let options = Options { sections: true, ..Options::default() };
    let verdict = examine(&bytes, Placement::Before, &options).unwrap();
    let Verdict::Patched(image) = verdict else {
        panic!("{} is not patched", executable.display())
    };
    let sites = image.sites.iter().filter(|site| site.kind == SiteKind::Atomic).count();
    let refused = image.refused.iter().filter(|site| site.kind == SiteKind::Atomic).count();
    (sites, refused)
}

/// Checks that a program has at least `least` operations, that all are patched, and that replays
/// are exact.
fn is_exact(name: &str, options: &[&str], least: usize) {
    let place = Place::new(&format!("compiler-{name}-{}", options.concat()));
    let executable = built(&place, name, options);
    let (sites, refused) = operations(&executable);
    assert!(sites >= least && refused == 0, "{sites} operations, {refused} refused");
    repeats(&place, &[executable.to_str().unwrap()], RUNS);
}

#[test]
fn volatile_and_atomic_variables_of_c() {
    for optimised in ["-O0", "-O2"] {
        is_exact("flags.c", &[optimised], 12);
    }
    is_exact("flags.c", &["-O1", "-masm=intel"], 12);
}

#[test]
fn inline_assembly() {
    for optimised in ["-O0", "-O2"] {
        is_exact("asm.c", &[optimised], 4);
    }
}

#[test]
fn locks_made_of_atomics() {
    for optimised in ["-O0", "-O3"] {
        is_exact("locks.cc", &["-std=c++20", optimised], 30);
    }
}

#[test]
fn what_cxx_offers() {
    for optimised in ["-O0", "-O2"] {
        is_exact("library.cc", &["-std=c++20", optimised], 60);
    }
}

/// Checks that a program runs in parallel without an option for it, and replays exactly.
fn is_parallel(name: &str, options: &[&str], least: usize) {
    if least > 0 {
        is_exact(name, options, least);
    }
    let place = Place::new(&format!("compiler-parallel-{name}-{}", options.concat()));
    let program = built(&place, name, options);
    let policy = chosen(&place, &[program.to_str().unwrap()]);
    assert_eq!(policy, "auto; with threads: 1 in parallel, 0 in turns", "{name}");
}

/// Replay repeats each failure of a compare-and-exchange.
#[test]
fn failures_can_be_counted() {
    is_parallel("retries.c", &["-O2", "-mcx16"], 6);
}

/// The threads lose an update only if one of them stands still between two operations.
#[test]
fn chaos_delays_threads_that_run_in_parallel() {
    let place = Place::new("compiler-chaos");
    let program = built(&place, "lost_update.c", &["-O2"]);
    let hunt =
        ["record", "--policy", "sync", "--chaos", "--seed", "1", "--until-failure", "-n", "500"];
    let found = place.run_within(&[&hunt[..], &["--", program.to_str().unwrap()]].concat(), LIMIT);
    assert_eq!(found.status, Some(1), "{found:?}");
    for _ in 0..3 {
        let replayed = place.run_within(&["replay"], LIMIT);
        assert_eq!((replayed.status, &*replayed.stderr), (Some(1), ""), "{replayed:?}");
    }
    let info = place.run_well(&["info"]);
    assert!(info.contains("sync") && info.contains("chaos seed"), "{info}");
}

#[test]
fn spin_locks_of_the_c_library() {
    is_parallel("spin_locks.c", &["-O2"], 0);
}

#[test]
fn static_variables_of_functions() {
    is_parallel("statics.cc", &["-std=c++20", "-O2"], 100);
}

#[test]
fn signals_come_to_threads_that_make_no_call() {
    is_parallel("signals.c", &["-O2"], 8);
}

#[test]
fn handlers_wait_for_threads_that_need_what_they_interrupted() {
    is_parallel("handlers.c", &["-O2"], 8);
}

#[test]
fn queues_without_locks() {
    is_parallel("queue.c", &["-O2"], 9);
    is_parallel("deque.c", &["-O3"], 15);
}

#[test]
fn memory_that_others_may_still_read() {
    is_parallel("stack.c", &["-O2"], 8);
    is_parallel("epochs.c", &["-O2"], 8);
}

#[test]
fn first_uses_of_static_variables() {
    is_parallel("first_uses.cc", &["-std=c++20", "-O2"], 100);
}

#[test]
fn shared_pointers_that_are_atomic() {
    is_parallel("shared_pointers.cc", &["-std=c++20", "-O2"], 30);
}

#[test]
fn variables_of_all_sizes() {
    for optimised in ["-O0", "-O2"] {
        is_parallel("sizes.c", &[optimised], 25);
    }
}

#[test]
fn every_way_of_linking_keeps_the_list() {
    let ways: [&[&str]; 4] = [
        &["-flto"],
        &["-static"],
        &["-no-pie", "-fno-pie", "-pipe"],
        &["-ffunction-sections", "-Wl,--gc-sections", "-s"],
    ];
    for options in ways {
        is_exact("locks.cc", &[&["-std=c++20", "-O2"], options].concat(), 30);
    }
}

#[test]
fn the_compiler_is_as_it_was() {
    let place = Place::new("compiler-alike");
    std::fs::write(place.work("good.c"), "int main(void) { return 0; }\n").unwrap();
    std::fs::write(place.work("bad.c"), "int main(void) { return x; }\n").unwrap();
    place.run_well(&["cc", "-c", "good.c", "-MD"]);
    assert!(place.work("good.o").exists() && place.work("good.d").exists());
    let failed = place.run(&["cc", "-c", "bad.c"]);
    assert_eq!(failed.status, Some(1), "{failed:?}");
    let assembly = place.run_well(&["cc", "-S", "-o", "-", "good.c"]);
    assert!(!assembly.contains("(insn"), "{assembly}");
    let version = place.run_well(&["c++", "--version"]);
    assert!(version.starts_with("g++"), "{version}");
    assert!(place.scratch().is_empty(), "{:?}", place.scratch());
}

#[test]
fn what_cannot_be_ordered_is_told() {
    let place = Place::new("compiler-warns");
    let text = "void f(void *to, void *from, long size)\n\
                {\n\t__asm__ volatile(\"rep movsb\" : \"+D\"(to), \"+S\"(from), \"+c\"(size) : : \"memory\");\n}\n";
    std::fs::write(place.work("copy.c"), text).unwrap();
    let told = place.run(&["cc", "-c", "copy.c"]).stderr;
    assert!(told.contains("rep movsb") && told.contains("copy.c\" 1"), "{told}");
    let source = source_file("declared/copied.c");
    let told = place.run(&["cc", "-O2", "-c", source.to_str().unwrap()]).stderr;
    assert!(told.contains("a volatile structure that is copied"), "{told}");
}

#[test]
fn another_kind_of_compiler_is_refused() {
    let place = Place::new("compiler-other");
    let refused = place.run_command(&["cc", "-c", "a.c"], LIMIT, |command| {
        command.env("RETAKE_CC", "/bin/true");
    });
    let told = refused.stderr;
    assert_eq!(refused.status, Some(125), "{told}");
    assert!(told.contains("/bin/true is not gcc") && told.contains("RETAKE_CC"), "{told}");
}

/// Records and replays without a policy option. Returns the policy in `retake info`.
fn chosen(place: &Place, command: &[&str]) -> String {
    let recorded = place.run_within(&[&["record", "--"], command].concat(), LIMIT);
    let replayed = place.run_within(&["replay"], LIMIT);
    assert_eq!((recorded.status, replayed.status), (Some(0), Some(0)), "{recorded:?} {replayed:?}");
    assert_eq!((recorded.stdout, replayed.stderr), (replayed.stdout, String::new()));
    let info = place.run_well(&["info"]);
    let line = info.lines().find_map(|line| line.strip_prefix("policy"));
    line.expect("a line about the policy").trim().to_owned()
}

/// The path of a library that is not built with `retake cc`.
fn foreign_library(place: &Place) -> String {
    let (source, library) = (place.work("foreign.c"), place.work("libforeign.so"));
    let text =
        "int foreign(int *count) { return __atomic_fetch_add(count, 1, __ATOMIC_SEQ_CST); }\n";
    std::fs::write(&source, text).unwrap();
    let built = std::process::Command::new(compiler())
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .status()
        .unwrap();
    assert!(built.success());
    library.to_str().unwrap().to_owned()
}

#[test]
fn a_program_that_tells_all_is_recorded_in_parallel() {
    let place = Place::new("compiler-chosen");
    for name in ["locks.cc", "plugin.c"] {
        let program = built(&place, name, &["-O2"]);
        let policy = chosen(&place, &[program.to_str().unwrap()]);
        assert_eq!(policy, "auto; with threads: 1 in parallel, 0 in turns", "{name}");
    }
}

/// The system's OpenMP library counts as telling all, although nothing in it is declared.
#[test]
fn teams_run_in_parallel() {
    let place = Place::new("compiler-teams");
    let program = built(&place, "../sync/teams.c", &["-O2", "-fopenmp"]);
    let policy = chosen(&place, &[program.to_str().unwrap()]);
    assert_eq!(policy, "auto; with threads: 1 in parallel, 0 in turns");
}

#[test]
fn code_that_does_not_tell_makes_threads_go_in_turns() {
    let place = Place::new("compiler-turns");
    let library = foreign_library(&place);
    let program = built(&place, "plugin.c", &["-O2", "-Wl,--no-as-needed", &library]);
    let policy = chosen(&place, &[program.to_str().unwrap()]);
    let expected = format!(
        "auto; with threads: 0 in parallel, 1 in turns because of {library}, which does not tell by \
         what threads synchronise"
    );
    assert_eq!(policy, expected);

    let plain = place.work("plain");
    let source = source_file("declared/plugin.c");
    let built = std::process::Command::new(compiler())
        .args(["-pthread", "-o"])
        .args([&plain, &source])
        .status();
    assert!(built.unwrap().success());
    assert_eq!(chosen(&place, &[plain.to_str().unwrap()]), "serial");
}

/// Three kinds of synchronisation are in order only if threads take turns: words that the kernel
/// writes, instructions that fit into no stub, and a library that declares nothing.
#[test]
fn what_cannot_be_in_order_makes_threads_go_in_turns() {
    let place = Place::new("compiler-beyond");
    for name in ["kernel_locks.c", "copied.c", "locales.cc"] {
        let program = built(&place, name, &["-O2"]);
        assert_eq!(chosen(&place, &[program.to_str().unwrap()]), "serial", "{name}");
    }
}

/// Threads run in parallel although another file could replace the library's functions.
#[test]
fn a_library_tells_all() {
    let place = Place::new("compiler-library");
    let library = place.work("liblibrary.so");
    let library = library.to_str().unwrap();
    let source = source_file("declared/library.c");
    place.run_well(&["cc", "-O2", "-shared", "-fPIC", "-o", library, source.to_str().unwrap()]);
    let program = built(&place, "plugin.c", &["-O2"]);
    let policy = chosen(&place, &[program.to_str().unwrap(), library]);
    assert_eq!(policy, "auto; with threads: 1 in parallel, 0 in turns");
}

#[test]
fn a_signal_at_an_unknown_place_is_told() {
    let place = Place::new("compiler-interrupted");
    let program = built(&place, "interrupted.c", &["-O2"]);
    let policy = chosen(&place, &[program.to_str().unwrap()]);
    let expected = "not known to be exact: signals came to threads that computed, 1 times";
    assert!(policy.contains(expected), "{policy}");
}

#[test]
fn code_that_comes_when_threads_run_is_told() {
    let place = Place::new("compiler-late");
    let library = foreign_library(&place);
    let program = built(&place, "plugin.c", &["-O2"]);
    let policy = chosen(&place, &[program.to_str().unwrap(), &library]);
    let expected = format!(
        "auto; with threads: 1 in parallel, 0 in turns; not known to be exact: {library} came when \
         they ran (--policy serial is exact)"
    );
    assert_eq!(policy, expected);
}
