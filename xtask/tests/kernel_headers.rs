//! Compares sizes and numbers in the tables with the installed kernel headers, as far as these know
//! them.
//!
//! Each group of facts becomes a C file of static assertions. Facts that the headers lack are not
//! compared, so each test has a minimum of facts that must be compared.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use retake_testing::c::{check_numbers, complaints, defined};
use xtask::parse::{Sources, parse};
use xtask::table::Table;

fn table() -> Table {
    let tables = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tables");
    parse(&Sources::read(&tables).unwrap()).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the headers of `headers` that gcc finds.
fn present<'name>(headers: &[&'name str]) -> Vec<&'name str> {
    let found = |header: &&&str| complaints(&format!("#include <{header}>\n")).is_empty();
    headers.iter().filter(found).copied().collect()
}

/// The headers of Debian 12 have 94 layouts, 678 commands and 362 calls.
const LEAST_LAYOUTS: usize = 90;
const LEAST_COMMANDS: usize = 650;
const LEAST_CALLS: usize = 350;

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
    let headers = present(&headers);
    let mut checked = 0;
    for header in headers {
        let mut source = format!("#include <{header}>\n");
        for (name, c_type, bytes) in &by_header[header] {
            writeln!(source, "_Static_assert(sizeof({c_type}) == {bytes}, \"layout {name}\");")
                .unwrap();
            checked += 1;
        }
        assert_eq!(complaints(&source), "", "{header}");
    }
    assert!(
        checked >= LEAST_LAYOUTS,
        "only {checked} layouts could be compared: are the kernel's headers there?"
    );
}

/// Headers that define commands, and can be included together.
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
    let headers = present(&COMMAND_HEADERS);
    let headers: String = headers.iter().map(|header| format!("#include <{header}>\n")).collect();
    let table = table();
    let mut facts = Vec::new();
    for call in &table.calls {
        let modifiers = call.modifiers.iter().fold(0, |all, (bit, _)| all | bit);
        let rows = call.sub_rows.iter().filter(|sub| sub.command & modifiers == 0);
        facts.extend(rows.map(|sub| (sub.name.as_str(), sub.command)));
    }
    let checked = check_numbers(&headers, facts.iter().copied());
    assert!(
        checked >= LEAST_COMMANDS,
        "only {checked} of {} commands are in the headers",
        facts.len()
    );
}

#[test]
fn calls_have_the_numbers_of_the_headers() {
    let table = table();
    let headers = "#include <asm/unistd_64.h>\n";
    let calls: Vec<_> = table.calls.iter().filter(|call| call.named).collect();
    let names: Vec<String> = calls.iter().map(|call| format!("__NR_{}", call.name)).collect();
    let facts = names.iter().map(String::as_str).zip(calls.iter().map(|call| call.number));
    let checked = check_numbers(headers, facts);
    assert!(checked >= LEAST_CALLS, "only {checked} of {} calls are in the header", calls.len());

    // In the other direction, the table must have every call in the header.
    let defined = defined(headers);
    let missing: Vec<_> =
        defined.iter().filter(|name| name.starts_with("__NR_") && !names.contains(name)).collect();
    assert!(missing.is_empty(), "no row has {missing:?}");
}
