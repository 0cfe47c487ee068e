//! Traces of one thread: the files that they leave below the root, and the comparison.

mod support;

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use libc::*;
use retake_reanimate::{Options, Prepare, Verify};
use support::{HERE, Trace, entries};

const WRITE_NEW: i32 = O_WRONLY | O_CREAT | O_TRUNC;

fn errno(error: i32) -> i64 {
    -i64::from(error)
}

#[test]
fn moved_data_reach_files_from_wherever_they_came() {
    let folder = tempfile::tempdir().unwrap();
    let moved = |trace: &mut Trace, argument: u8, data: &[u8]| {
        trace.output(argument, data);
        let call = trace.last();
        call.buffers.last_mut().unwrap().address = call.arguments[usize::from(argument)];
    };
    let mut trace = Trace::new();
    trace.start("/", Vec::new());
    // A file that existed before, copied inside the kernel: only the moved data tell its content.
    trace.open("there", libc::O_RDONLY, 0, 3).open(
        "copy",
        libc::O_CREAT | libc::O_WRONLY,
        0o600,
        4,
    );
    trace.call(libc::SYS_copy_file_range, &[3, 0, 4, 0, 100, 0], 5);
    moved(&mut trace, 4, b"bytes");
    trace.call(libc::SYS_sendfile, &[4, 3, 0, 100], 4);
    moved(&mut trace, 3, b"more");
    // From a socket into a pipe, duplicated with `tee`, and on to files.
    trace.call(libc::SYS_socket, &[1, 1, 0], 5);
    trace.call(libc::SYS_pipe, &[1], 0).output(0, [6_u8, 0, 0, 0, 7, 0, 0, 0]);
    trace.call(libc::SYS_pipe, &[1], 0).output(0, [8_u8, 0, 0, 0, 9, 0, 0, 0]);
    trace.call(libc::SYS_splice, &[5, 0, 7, 0, 4096, 0], 6);
    moved(&mut trace, 4, b"socket");
    trace.call(libc::SYS_tee, &[6, 9, 4096, 0], 6);
    moved(&mut trace, 2, b"socket");
    trace.open("first", libc::O_CREAT | libc::O_WRONLY, 0o600, 10).open(
        "second",
        libc::O_CREAT | libc::O_WRONLY,
        0o600,
        11,
    );
    trace.call(libc::SYS_splice, &[6, 0, 10, 0, 4096, 0], 6);
    moved(&mut trace, 4, b"socket");
    trace.read(8, 100, b"socket").write(11, b"socket");
    // From a file to a socket, which is compared.
    trace.call(libc::SYS_sendfile, &[5, 3, 0, 100], 3);
    moved(&mut trace, 3, b"end");
    trace.replay_faithfully(folder.path());
    for (name, text) in [
        ("copy", "bytesmore"),
        ("first", "socket"),
        ("second", "socket"),
        ("there", "bytesmoreend"),
    ] {
        assert_eq!(std::fs::read_to_string(folder.path().join(name)).unwrap(), text, "{name}");
    }
}

#[test]
fn files_are_written_read_and_verified() {
    let root = tempfile::tempdir().unwrap();
    let mut trace = Trace::new();
    trace.start("/work", vec![]);
    trace.path(SYS_mkdir, "d", &[0o777], 0);
    trace.open("d/file", WRITE_NEW, 0o666, 3);
    trace.write(3, b"hello ").write(3, b"world");
    trace.call(SYS_fsync, &[3], 0).close(3);
    trace.open("/work/d/file", O_RDONLY, 0, 3);
    trace.status(SYS_fstat, 3, S_IFREG | 0o644, 11);
    trace.read(3, 4096, b"hello world").read(3, 4096, b"");
    trace.call(SYS_lseek, &[3, 6, SEEK_SET as u64], 6).read(3, 5, b"world");
    trace.call(SYS_pread64, &[3, 1, 3, 2], 3).output(1, "llo");
    trace.close(3);
    trace.paths(SYS_rename, "d/file", "d/other", 0);
    trace.paths(SYS_symlink, "other", "d/link", 0);
    trace.paths(SYS_link, "d/other", "d/again", 0);
    trace.path(SYS_readlink, "d/link", &[1, 100], 5).output(1, "other");
    trace.path(SYS_chmod, "d/link", &[0o640], 0);
    trace.path(SYS_unlink, "d/again", &[], 0);
    trace.path(SYS_rmdir, "d", &[], errno(ENOTEMPTY));
    let report = trace.replay_faithfully(root.path());
    let file = root.path().join("work/d/other");
    assert_eq!(std::fs::read(&file).unwrap(), b"hello world");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o7777, 0o640);
    assert_eq!(file.metadata().unwrap().nlink(), 1);
    assert_eq!(
        std::fs::read_link(root.path().join("work/d/link")).unwrap().to_str(),
        Some("other")
    );
    assert_eq!(report.verified, report.calls);
}

#[test]
fn what_must_have_been_there_is_prepared() {
    let root = tempfile::tempdir().unwrap();
    let mut trace = Trace::new();
    trace.start("/home/me", vec![]);
    trace.open("missing", O_RDONLY, 0, errno(ENOENT));
    trace.open("input/data", O_RDONLY, 0, 3);
    trace.status(SYS_fstat, 3, S_IFREG | 0o600, 10);
    trace.read(3, 4, b"0123").read(3, 4, b"4567");
    trace.close(3);
    trace.open("input", O_RDONLY | O_DIRECTORY, 0, 3);
    let listed = entries(&[
        (".", DT_DIR),
        ("..", DT_DIR),
        ("data", DT_REG),
        ("sub", DT_DIR),
        ("more", DT_REG),
    ]);
    trace.call(SYS_getdents64, &[3, 1, 32768], listed.len() as i64).output(1, &listed);
    trace.call(SYS_getdents64, &[3, 1, 32768], 0).close(3);
    trace.path(SYS_access, "/usr/bin/tool", &[X_OK as u64], 0);
    trace.path(SYS_readlink, "/etc/link", &[1, 100], 4).output(1, "real");
    trace.path(SYS_unlink, "input/more", &[], 0);
    trace.open("log", O_WRONLY | O_APPEND, 0, 3);
    trace.call(SYS_lseek, &[3, 0, SEEK_END as u64], 20).write(3, b"end").close(3);
    let report = trace.replay_faithfully(root.path());
    let home = root.path().join("home/me");
    assert_eq!(std::fs::read(home.join("input/data")).unwrap(), b"01234567\0\0");
    assert_eq!(home.join("input/data").metadata().unwrap().permissions().mode() & 0o7777, 0o600);
    assert!(home.join("input/sub").is_dir());
    assert!(!home.join("input/more").exists());
    assert_eq!(home.join("log").metadata().unwrap().len(), 23);
    assert_eq!(std::fs::read_link(root.path().join("etc/link")).unwrap().to_str(), Some("real"));
    assert!(report.prepared.unwrap().failures.is_empty());
}

#[test]
fn an_existing_file_opened_with_create_is_told_from_a_new_one() {
    let root = tempfile::tempdir().unwrap();
    let mut trace = Trace::new();
    trace.start("/", vec![]);
    trace.open("database", O_RDWR | O_CREAT, 0o644, 3);
    trace.status(SYS_fstat, 3, S_IFREG | 0o644, 6);
    trace.read(3, 6, b"before").close(3);
    trace
        .open("touched", O_WRONLY | O_CREAT, 0o600, 3)
        .call(SYS_utimensat, &[3, 0, 0, 0], 0)
        .status(SYS_fstat, 3, S_IFREG | 0o600, 0)
        .close(3);
    trace.open("fresh", O_RDWR | O_CREAT, 0o644, 3);
    trace.status(SYS_fstat, 3, S_IFREG | 0o644, 0);
    trace.read(3, 6, b"").write(3, b"after").close(3);
    trace.replay_faithfully(root.path());
    assert_eq!(std::fs::read(root.path().join("database")).unwrap(), b"before");
    assert_eq!(std::fs::read(root.path().join("fresh")).unwrap(), b"after");
}

#[test]
fn every_difference_is_reported() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("file"), "actual").unwrap();
    let mut trace = Trace::new();
    trace.start("/", vec![]);
    trace.open("file", O_RDONLY, 0, 3);
    trace.read(3, 100, b"expect").read(3, 100, b"more");
    trace.status(SYS_fstat, 3, S_IFREG | 0o600, 9);
    trace.open("nothing", O_RDONLY, 0, 4).read(4, 10, b"x");
    trace.path(SYS_unlink, "file", &[], errno(EPERM));
    let options =
        Options { keeps_going: true, prepare: Prepare::Never, ..Options::new(root.path()) };
    let report = trace.replay_with(&options);
    let found: Vec<_> = report
        .mismatches
        .iter()
        .map(|found| (found.id, found.expected.as_str(), found.actual.as_str()))
        .collect();
    assert_eq!(found[0], (2, r#"byte 0 is "expect""#, r#"byte 0 is "actual""#));
    assert_eq!(found[1], (3, "4", "0"));
    assert_eq!(
        (found[2].0, found[2].1.contains("mode 100600"), found[2].1.contains("size 9")),
        (4, true, true)
    );
    assert_eq!(found[3], (5, "4", "ENOENT"));
    assert_eq!(found[4], (7, "EPERM", "0"));
    assert_eq!((report.mismatched, report.skipped.values().sum::<u64>()), (5, 1));
    assert_eq!(report.mismatches[3].call, r#"openat(AT_FDCWD, "nothing")"#);
}

#[test]
fn verification_can_be_less_and_replay_stops_at_the_first_difference() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("file"), "actual").unwrap();
    let mut trace = Trace::new();
    trace.start("/", vec![]);
    trace.open("file", O_RDONLY, 0, 3).read(3, 100, b"expect");
    trace.open("absent", O_RDONLY, 0, 4);
    trace.path(SYS_unlink, "file", &[], 0);
    let options = |verify| Options { verify, prepare: Prepare::Never, ..Options::new(root.path()) };
    let full = trace.replay_with(&options(Verify::Full));
    assert_eq!((full.mismatched, full.stopped, full.mismatches[0].id), (1, true, 2));
    let results = trace.replay_with(&options(Verify::Results));
    assert_eq!((results.mismatches[0].id, results.stopped), (3, true));
    assert!(root.path().join("file").exists());
    let none = trace.replay_with(&options(Verify::None));
    assert_eq!((none.mismatched, none.stopped), (0, false));
    assert!(!root.path().join("file").exists());
}

#[test]
fn vectors_positions_and_sizes() {
    let root = tempfile::tempdir().unwrap();
    let vector = |lengths: &[u64]| {
        lengths
            .iter()
            .flat_map(|length| [0x9000_u64.to_le_bytes(), length.to_le_bytes()].concat())
            .collect::<Vec<u8>>()
    };
    let mut trace = Trace::new();
    trace.start("/", vec![]);
    trace.open("file", O_RDWR | O_CREAT | O_EXCL, 0o600, 3);
    trace.call(SYS_writev, &[3, 0x2000, 2], 6).input(1, vector(&[4, 2]));
    trace.last().arguments[1] = 0x2000;
    trace.input(1, "abcd").input(1, "ef");
    trace.last().buffers[1].address = 0x9000;
    trace.last().buffers[2].address = 0x9000;
    trace.call(SYS_pwrite64, &[3, 1, 2, 8], 2).input(1, "xy");
    trace
        .call(SYS_readv, &[3, 0x2000, 2], 4)
        .input(1, vector(&[3, 10]))
        .output(1, "\0\0x")
        .output(1, "y");
    trace.last().buffers[1].address = 0x9000;
    trace.last().buffers[2].address = 0xa000;
    trace.call(SYS_ftruncate, &[3, 9], 0);
    trace.status(SYS_fstat, 3, S_IFREG | 0o600, 9);
    trace.call(SYS_fallocate, &[3, 0, 0, 100], 0);
    trace.path(SYS_truncate, "file", &[5], 0);
    trace.call(SYS_fcntl, &[3, F_GETFL as u64, 0], i64::from(O_RDWR));
    trace.call(SYS_fcntl, &[3, F_SETFL as u64, O_APPEND as u64], 0);
    trace.call(SYS_fcntl, &[3, F_GETFL as u64, 0], i64::from(O_RDWR | O_APPEND));
    trace.call(SYS_lseek, &[3, 0, SEEK_SET as u64], 0).write(3, b"!");
    trace.replay_faithfully(root.path());
    assert_eq!(std::fs::read(root.path().join("file")).unwrap(), b"abcde!");
}

#[test]
fn data_move_inside_the_kernel() {
    let root = tempfile::tempdir().unwrap();
    let mut trace = Trace::new();
    trace.start("/", vec![]);
    trace.open("from", O_RDWR | O_CREAT | O_EXCL, 0o644, 3).write(3, b"0123456789");
    trace.open("to", O_RDWR | O_CREAT | O_EXCL, 0o644, 4);
    trace.call(SYS_copy_file_range, &[3, 1, 4, 0, 4, 0], 4).input(1, 2_u64.to_le_bytes());
    trace.call(SYS_lseek, &[3, 0, SEEK_SET as u64], 0);
    trace.call(SYS_sendfile, &[4, 3, 0, 3], 3);
    trace.call(SYS_lseek, &[3, 0, SEEK_CUR as u64], 3);
    trace.open("clone", O_RDWR | O_CREAT | O_EXCL, 0o644, 5);
    trace.call(SYS_ioctl, &[5, 0x4004_9409, 3], 0);
    trace.replay_faithfully(root.path());
    assert_eq!(std::fs::read(root.path().join("to")).unwrap(), b"2345012");
    assert_eq!(std::fs::read(root.path().join("clone")).unwrap(), b"0123456789");
}

#[test]
fn times_attributes_and_nodes() {
    let root = tempfile::tempdir().unwrap();
    let mut trace = Trace::new();
    trace.start("/", vec![]);
    trace.call(SYS_umask, &[0o077], 0o022);
    trace.call(SYS_mknodat, &[HERE, 1, u64::from(S_IFREG | 0o666), 0], 0).input(1, "file");
    trace.call(SYS_mknodat, &[HERE, 1, u64::from(S_IFIFO | 0o666), 0], 0).input(1, "fifo");
    let times: Vec<u8> =
        [1_000_000_i64, 5, 2_000_000, 7].iter().flat_map(|word| word.to_le_bytes()).collect();
    trace.call(SYS_utimensat, &[HERE, 1, 1, 0], 0).input(1, "file").input(2, &times);
    trace
        .call(SYS_setxattr, &[1, 2, 3, 5, 0], 0)
        .input(0, "file")
        .input(1, "user.colour")
        .input(2, "green");
    trace
        .call(SYS_getxattr, &[1, 2, 3, 100], 5)
        .input(0, "file")
        .input(1, "user.colour")
        .output(2, "green");
    trace.call(SYS_listxattr, &[1, 2, 100], 12).input(0, "file").output(1, "user.colour\0");
    trace.call(SYS_mknodat, &[HERE, 1, u64::from(S_IFCHR | 0o666), 0x103], 0).input(1, "null");
    trace.open("null", O_WRONLY, 0, 3).write(3, b"gone").close(3);
    trace.path(SYS_unlink, "null", &[], 0);
    let report = trace.replay(root.path());
    assert!(report.is_faithful(), "{:#?}", report.mismatches);
    assert_eq!(
        report.skipped.get("device nodes, which are not made"),
        Some(&1),
        "{:?}",
        report.skipped
    );
    let file = root.path().join("file").metadata().unwrap();
    assert_eq!((file.mtime(), file.mtime_nsec(), file.mode() & 0o7777), (2_000_000, 7, 0o600));
    assert!(!root.path().join("null").exists());
    assert_eq!(root.path().join("fifo").metadata().unwrap().mode(), S_IFIFO | 0o600);
}

#[test]
fn names_in_moved_directories_and_behind_links() {
    let root = tempfile::tempdir().unwrap();
    let mut trace = Trace::new();
    trace.start("/", vec![]);
    trace.path(SYS_mkdir, "a", &[0o755], 0).path(SYS_mkdir, "a/b", &[0o755], 0);
    trace.open("a/b", O_RDONLY | O_DIRECTORY, 0, 3);
    trace.path(SYS_chdir, "a/b", &[], 0);
    trace.paths(SYS_rename, "/a", "/moved", 0);
    trace.open("here", WRITE_NEW, 0o644, 4).close(4);
    trace.call(SYS_openat, &[3, 1, WRITE_NEW as u64, 0o644], 4).input(1, "there").close(4);
    trace.path(SYS_mkdir, "../sibling", &[0o755], 0);
    trace.paths(SYS_symlink, "/moved/sibling", "/link", 0);
    trace.open("/link/inside", WRITE_NEW, 0o644, 4).close(4);
    trace.paths(SYS_symlink, "target", "/moved/dangling", 0);
    trace.open("/moved/dangling", WRITE_NEW, 0o644, 4).close(4);
    trace.paths(SYS_symlink, "loop", "/loop", 0);
    trace.open("/loop", O_RDONLY, 0, errno(ELOOP));
    trace.open("/moved/target/x", O_RDONLY, 0, errno(ENOTDIR));
    trace.path(SYS_mkdir, "/moved/b/.", &[0o755], errno(EEXIST));
    trace.path(SYS_rmdir, "/moved/b/..", &[], errno(ENOTEMPTY));
    trace
        .call(SYS_renameat2, &[HERE, 1, HERE, 3, u64::from(RENAME_EXCHANGE)], 0)
        .input(1, "/moved/b")
        .input(3, "/moved/sibling");
    trace.open("second", WRITE_NEW, 0o644, 4).close(4);
    trace.replay_faithfully(root.path());
    for path in [
        "moved/sibling/here",
        "moved/sibling/there",
        "moved/sibling/second",
        "moved/b/inside",
        "moved/target",
    ] {
        assert!(root.path().join(path).exists(), "{path}");
    }
}

#[test]
fn directories_that_take_over_names_are_not_confused() {
    let root = tempfile::tempdir().unwrap();
    let mut trace = Trace::new();
    trace.start("/", vec![]);
    let file = |trace: &mut Trace, path: &str, text: &str| {
        trace.open(path, WRITE_NEW, 0o644, 3).write(3, text.as_bytes()).close(3);
    };
    for name in ["a", "a/in", "b"] {
        trace.path(SYS_mkdir, name, &[0o755], 0);
    }
    file(&mut trace, "a/in/file", "first");
    trace.paths(SYS_rename, "a", "c", 0).path(SYS_access, "a/in/file", &[0], errno(ENOENT));
    trace.path(SYS_mkdir, "a", &[0o755], 0).path(SYS_mkdir, "a/in", &[0o755], 0);
    file(&mut trace, "a/in/file", "second");
    file(&mut trace, "c/in/more", "of the first");
    // An empty directory is replaced, and a removed one is made again.
    trace.paths(SYS_rename, "c", "b", 0);
    file(&mut trace, "b/in/again", "in b");
    trace.path(SYS_mkdir, "b/in/d", &[0o755], 0).path(SYS_rmdir, "b/in/d", &[], 0).path(
        SYS_mkdir,
        "b/in/d",
        &[0o755],
        0,
    );
    file(&mut trace, "b/in/d/file", "anew");
    trace.replay_faithfully(root.path());
    for (path, text) in [
        ("a/in/file", "second"),
        ("b/in/file", "first"),
        ("b/in/more", "of the first"),
        ("b/in/again", "in b"),
        ("b/in/d/file", "anew"),
    ] {
        assert_eq!(std::fs::read_to_string(root.path().join(path)).unwrap(), text, "{path}");
    }
}

#[test]
fn files_without_a_name_are_given_one() {
    let root = tempfile::tempdir().unwrap();
    let mut trace = Trace::new();
    trace.start("/", vec![]);
    trace.open("/", O_RDWR | O_TMPFILE, 0o644, 3).write(3, b"data");
    trace
        .call(SYS_linkat, &[HERE, 1, HERE, 3, AT_SYMLINK_FOLLOW as u64], 0)
        .input(1, "/proc/self/fd/3")
        .input(3, "named");
    trace.open("named", O_PATH | O_NOFOLLOW, 0, 4).path(SYS_chmod, "/proc/self/fd/4", &[0o751], 0);
    trace.replay_faithfully(root.path());
    assert_eq!(root.path().join("named").metadata().unwrap().permissions().mode() & 0o7777, 0o751);
    assert_eq!(std::fs::read(root.path().join("named")).unwrap(), b"data");
}

#[test]
fn a_copy_that_is_read_proves_the_original() {
    let root = tempfile::tempdir().unwrap();
    let mut trace = Trace::new();
    trace.start("/", vec![]);
    trace.open("source", O_RDONLY, 0, 3);
    trace.open("copy", O_RDWR | O_CREAT | O_EXCL, 0o644, 4);
    trace.call(SYS_copy_file_range, &[3, 0, 4, 0, 1000, 0], 10);
    trace.call(SYS_pread64, &[4, 1, 4, 3], 4).output(1, "3456");
    trace.replay_faithfully(root.path());
    assert_eq!(std::fs::read(root.path().join("source")).unwrap(), b"\0\0\x003456\0\0\0");
}

#[test]
fn links_whose_target_is_not_in_the_trace_lead_to_what_was_found() {
    let root = tempfile::tempdir().unwrap();
    let mut trace = Trace::new();
    trace.start("/", vec![]);
    trace.path(SYS_lstat, "bin/tool", &[1], 0).output(1, support::status(S_IFLNK | 0o777, 10));
    trace.path(SYS_access, "bin/tool", &[X_OK as u64], 0);
    trace.open("bin/tool", O_RDONLY, 0, 3).read(3, 7, b"content");
    trace.path(SYS_lstat, "lib", &[1], 0).output(1, support::status(S_IFLNK | 0o777, 7));
    trace.open("lib/inner/file", O_RDONLY, 0, 4).read(4, 5, b"inner");
    trace.path(SYS_lstat, "dangling", &[1], 0).output(1, support::status(S_IFLNK | 0o777, 3));
    trace.path(SYS_access, "dangling", &[0], errno(ENOENT));
    trace.path(SYS_readlink, "lib/inner/file", &[1, 100], errno(EINVAL));
    trace.replay_faithfully(root.path());
    assert_eq!(std::fs::read_link(root.path().join("bin/tool")).unwrap().as_os_str().len(), 10);
}

#[test]
fn what_was_found_through_a_link_is_behind_it() {
    let root = tempfile::tempdir().unwrap();
    let mut trace = Trace::new();
    trace.start("/", vec![]);
    trace.path(SYS_access, "bin/python", &[X_OK as u64], 0);
    trace.path(SYS_readlink, "bin/python", &[1, 100], 9).output(1, "python3.1");
    trace.path(SYS_readlink, "bin/python3.1", &[1, 100], errno(EINVAL));
    trace.path(SYS_access, "bin/python", &[X_OK as u64], 0);
    trace.replay_faithfully(root.path());
    assert!(root.path().join("bin/python3.1").is_file());
}

#[test]
fn directories_that_calls_only_asked_about_are_made_as_such() {
    let root = tempfile::tempdir().unwrap();
    let mut trace = Trace::new();
    trace.start("/", vec![]);
    trace.path(SYS_access, "there", &[X_OK as u64], 0);
    trace.path(SYS_access, "there/info/none", &[0], errno(ENOENT));
    trace.open("there/file", O_RDONLY, 0, 3);
    trace.replay_faithfully(root.path());
    assert!(root.path().join("there/file").is_file());
}

#[test]
fn paths_through_descriptors_lead_to_what_is_below_them() {
    let root = tempfile::tempdir().unwrap();
    let mut trace = Trace::new();
    trace.start("/", vec![]);
    trace.path(SYS_mkdir, "folder", &[0o700], 0);
    trace.open("folder", O_RDONLY | O_DIRECTORY, 0, 3);
    trace.path(SYS_mkdir, "/proc/self/fd/3/./sub", &[0o700], 0);
    trace.replay_faithfully(root.path());
    assert!(root.path().join("folder/sub").is_dir());
}
