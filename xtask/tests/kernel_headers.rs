//! Sizes and numbers in the tables are those of the kernel's headers, as far as the installed ones know them.
//!
//! Each group of facts becomes a C file of static assertions for gcc. Without gcc or without the headers a test says that it
//! was skipped.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use xtask::parse::{Sources, parse};
use xtask::table::Table;

fn table() -> Table {
    let tables = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tables");
    parse(&Sources::read(&tables).unwrap()).unwrap_or_else(|error| panic!("{error}"))
}

/// What gcc says to a C source; `None` when there is no gcc.
fn complaints(source: &str) -> Option<String> {
    let mut gcc = Command::new("gcc")
        .args(["-fsyntax-only", "-w", "-x", "c", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    gcc.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
    let output = gcc.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    Some(if output.status.success() { String::new() } else { text })
}

/// The headers that gcc finds, of those given.
fn present<'name>(headers: &[&'name str]) -> Option<Vec<&'name str>> {
    complaints("")?;
    let found = |header: &&&str| complaints(&format!("#include <{header}>\n")) == Some(String::new());
    Some(headers.iter().filter(found).copied().collect())
}

#[test]
fn layouts_have_the_sizes_of_the_headers() {
    let table = table();
    let mut by_header: BTreeMap<&str, Vec<(&str, &str, u16)>> = BTreeMap::new();
    for layout in &table.layouts {
        if let Some((header, c_type)) = &layout.source {
            by_header.entry(header).or_default().push((&layout.name, c_type, layout.bytes));
        }
    }
    let headers: Vec<&str> = by_header.keys().copied().collect();
    let Some(headers) = present(&headers) else {
        eprintln!("skipped: there is no gcc");
        return;
    };
    let mut checked = 0;
    for header in headers {
        let mut source = format!("#include <{header}>\n");
        for (name, c_type, bytes) in &by_header[header] {
            writeln!(source, "_Static_assert(sizeof({c_type}) == {bytes}, \"layout {name}\");").unwrap();
            checked += 1;
        }
        assert_eq!(complaints(&source).unwrap(), "", "{header}");
    }
    println!("{checked} layouts checked");
}

/// Headers that can be included together and define commands.
const COMMAND_HEADERS: [&str; 50] = [
    "sys/time.h",
    "time.h",
    "net/if.h",
    "asm/termbits.h",
    "asm/ioctls.h",
    "sys/ioctl.h",
    "linux/sockios.h",
    "asm/sockios.h",
    "linux/serial.h",
    "linux/vt.h",
    "linux/kd.h",
    "linux/if_tun.h",
    "linux/vm_sockets.h",
    "linux/fs.h",
    "linux/fiemap.h",
    "linux/fscrypt.h",
    "linux/fsverity.h",
    "linux/msdos_fs.h",
    "linux/btrfs.h",
    "linux/fuse.h",
    "linux/blkzoned.h",
    "linux/blkpg.h",
    "linux/blktrace_api.h",
    "linux/hdreg.h",
    "linux/loop.h",
    "linux/nbd.h",
    "linux/cdrom.h",
    "linux/dm-ioctl.h",
    "linux/nsfs.h",
    "linux/random.h",
    "linux/rtc.h",
    "linux/watchdog.h",
    "linux/input.h",
    "linux/uinput.h",
    "linux/fb.h",
    "linux/i2c-dev.h",
    "linux/i2c.h",
    "linux/fcntl.h",
    "linux/shm.h",
    "linux/sem.h",
    "linux/msg.h",
    "linux/futex.h",
    "linux/prctl.h",
    "asm/prctl.h",
    "linux/quota.h",
    "linux/dqblk_xfs.h",
    "linux/keyctl.h",
    "linux/seccomp.h",
    "scsi/scsi_ioctl.h",
    "scsi/sg.h",
];

#[test]
fn commands_have_the_numbers_of_the_headers() {
    let Some(headers) = present(&COMMAND_HEADERS) else {
        eprintln!("skipped: there is no gcc");
        return;
    };
    let mut source = String::new();
    for header in headers {
        writeln!(source, "#include <{header}>").unwrap();
    }
    let mut checked = 0;
    for call in &table().calls {
        let modifiers = call.modifiers.iter().fold(0, |all, (bit, _)| all | bit);
        for sub in call.sub_rows.iter().filter(|sub| sub.command & modifiers == 0) {
            let (name, number) = (&sub.name, sub.command);
            writeln!(source, "#ifdef {name}").unwrap();
            writeln!(source, "_Static_assert((unsigned int)({name}) == {number:#x}u, \"{}\");", call.name).unwrap();
            writeln!(source, "#endif").unwrap();
            checked += 1;
        }
    }
    assert_eq!(complaints(&source).unwrap(), "");
    println!("{checked} commands checked");
}

#[test]
fn calls_have_the_numbers_of_the_headers() {
    if !matches!(present(&["asm/unistd_64.h"]).as_deref(), Some([_])) {
        eprintln!("skipped: there is no gcc or no asm/unistd_64.h");
        return;
    }
    let table = table();
    let mut source = String::from("#include <asm/unistd_64.h>\n");
    for call in table.calls.iter().filter(|call| call.named) {
        let (name, number) = (&call.name, call.number);
        writeln!(source, "#ifdef __NR_{name}\n_Static_assert(__NR_{name} == {number}, \"{name}\");\n#endif").unwrap();
    }
    assert_eq!(complaints(&source).unwrap(), "");

    // The other direction: every call that the headers have is in the table under its name.
    let output = Command::new("gcc").args(["-dM", "-E", "-include", "asm/unistd_64.h", "-x", "c", "/dev/null"]).output();
    for line in String::from_utf8_lossy(&output.unwrap().stdout).lines() {
        let Some((name, number)) = line.strip_prefix("#define __NR_").and_then(|rest| rest.split_once(' ')) else {
            continue;
        };
        let number: usize = number.parse().unwrap();
        let call = &table.calls.get(number).unwrap_or_else(|| panic!("{name} ({number}) has no row"));
        assert_eq!(call.name, name);
    }
}
