//! Mistakes in the tables are reported with file and line.

use std::path::Path;

use xtask::arguments;
use xtask::parse::{Sources, parse};
use xtask::tidy;

const LAYOUTS: &str = "timespec 16 - -\n";
const CALLS: &str = "0 read emulate may (fd: fd, command: command, buffer: out[u8; ret<=count], \
count: size) -> size select=command";

fn error_of(calls: &str, commands: &str, layouts: &str) -> String {
    let sources = Sources {
        calls: calls.to_string(),
        commands: commands.to_string(),
        layouts: layouts.to_string(),
        ioctls: String::new(),
    };
    match parse(&sources) {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn good_tables_are_read() {
    assert_eq!(error_of(CALLS, "", LAYOUTS), "");
    assert_eq!(
        error_of(CALLS, "0/ONE 1 refuse(EPERM) never (fd: fd, command: command) -> none", LAYOUTS),
        ""
    );
}

#[test]
fn mistakes_in_calls() {
    let cases = [
        ("0 read emulate may", "the signature is missing"),
        ("0 read emulate (fd: fd) -> size", "four columns before the signature"),
        ("0 read emulate maybe (fd: fd) -> size", "`maybe` is not may or never"),
        (
            "0 read imitate may (fd: fd) -> size",
            "`imitate` is not emulate, custom or refuse(ERROR)",
        ),
        ("0 read refuse(EWHAT) may (fd: fd) -> size", "`EWHAT` is not an error"),
        ("x read emulate may (fd: fd) -> size", "`x` is not a number"),
        ("0 read emulate may (fd: fd)", "ends in `) -> TYPE`"),
        ("0 read emulate may (fd: fd) -> many", "`many` is not a type"),
        ("0 read emulate may (fd) -> size", "`fd` is not `name: type`"),
        ("0 read emulate may (a: fd, a: fd) -> size", "two arguments are called `a`"),
        (
            "0 read emulate may (a: int, b: int, c: int, d: int, e: int, f: int, g: int) -> size",
            "7 arguments",
        ),
        ("0 read emulate may (a: flags) -> size", "flags and enum name a set"),
        ("0 read emulate may (a: int!) -> size", "`!` belongs to pointers"),
        ("0 read emulate may (a: in[u8]!) -> size", "`!` belongs to what the kernel writes"),
        ("0 read emulate may (a: up[u8]) -> size", "`up` is not in, out or inout"),
        ("0 read emulate may (a: in[u8; 4) -> size", "`]` is missing"),
        (
            "0 read emulate may (a: in[u128]) -> size",
            "`u128` is not a type, not a shape, and not in layouts.tbl",
        ),
        ("0 read emulate may (a: in[u8; b]) -> size", "names the argument `b`, there is none"),
        ("0 read emulate may (a: in[u8; u9@4]) -> size", "`u9` is not u16, u32 or u64"),
        ("0 read emulate may (a: in[u8; u32@999]) -> size", "offset 999 is above 255"),
        ("0 read emulate may (a: in[u8; 3+4]) -> size", "add the numbers up"),
        ("0 read emulate may (a: in[iovec]) -> size", "`iovec` needs a length"),
        ("0 read emulate may (a: in[string; 5]) -> size", "`string` takes no length"),
        ("0 read emulate may (a: inout[fdset; 5]) -> size", "the number of bits"),
        ("0 read emulate may (a: in[u8; 70000*u32@0]) -> size", "too large"),
        ("0 read emulate may () -> size colour=red", "`colour` is not an attribute"),
        ("0 read emulate may () -> size colour", "is not key=value"),
        ("0 read emulate may () -> size class=nice", "`nice` is not one of clock"),
        ("0 read emulate may () -> size fd=eats", "`eats` is not an effect"),
        ("0 read emulate may () -> size select=x", "select names `x`"),
        ("0 read emulate may () -> size modifiers=1", "is not BIT:SUFFIX"),
        ("0..3 read emulate may () -> size", "only refused numbers come in ranges"),
        ("1 read emulate may () -> size", "number 0 has no row"),
    ];
    for (line, expected) in cases {
        let error = error_of(&format!("# comment\n\n{line}\n"), "", LAYOUTS);
        assert!(error.contains(expected), "`{line}`: {error}");
        let line_number = if expected == "number 0 has no row" { 0 } else { 3 };
        assert!(error.starts_with(&format!("syscalls.tbl:{line_number}: ")), "{error}");
    }
    let twice = "0 read emulate may () -> size\n0 write emulate may () -> size\n";
    assert_eq!(error_of(twice, "", LAYOUTS), "syscalls.tbl:2: number 0 is in the table twice");
    let same = "0 read emulate may () -> size\n1 read emulate may () -> size\n";
    assert_eq!(error_of(same, "", LAYOUTS), "syscalls.tbl:2: `read` is in the table twice");
}

#[test]
fn mistakes_in_sub_rows() {
    let cases = [
        ("0 1 emulate never (fd: fd, command: command) -> int", "begins with CALL/NAME"),
        ("9/ONE 1 emulate never (fd: fd, command: command) -> int", "there is no call 9"),
        ("0/ONE 1 custom never (fd: fd, command: command) -> int", "read is not custom"),
        (
            "0/ONE 1 emulate never (command: command, fd: fd) -> int",
            "must be in the same place as in the call",
        ),
        ("0/ONE 1 emulate never (fd: fd) -> int", "must be in the same place as in the call"),
        ("0/ONE 1..2 emulate never (fd: fd, command: command) -> int", "can only be refused"),
        (
            "0/ONE 1..2 refuse(EPERM) never (fd: fd, command: command) -> int",
            "only ioctl has ranges",
        ),
    ];
    for (line, expected) in cases {
        let error = error_of(CALLS, line, LAYOUTS);
        assert!(
            error.starts_with("commands.tbl:1: ") && error.contains(expected),
            "`{line}`: {error}"
        );
    }
    let row = "0/ONE 1 emulate never (fd: fd, command: command) -> int\n";
    let error = error_of(CALLS, &format!("{row}{}", row.replace("ONE", "TWO")), LAYOUTS);
    assert!(error.contains("ONE and TWO are the same command"), "{error}");
    let error = error_of("0 read emulate may () -> size", row, LAYOUTS);
    assert!(error.contains("read has no select= attribute"), "{error}");
}

#[test]
fn mistakes_in_layouts() {
    for (line, expected) in [
        ("timespec", "a layout is"),
        ("timespec 0 - -", "`0` is not a size"),
        ("timespec 99999 - -", "`99999`"),
    ] {
        let error = error_of(CALLS, "", line);
        assert!(error.starts_with("layouts.tbl:1: ") && error.contains(expected), "{error}");
    }
}

#[test]
fn random_text_never_panics() {
    let alphabet: Vec<char> =
        "0 read emulate may (fd: in[u8; ret<=*@+!..\n/x,) -> size\u{e9}=#".chars().collect();
    let mut state = 1_u64;
    for _ in 0..3000 {
        let mut text = String::new();
        for _ in 0..60 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            text.push(alphabet[(state >> 33) as usize % alphabet.len()]);
        }
        error_of(&text, &text, &text);
        error_of(&format!("0 read emulate may ({text}) -> size"), "", LAYOUTS);
        error_of(
            CALLS,
            &format!("0/A 1 emulate never (fd: fd, command: command, a: in[{text}]) -> int"),
            LAYOUTS,
        );
    }
}

#[test]
fn tidy_finds_what_it_looks_for() {
    let complaints = |path: &str, text: &str| {
        let mut complaints = Vec::new();
        tidy::check_file(Path::new(path), text, &mut complaints);
        complaints
    };
    assert!(complaints("a.rs", "//! Purpose.\nfn main() {}\n").is_empty());
    assert!(complaints("a.rs", "#![forbid(unsafe_code)]\n//! Purpose.\n").is_empty());
    assert!(complaints("a.c", "/* Purpose. */\n").is_empty());
    assert!(complaints("a.S", "# Purpose.\n").is_empty());
    assert_eq!(complaints("a.rs", "fn main() {}\n").len(), 1);
    assert_eq!(complaints("a.c", "#include <x.h>\n").len(), 1);
    assert_eq!(
        complaints("a.rs", &format!("//! Long.\n{}", "x\n".repeat(500))),
        ["a.rs:501: 501 lines; the limit is 500"]
    );
    let wide = format!("//! Purpose.\n{}\n", "x".repeat(101));
    assert_eq!(complaints("a.rs", &wide), ["a.rs:2: more than 100 columns"]);
    let open_end = format!("//! Purpose.\n// {}: later\n", ["TO", "DO"].concat());
    assert_eq!(complaints("a.rs", &open_end), ["a.rs:2: an open end"]);
    let path = format!("see {}\n", ["/wo", "rk/main/x"].concat());
    assert_eq!(complaints("a.md", &path), ["a.md:1: a path that only one machine has"]);
}

/// The current tables obey every rule. A new rule must keep that true.
#[test]
fn the_tree_is_tidy() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let complaints = tidy::check(&repository).unwrap();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// Recordings rely on the numbers of arguments.
#[test]
fn events_of_kept_calls_keep_their_shape() {
    let of = |calls: &str, commands: &str| {
        let sources = Sources {
            calls: calls.to_string(),
            commands: commands.to_string(),
            layouts: LAYOUTS.to_string(),
            ioctls: String::new(),
        };
        parse(&sources).unwrap()
    };
    let command = |name: &str, arguments: &str| {
        format!("0/{name} refuse(EPERM) never (fd: fd, command: command{arguments}) -> none")
    };
    let kept = arguments::next(None, &of(CALLS, &command("ONE 1", ""))).unwrap();
    let rest = ", buffer: addr, count: size";
    let both = |other: &str| [command("ONE 1", ""), other.to_string()].join("\n");
    let added = "1 write emulate may (fd: fd) -> size";
    for (calls, commands, revision) in [
        (CALLS.to_string(), both(""), 0),
        (CALLS.to_string(), both(&command("TWO 2", rest)), 0),
        ([CALLS, added].join("\n"), both(""), 1),
    ] {
        let next = arguments::next(Some(&kept), &of(&calls, &commands)).unwrap();
        assert_eq!(next.numbers().1, revision, "{calls} {commands}");
    }
    for (calls, commands) in [
        (CALLS.to_string(), both(&command("TWO 2", ""))),
        (CALLS.to_string(), command("ONE 1", rest)),
        (CALLS.replace(", count: size", "").replace("count]", "fd]"), both("")),
    ] {
        let error = arguments::next(Some(&kept), &of(&calls, &commands)).unwrap_err();
        assert!(error.contains("rely on `0 read: 4, by 1: 0x1: 2`"), "{error}");
    }
}
