//! Traces of several threads and processes: descriptors, dependencies between calls, and data in
//! pipes.

mod support;

use libc::*;
use retake_reanimate::{Options, Order, Prepare, Speed};
use retake_trace_format::{DescriptorKind, StartDescriptor};
use support::Trace;

const WRITE_NEW: i32 = O_WRONLY | O_CREAT | O_TRUNC;

fn pipe(trace: &mut Trace, reader: i32, writer: i32, flags: i32) {
    let numbers = [reader.to_le_bytes(), writer.to_le_bytes()].concat();
    trace.call(SYS_pipe2, &[1, flags as u64], 0).output(0, numbers);
}

/// A shell that starts two children with a pipe between them. The second writes into a file.
fn pipeline(order_of_read: bool) -> Trace {
    let mut trace = Trace::new();
    trace.start("/", vec![]);
    pipe(&mut trace, 3, 4, 0);
    trace.call(SYS_clone, &[SIGCHLD as u64], 10).call(SYS_clone, &[SIGCHLD as u64], 20);
    trace.close(3).close(4);
    trace.by(10, 10).call(SYS_dup2, &[4, 1], 1).close(3).close(4);
    trace.by(20, 20).call(SYS_dup2, &[3, 0], 0).close(3).close(4);
    trace.open("out", WRITE_NEW, 0o644, 1);
    // More than a pipe holds, unless the write ends before the read begins.
    let total = if order_of_read { 100_000 } else { 60_000 };
    let data = vec![b'x'; total];
    let (first, rest) = data.split_at(total / 2);
    if order_of_read {
        // The read is entered before the write of its data.
        trace.by(20, 20).read(0, 65536, first);
        trace.last().returned_ns += 10_000_000;
        trace.by(10, 10).write(1, &data);
        trace.last().returned_ns += 10_000_000;
        trace.call(SYS_exit_group, &[0], 0);
        trace.last().entered_ns += 11_000_000;
        trace.last().returned_ns = 0;
    } else {
        trace.by(10, 10).write(1, &data).call(SYS_exit_group, &[0], 0);
        trace.last().returned_ns = 0;
        trace.by(20, 20).read(0, 65536, first);
    }
    trace.by(20, 20);
    trace.call(SYS_getpid, &[], 20);
    trace.last().entered_ns += 30_000_000;
    trace.last().returned_ns += 30_000_000;
    for (data, write) in [(first, true), (rest, false), (rest, true)] {
        if write {
            trace.write(1, data)
        } else {
            trace.read(0, 65536, data)
        };
        trace.last().entered_ns += 40_000_000;
        trace.last().returned_ns += 40_000_000;
    }
    trace.read(0, 65536, b"");
    trace.last().entered_ns += 40_000_000;
    trace.last().returned_ns += 40_000_000;
    trace
}

#[test]
fn what_was_written_while_the_reader_left_finds_somebody() {
    let folder = tempfile::tempdir().unwrap();
    let mut trace = Trace::new();
    trace.start("/", Vec::new());
    trace.call(libc::SYS_pipe2, &[1, 0], 0).output(0, [3_u8, 0, 0, 0, 4, 0, 0, 0]);
    trace.call(libc::SYS_fork, &[], 2);
    trace.by(2, 2).close(4);
    trace.by(1, 1).close(3);
    let write = |trace: &mut Trace| {
        for _ in 0..100 {
            trace.by(1, 1).write(4, &[7; 100]);
        }
    };
    write(&mut trace);
    // The other process ends without having read a byte, and no process waits for it. The pipe has
    // room until its descriptors are closed.
    trace.by(2, 2).call(libc::SYS_exit_group, &[0], 0);
    trace.last().returned_ns = 0;
    write(&mut trace);
    trace.by(1, 1).close(4);
    for _ in 0..20 {
        let root = folder.path().join("root");
        trace.replay_faithfully(&root);
    }
}

#[test]
fn data_flow_through_pipes_between_processes() {
    for order in [Order::Resource, Order::Overlap, Order::Strict] {
        for order_of_read in [false, true] {
            let root = tempfile::tempdir().unwrap();
            let trace = pipeline(order_of_read);
            let report = trace.replay_with(&Options { order, ..Options::new(root.path()) });
            assert!(report.is_faithful(), "{order:?} {order_of_read} {:#?}", report.mismatches);
            assert_eq!(
                std::fs::read(root.path().join("out")).unwrap(),
                vec![b'x'; if order_of_read { 100_000 } else { 60_000 }]
            );
            assert_eq!(report.threads, 3);
        }
    }
}

#[test]
fn fewer_threads_than_traced_do_the_same() {
    let root = tempfile::tempdir().unwrap();
    let one = std::num::NonZeroU32::MIN;
    let report = pipeline(true).replay_with(&Options { threads: one, ..Options::new(root.path()) });
    assert!(report.is_faithful(), "{:#?}", report.mismatches);
    assert_eq!(
        (report.threads, std::fs::read(root.path().join("out")).unwrap().len()),
        (1, 100_000)
    );
}

#[test]
fn data_that_never_come_are_reported_and_not_waited_for_for_ever() {
    let root = tempfile::tempdir().unwrap();
    let mut trace = Trace::new();
    trace.start("/", vec![]);
    pipe(&mut trace, 3, 4, 0);
    trace.read(3, 10, b"phantom");
    let began = std::time::Instant::now();
    let report = trace.replay(root.path());
    assert!(began.elapsed() < std::time::Duration::from_secs(20));
    assert_eq!(report.mismatches[0].actual, "waited for data that do not come");
}

#[test]
fn threads_that_depend_on_each_other_keep_their_order() {
    let root = tempfile::tempdir().unwrap();
    let mut trace = Trace::new();
    trace.start("/", vec![]);
    for thread in 2..10_u64 {
        let flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD;
        trace.by(1, 1).call(SYS_clone, &[flags as u64], thread as i64);
    }
    // In each round, a thread uses files that other threads left, by names and descriptors that
    // they made.
    for round in 0..300_u32 {
        let thread = 2 + round % 8;
        trace.by(1, thread);
        let (name, next) = (format!("file{round}"), format!("file{}", round + 1));
        if round == 0 {
            trace.open(&name, O_RDWR | O_CREAT | O_EXCL, 0o600, 3);
        }
        trace.call(SYS_pwrite64, &[3, 1, 4, u64::from(round) * 4], 4).input(1, round.to_le_bytes());
        trace.by(1, 2 + (round + 3) % 8);
        trace.paths(SYS_rename, &name, &next, 0);
        trace.path(SYS_mkdir, &format!("d{}", round % 3), &[0o700], 0);
        trace.by(1, 2 + (round + 5) % 8).path(SYS_rmdir, &format!("d{}", round % 3), &[], 0);
        trace.status(SYS_fstat, 3, S_IFREG | 0o600, u64::from(round + 1) * 4);
        trace
            .by(1, thread)
            .call(SYS_pread64, &[3, 1, 4, u64::from(round) * 4], 4)
            .output(1, round.to_le_bytes());
    }
    let report = trace.replay_faithfully(root.path());
    assert_eq!(report.threads, 9);
    assert_eq!(root.path().join("file300").metadata().unwrap().len(), 1200);
}

#[test]
fn independent_threads_do_not_wait_for_each_other() {
    let root = tempfile::tempdir().unwrap();
    let mut trace = Trace::new();
    trace.start("/", vec![]);
    trace.call(SYS_clone, &[SIGCHLD as u64], 2).call(SYS_clone, &[SIGCHLD as u64], 3);
    // A FIFO without a reader until the other process is done with its own files.
    trace
        .by(2, 2)
        .call(SYS_mknodat, &[support::HERE, 1, u64::from(S_IFIFO | 0o600), 0], 0)
        .input(1, "fifo");
    trace.open("fifo", O_WRONLY, 0, 3);
    trace.last().returned_ns += 1_000_000;
    trace.by(3, 3);
    for index in 0..50 {
        trace.open(&format!("own{index}"), WRITE_NEW, 0o644, 3).write(3, b"data").close(3);
    }
    trace.open("fifo", O_RDONLY, 0, 4);
    trace.last().returned_ns += 1_000_000;
    trace.by(2, 2).call(SYS_write, &[3, 1, 5], 5).input(1, "hello");
    trace.last().entered_ns += 2_000_000;
    trace.last().returned_ns += 2_000_000;
    trace.by(3, 3).read(4, 100, b"hello");
    trace.last().entered_ns += 3_000_000;
    trace.last().returned_ns += 3_000_000;
    trace.replay_faithfully(root.path());
}

#[test]
fn descriptors_are_inherited_shared_marked_and_closed() {
    let root = tempfile::tempdir().unwrap();
    let mut trace = Trace::new();
    let log = StartDescriptor {
        number: 1,
        path: b"/log".to_vec(),
        kind: DescriptorKind::File,
        offset: 0,
        flags: O_WRONLY as u32,
    };
    let errors = StartDescriptor { number: 2, ..log.clone() };
    trace.start("/", vec![log, errors]);
    trace.write(1, b"one ").write(2, b"two ");
    trace.open("a", O_RDWR | O_CREAT | O_CLOEXEC, 0o644, 3).write(3, b"parent ");
    trace.call(SYS_clone, &[SIGCHLD as u64], 7);
    trace.by(7, 7).write(3, b"child ").write(1, b"three ");
    trace.call(SYS_fcntl, &[3, F_DUPFD as u64, 10], 10);
    trace.path(SYS_execve, "/bin/other", &[2, 3], 0);
    trace.call(SYS_write, &[3, 1, 4], -i64::from(EBADF)).input(1, "lost");
    trace.write(10, b"exec");
    trace.call(SYS_exit_group, &[0], 0);
    trace.last().returned_ns = 0;
    trace.by(1, 1).call(SYS_wait4, &[7, 1, 0, 0], 7).output(1, [0; 4]);
    trace.call(SYS_lseek, &[3, 0, SEEK_CUR as u64], 17);
    trace.call(SYS_close_range, &[3, u64::from(u32::MAX), 0], 0);
    trace.replay_faithfully(root.path());
    assert_eq!(std::fs::read(root.path().join("a")).unwrap(), b"parent child exec");
    assert_eq!(std::fs::read(root.path().join("log")).unwrap(), b"one two three ");
}

#[test]
fn descriptors_passed_through_sockets_are_followed() {
    let root = tempfile::tempdir().unwrap();
    let mut trace = Trace::new();
    trace.start("/", vec![]);
    trace
        .call(SYS_socketpair, &[AF_UNIX as u64, SOCK_STREAM as u64, 0, 1], 0)
        .output(3, [5_i32.to_le_bytes(), 6_i32.to_le_bytes()].concat());
    trace.call(SYS_clone, &[SIGCHLD as u64], 2);
    trace.open("file", WRITE_NEW, 0o644, 3);
    let mut header = vec![0; 56];
    header[32..40].copy_from_slice(&0x7000_u64.to_le_bytes());
    let control = |number: i32| {
        [
            20_u64.to_le_bytes().to_vec(),
            SOL_SOCKET.to_le_bytes().to_vec(),
            SCM_RIGHTS.to_le_bytes().to_vec(),
            number.to_le_bytes().to_vec(),
        ]
        .concat()
    };
    trace.call(SYS_sendmsg, &[5, 0x2000, 0], 1).input(1, &header).input(1, control(3));
    trace.last().buffers[1].address = 0x7000;
    trace.by(2, 2).call(SYS_recvmsg, &[6, 0x2000, 0], 1).input(1, &header).output(1, control(9));
    trace.last().buffers[1].address = 0x7000;
    trace.write(9, b"from the other side");
    trace.replay_faithfully(root.path());
    assert_eq!(std::fs::read(root.path().join("file")).unwrap(), b"from the other side");
}

#[test]
fn pauses_are_kept_if_asked_for() {
    let root = tempfile::tempdir().unwrap();
    let mut trace = Trace::new();
    trace.start("/", vec![]);
    trace.path(SYS_mkdir, "a", &[0o755], 0).path(SYS_mkdir, "b", &[0o755], 0);
    trace.last().entered_ns += 400_000_000;
    trace.last().returned_ns += 400_000_000;
    let timed = |speed, name: &str| {
        let began = std::time::Instant::now();
        let options =
            Options { speed, prepare: Prepare::Always, ..Options::new(root.path().join(name)) };
        assert!(trace.replay_with(&options).is_faithful());
        began.elapsed().as_millis()
    };
    assert!(timed(Speed::Traced(1.0), "one") >= 400);
    let halved = timed(Speed::Traced(2.0), "two");
    assert!((200..4000).contains(&halved), "{halved}");
}

/// Two writers that use a named pipe one after the other, and a reader: process 1. `meanwhile` adds
/// calls after the first write was read.
fn named_pipe(meanwhile: impl FnOnce(&mut Trace)) -> Trace {
    let mut trace = Trace::new();
    trace.start("/", Vec::new());
    trace.call(SYS_mknodat, &[support::HERE, 1, u64::from(S_IFIFO | 0o600), 0], 0).input(1, "pipe");
    for writer in [10, 20, 30] {
        trace.call(SYS_clone, &[SIGCHLD as u64], writer);
    }
    trace.by(1, 1).open("pipe", O_RDONLY, 0, 3);
    trace.by(10, 10).open("pipe", O_WRONLY, 0, 5).write(5, b"one");
    trace.by(1, 1).read(3, 100, b"one");
    meanwhile(&mut trace);
    trace
}

/// Moves the entry of the last call, which took a microsecond, `earlier` microseconds back, and its
/// return `later` microseconds forward.
fn stretch(trace: &mut Trace, earlier: u64, later: u64) {
    trace.last().entered_ns -= earlier * 1000;
    trace.last().returned_ns += later * 1000;
}

fn replayed_often(mut trace: Trace) {
    // Records of a trace are in this order.
    trace.records.sort_by_key(|record| match record {
        retake_trace_format::TraceRecord::Call(call) => call.entered_ns,
        _ => 0,
    });
    for _ in 0..10 {
        trace.replay_faithfully(tempfile::tempdir().unwrap().path());
    }
}

#[test]
fn an_end_of_a_named_pipe_comes_before_who_opened_it_meanwhile() {
    for closing_is_slow in [false, true] {
        replayed_often(named_pipe(|trace| {
            trace.by(10, 10).close(5);
            stretch(trace, 0, if closing_is_slow { 20 } else { 0 });
            // The next writer opens the pipe and writes before the read returns that found no
            // writer.
            trace.by(1, 1).read(3, 100, b"");
            stretch(trace, 0, 10);
            trace.by(20, 20).open("pipe", O_WRONLY, 0, 6).write(6, b"two").close(6);
            trace.by(1, 1).read(3, 100, b"two");
            stretch(trace, 0, 10);
            trace.last().entered_ns += 10_000;
        }));
    }
}

#[test]
fn an_end_of_a_named_pipe_comes_after_who_opened_it_while_others_could_write() {
    replayed_often(named_pipe(|trace| {
        trace.by(1, 1).read(3, 100, b"");
        stretch(trace, 0, 20);
        // The first writer closes after the other one has opened the pipe and ended.
        trace.by(20, 20).open("pipe", O_WRONLY, 0, 6).close(6).call(SYS_exit_group, &[0], 0);
        trace.last().returned_ns = 0;
        trace.by(10, 10).call(SYS_wait4, &[20, 0, 0, 0], 20);
        trace.by(10, 10).close(5);
        trace.by(30, 30).open("pipe", O_WRONLY, 0, 7).write(7, b"two").close(7);
        trace.by(1, 1).read(3, 100, b"two");
        stretch(trace, 0, 30);
        trace.last().entered_ns += 30_000;
    }));
}

#[test]
fn results_tell_which_of_two_overlapping_calls_was_first() {
    let root = tempfile::tempdir().unwrap();
    let mut trace = Trace::new();
    trace.start("/", vec![]);
    trace.call(SYS_clone, &[SIGCHLD as u64], 2);
    for round in 0..20 {
        let name = format!("d{round}");
        // The call fails with `EEXIST` before the call that makes the directory returns.
        trace.by(1, 1).path(SYS_mkdir, &name, &[0o755], -i64::from(EEXIST));
        trace.last().returned_ns += 100;
        trace.by(2, 2).path(SYS_mkdir, &name, &[0o755], 0);
        trace.last().entered_ns -= 900;
        trace.last().returned_ns += 300;
        trace.by(1, 1).path(SYS_rmdir, &name, &[], 0);
        trace.last().entered_ns += 10_000;
        trace.last().returned_ns += 10_300;
        trace.by(2, 2).path(SYS_rmdir, &name, &[], -i64::from(ENOENT));
        trace.last().entered_ns += 9_100;
        trace.last().returned_ns += 9_000;
        (0..20).for_each(|_| drop_call(&mut trace));
    }
    trace.replay_faithfully(root.path());
}

/// Adds a call that is not executed, to let time pass.
fn drop_call(trace: &mut Trace) {
    trace.by(1, 1).call(SYS_getpid, &[], 1);
}
