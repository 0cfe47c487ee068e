//! Data that are hard to trace: stores through mappings, data that the kernel moves, buffers of
//! every shape, and more data than fits into rings.

use super::cli_support::Place;
use super::cli_support::traces::{calls, compile, methods, name, noise, records, whole};
use super::in_every_way;
use retake_trace_format::{BufferDirection, MappedPages, TraceRecord, TracedCall};
use std::fs;
use std::os::unix::ffi::OsStrExt;

#[test]
fn stores_through_mappings_are_seen() {
    let place = Place::new("trace-mapped");
    let source = r#"
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void) {
    int file = open("file", O_CREAT | O_RDWR, 0600);
    if (ftruncate(file, 4096)) return 1;
    char *bytes = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    bytes[5] = 'x';
    return munmap(bytes, 4096);
}
"#;
    compile(&place, source);
    for file in in_every_way(&place, &[], "out.ds", &["./program"]) {
        let records = whole(&place, &file);
        let is_it = |pages: &MappedPages| {
            pages.write
                && pages.data[5] == b'x'
                && pages.path == place.work("file").as_os_str().as_bytes()
        };
        assert!(
            records
                .iter()
                .any(|record| matches!(record, TraceRecord::MappedPages(pages) if is_it(pages))),
            "{file}"
        );
    }
}

/// `madvise` takes pages away. What the program stored there until then is seen. eBPF sees the call
/// when it returns, so it sees only what is still in the file.
#[test]
fn pages_are_looked_at_before_they_are_given_up() {
    let place = Place::new("trace-advised");
    let source = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void) {
    int file = open("file", O_CREAT | O_RDWR | O_TRUNC, 0600);
    if (ftruncate(file, 4096)) return 1;
    char *bytes = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    bytes[5] = 'x';
    if (madvise(bytes, 4096, MADV_REMOVE) || bytes[5]) return 2;
    bytes[6] = 'y';
    if (madvise(bytes, 4096, MADV_DONTNEED)) return 3;
    ftruncate(file, 0);
    return 0;
}
"#;
    compile(&place, source);
    for file in in_every_way(&place, &[], "out.ds", &["./program"]) {
        let records = whole(&place, &file);
        for (at, stored) in [(5, b'x'), (6, b'y')] {
            if stored == b'x' && file.starts_with("ebpf") {
                continue;
            }
            assert!(
                records.iter().any(|record| matches!(record, TraceRecord::MappedPages(pages)
                    if pages.write && pages.data[at] == stored)),
                "{file} {at}"
            );
        }
    }
}

#[test]
fn what_the_kernel_moves_is_in_recordings_that_keep_it() {
    let place = Place::new("trace-moved");
    let data = noise(100_000);
    fs::write(place.work("data"), &data).unwrap();
    for (option, is_kept) in [(None, false), (Some("--moved-data"), true)] {
        let record =
            [&["record", "-o", "recording"][..], option.as_slice(), &["cp", "data", "copy"]]
                .concat();
        assert_eq!(place.run(&record).status, Some(0));
        place.run_well(&["trace", "--from", "./recording", "-o", "out.ds"]);
        let records = records(&place, "out.ds");
        let moved: Vec<u8> = calls(&records)
            .iter()
            .filter_map(|call| call.moved())
            .flat_map(|buffer| buffer.data.to_vec())
            .collect();
        assert!(moved == if is_kept { &data[..] } else { &[] }, "{} bytes", moved.len());
        let is_said = |record: &TraceRecord| {
            matches!(record, TraceRecord::Incomplete(reason)
            if reason.contains("record --moved-data"))
        };
        assert_ne!(records.iter().any(is_said), is_kept);
        fs::remove_dir_all(place.work("recording")).unwrap();
    }
}

/// Uses every kind of buffer that the table describes. Its results are the same in every run.
const SHAPES: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>
static char big[3000000];
int main(void) {
    int pair[2], pipes[2];
    char one[16] = "first", two[16] = "second", in1[4], in2[64], name[108];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || pipe(pipes)) return 1;
    struct iovec out[2] = { { one, 5 }, { two, 6 } }, in[2] = { { in1, 4 }, { in2, 64 } };
    writev(pair[0], out, 2);
    readv(pair[1], in, 2);
    struct msghdr message = { .msg_iov = out, .msg_iovlen = 2 };
    sendmsg(pair[0], &message, 0);
    struct msghdr got = { .msg_iov = in, .msg_iovlen = 2, .msg_name = name, .msg_namelen = sizeof name };
    recvmsg(pair[1], &got, 0);
    struct mmsghdr many[2] = { { .msg_hdr = message }, { .msg_hdr = message } };
    sendmmsg(pair[0], many, 2, 0);
    struct pollfd polled[2] = { { pair[1], POLLIN, 0 }, { pipes[0], POLLIN, 0 } };
    poll(polled, 2, 0);
    fd_set set;
    FD_ZERO(&set);
    FD_SET(pair[1], &set);
    struct timeval none = { 0, 0 };
    select(pair[1] + 1, &set, NULL, NULL, &none);
    int value = 0;
    socklen_t bytes = sizeof value;
    getsockopt(pair[0], SOL_SOCKET, SO_TYPE, &value, &bytes);
    struct sockaddr_un address;
    bytes = sizeof address;
    getsockname(pair[0], (void *)&address, &bytes);
    ioctl(pair[1], FIONREAD, &value);
    recv(pair[1], in2, sizeof in2, 0);
    memset(big, 'x', sizeof big);
    int fd = open("big", O_CREAT | O_RDWR | O_TRUNC, 0600);
    pwrite(fd, big, sizeof big, 0);
    memset(big, 'y', sizeof big);
    pread(fd, big, sizeof big, 0);
    mkdir("folder", 0700);
    rename("folder", "other");
    symlink("some where", "link");
    readlink("link", name, sizeof name);
    rmdir("none");
    write(fd, (void *)8, 16);
    write(fd, NULL, 0);
    return 0;
}
"#;

#[test]
fn every_shape_of_buffer_is_seen_alike() {
    let place = Place::new("trace-shapes");
    compile(&place, SHAPES);
    let wanted = "writev,readv,sendmsg,recvmsg,sendmmsg,poll,select,getsockopt,\
                  getsockname,ioctl,recvfrom,pwrite64,pread64,mkdir,rename,symlink,readlink,rmdir,write";
    let mut seen: Vec<(&str, Vec<TracedCall>)> = Vec::new();
    for method in methods() {
        for leftover in ["other", "link"] {
            let _ = fs::remove_dir(place.work(leftover));
            let _ = fs::remove_file(place.work(leftover));
        }
        place.run_well(&["trace", "--method", method, "-e", wanted, "-o", "out.ds", "./program"]);
        let records = whole(&place, "out.ds");
        let plain = |call: &&TracedCall| {
            let mut call = (*call).clone();
            (
                call.id,
                call.process,
                call.thread,
                call.entered_ns,
                call.returned_ns,
                call.processor,
            ) = (0, 0, 0, 0, 0, 0);
            // Addresses differ from run to run.
            call.arguments = [0; 6];
            for buffer in &mut call.buffers {
                buffer.address = 0;
            }
            call
        };
        // Earlier calls are the loader's, and depend on the machine's libraries.
        let own: Vec<TracedCall> =
            calls(&records).iter().map(plain).skip_while(|call| name(call) != "writev").collect();
        seen.push((method, own));
    }
    let (_, first) = &seen[0];
    let names: Vec<&str> = first.iter().map(name).collect();
    assert_eq!(names.len(), 19, "{names:?}");
    for (method, other) in &seen[1..] {
        assert_eq!(other.len(), first.len(), "{method}");
        for (expected, call) in first.iter().zip(other) {
            let sizes = |call: &TracedCall| {
                call.buffers
                    .iter()
                    .map(|buffer| (buffer.argument, buffer.direction, buffer.data.len()))
                    .collect::<Vec<_>>()
            };
            assert_eq!(
                (call.number, call.result, sizes(call)),
                (expected.number, expected.result, sizes(expected)),
                "{method} {}",
                name(call)
            );
            // Structures with pointers differ. The data to which they point are compared.
            let data = |call: &TracedCall| {
                call.buffers
                    .iter()
                    .map(|buffer| buffer.data.clone())
                    .filter(|data| ![16, 32, 56].contains(&data.len()))
                    .collect::<Vec<_>>()
            };
            assert!(data(call) == data(expected), "{method} {}", name(call));
        }
    }
}

/// Of a buffer's data nothing is kept, but each buffer is there with its length.
#[test]
fn buffers_whose_data_are_not_kept_are_there() {
    let place = Place::new("trace-heads");
    compile(&place, SHAPES);
    for method in methods() {
        let options = ["--data-limit", "0", "-e", "readv,writev", "-o", "out.ds", "./program"];
        place.run_well(&[&["trace", "--method", method], &options[..]].concat());
        let lengths: Vec<_> = calls(&records(&place, "out.ds"))
            .iter()
            .flat_map(|call| call.buffers.clone())
            .map(|buffer| (buffer.direction, buffer.total_bytes, buffer.data.len()))
            .collect();
        let [input, output] = [BufferDirection::Input, BufferDirection::Output];
        let vectors = (input, 32, 32);
        let written = [vectors, (input, 5, 0), (input, 6, 0)];
        let read = [vectors, (output, 4, 0), (output, 7, 0)];
        assert_eq!(lengths, [written, read].concat(), "{method}");
        fs::remove_dir(place.work("other")).unwrap();
        fs::remove_file(place.work("link")).unwrap();
    }
}

#[test]
fn more_than_rings_hold_is_not_lost() {
    let place = Place::new("trace-flood");
    for method in methods() {
        place.run_well(&[
            "trace",
            "--method",
            method,
            "-e",
            "read,write",
            "-o",
            "out.ds",
            "dd",
            "if=/dev/zero",
            "of=/dev/null",
            "bs=60000",
            "count=600",
            "status=none",
        ]);
        let records = whole(&place, "out.ds");
        for wanted in ["read", "write"] {
            let moved = calls(&records)
                .iter()
                .filter(|call| {
                    name(call) == wanted
                        && call.result == 60_000
                        && call.buffers[0].data.len() == 60_000
                })
                .count();
            assert_eq!(moved, 600, "{method} {wanted}");
        }
    }
}
