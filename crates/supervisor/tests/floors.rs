//! Checks the runtime's floors in its object files. A file calls what is on its own floor or below.
//! A call upwards is a hook, and must be listed. Apart from hooks, no files call each other in a
//! circle.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use object::{Object, ObjectSymbol};

/// The floors, from the ground up.
const FLOORS: [&str; 8] = ["base", "log", "order", "place", "signals", "mode", "calls", "entry"];

/// The hooks, one a line: `SYMBOL FILE REASON`. The list may only shrink.
const HOOKS: &str = include_str!("../../../runtime/hooks.txt");

/// A file with the symbols that it defines, and those that it wants from others.
struct File {
    path: String,
    floor: usize,
    defined: BTreeSet<String>,
    wanted: BTreeSet<String>,
}

/// All files except generated ones, which name functions of every floor.
fn files() -> Vec<File> {
    let folder = Path::new(env!("RETAKE_RUNTIME_OBJECTS"));
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let path = name.trim_end_matches(".o").replace(':', "/");
        let floor = path.split('/').next().unwrap();
        if floor == "gen" {
            continue;
        }
        let floor = FLOORS.iter().position(|known| *known == floor).expect("a known floor");
        let bytes = std::fs::read(folder.join(&name)).unwrap();
        let object = object::File::parse(&*bytes).unwrap();
        let names = |is_meant: fn(&object::Symbol<'_, '_>) -> bool| {
            let meant = object.symbols().filter(is_meant);
            meant.filter_map(|symbol| Some(symbol.name().ok()?.to_owned())).collect()
        };
        let defined = names(|symbol| symbol.is_global() && !symbol.is_undefined());
        let wanted = names(|symbol| symbol.is_undefined());
        files.push(File { path, floor, defined, wanted });
    }
    files
}

/// The symbols that are wanted from a higher floor, each with the files that want it.
fn upward(files: &[File]) -> BTreeMap<String, BTreeSet<String>> {
    let mut homes = BTreeMap::new();
    for file in files {
        homes.extend(file.defined.iter().map(|symbol| (symbol.as_str(), file.floor)));
    }
    let mut upward: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in files {
        for symbol in &file.wanted {
            if homes.get(symbol.as_str()).is_some_and(|floor| *floor > file.floor) {
                upward.entry(symbol.clone()).or_default().insert(file.path.clone());
            }
        }
    }
    upward
}

/// The files that each file needs, except through hooks.
fn needs(files: &[File]) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut homes = BTreeMap::new();
    for file in files {
        homes.extend(file.defined.iter().map(|symbol| (symbol.as_str(), file)));
    }
    let mut needs = BTreeMap::new();
    for file in files {
        let others = file.wanted.iter().filter_map(|symbol| homes.get(symbol.as_str()));
        let below = others.filter(|other| other.floor <= file.floor && other.path != file.path);
        needs.insert(file.path.as_str(), below.map(|other| other.path.as_str()).collect());
    }
    needs
}

/// The files that are in a circle, or need one that is.
fn circles(files: &[File]) -> BTreeSet<&str> {
    let mut needs = needs(files);
    loop {
        let left: BTreeSet<&str> = needs.keys().copied().collect();
        needs.retain(|_, others| !others.is_disjoint(&left));
        if needs.len() == left.len() {
            return left;
        }
    }
}

#[test]
fn no_files_call_each_other_in_a_circle() {
    assert_eq!(circles(&files()), BTreeSet::new());
}

#[test]
fn nobody_calls_upwards_but_by_hooks() {
    let files = files();
    assert!(files.len() > 50, "{}", files.len());
    let mut hooks: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in HOOKS.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        let [symbol, path, reason] = words[..] else { panic!("no reason: {line}") };
        assert!(reason.len() > 10, "a reason says more than {reason}");
        hooks.entry(symbol.to_owned()).or_default().insert(path.to_owned());
    }
    assert_eq!(upward(&files), hooks, "left: what is called upwards; right: runtime/hooks.txt");
}

fn file(path: &str, floor: usize, defined: &str, wanted: &str) -> File {
    File {
        path: path.to_owned(),
        floor,
        defined: [defined.to_owned()].into(),
        wanted: [wanted.to_owned()].into(),
    }
}

#[test]
fn a_circle_is_seen_unless_it_is_by_a_hook() {
    let files = [
        file("log/a.c", 1, "first", "second"),
        file("log/b.c", 1, "second", "first"),
        file("base/c.c", 0, "low", "high"),
        file("order/d.c", 2, "high", "low"),
    ];
    assert_eq!(circles(&files), ["log/a.c", "log/b.c"].into());
}

#[test]
fn a_call_upwards_is_seen() {
    let files = [file("base/a.c", 0, "low", "high"), file("log/b.c", 1, "high", "low")];
    assert_eq!(upward(&files), [("high".to_owned(), ["base/a.c".to_owned()].into())].into());
}
