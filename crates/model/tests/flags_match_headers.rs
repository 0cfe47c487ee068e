//! The numbers of flags are those of the installed headers, as far as these know the names.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::Write as _;
use std::process::{Command, Stdio};

use retake_model::flags::{self, FlagSet};
use retake_model::table::{ArgumentKind, CALLS, Row, ValueType};

const HEADERS: &str = "\
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
";

/// glibc says 0, since its calls need not ask for what the kernel always does on 64-bit machines.
const DIFFERENT_IN_LIBC: [&str; 1] = ["O_LARGEFILE"];

fn collect(names: &mut BTreeMap<&'static str, u32>, set: &FlagSet) {
    for (number, name) in set.fields.iter().chain(set.bits) {
        if !name.contains('|') && !DIFFERENT_IN_LIBC.contains(name) {
            let other = names.insert(name, *number);
            assert!(other.is_none_or(|other| other == *number), "{name} has two numbers");
        }
    }
}

#[test]
fn numbers_are_those_of_the_headers() {
    let mut names = BTreeMap::new();
    let rows = |call: &'static retake_model::table::CallRow| {
        let sub_rows = call.sub_rows.iter().map(|sub| &sub.row);
        std::iter::once(&call.row).chain(sub_rows).collect::<Vec<&Row>>()
    };
    for argument in CALLS.iter().flat_map(rows).flat_map(|row| row.arguments) {
        if let ArgumentKind::Value(ValueType::Flags(set)) = argument.kind {
            collect(&mut names, set);
        }
    }
    let others = [&flags::POLL_EVENTS, &flags::EPOLL_EVENTS, &flags::SIGACTION, &flags::CLOCK];
    others.iter().for_each(|set| collect(&mut names, set));
    assert!(names.len() > 300);

    let mut source = HEADERS.to_string();
    for (name, number) in &names {
        writeln!(source, "#ifdef {name}\n_Static_assert((unsigned int)({name}) == {number:#x}u, \"{name}\");\n#endif").unwrap();
    }
    let gcc = Command::new("gcc").args(["-fsyntax-only", "-w", "-x", "c", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut gcc) = gcc else {
        eprintln!("skipped: there is no gcc");
        return;
    };
    gcc.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
    let output = gcc.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    if text.contains("No such file") {
        eprintln!("skipped: there are no C headers");
        return;
    }
    assert!(output.status.success(), "{text}");
}
