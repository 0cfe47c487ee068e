//! The values of flags match the installed headers, as far as these define the names.

use std::collections::BTreeMap;

use retake_model::flags::{self, FlagSet};
use retake_model::table::{ArgumentKind, CALLS, Row, ValueType};
use retake_testing::c::check_numbers;

/// The headers of Debian 12 define 383.
const LEAST_CHECKED: usize = 370;

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

/// glibc defines it as 0, because the kernel always does this on 64-bit machines.
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

    let checked = check_numbers(HEADERS, names.iter().map(|(name, number)| (*name, *number)));
    assert!(checked >= LEAST_CHECKED, "only {checked} of {} names are in the headers", names.len());
}
