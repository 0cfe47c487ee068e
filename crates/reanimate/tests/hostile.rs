//! Traces that lie. Nothing outside the root is touched, memory stays limited, and nothing crashes.

mod support;

use retake_testing::report::{self, Cause};
use std::os::unix::fs::symlink;
use std::path::Path;

use libc::*;
use proptest::prelude::*;
use retake_reanimate::{Options, Prepare};
use retake_trace_format::{BufferDirection, TraceRecord, TracedBuffer, TracedCall};
use support::{HERE, Scene, Trace};

const WRITE_NEW: i32 = O_WRONLY | O_CREAT | O_TRUNC;

impl Scene {
    fn check(&self) {
        let list = |path: &Path| {
            let mut names: Vec<_> =
                std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(list(self.folder.path()), ["root", "victim", "victims"]);
        assert!(list(&self.folder.path().join("victims")).is_empty());
        assert_eq!(std::fs::read(self.folder.path().join("victim")).unwrap(), b"untouched");
        let mode = std::os::unix::fs::MetadataExt::mode(
            &self.folder.path().join("victim").metadata().unwrap(),
        );
        assert_eq!(mode & 0o777, 0o644);
    }

    /// Tries every way to do harm to a path.
    fn attack(&self, path: &str) {
        let mut trace = Trace::new();
        trace.start("/", vec![]);
        trace.open(path, WRITE_NEW, 0o666, 3).write(3, b"harm").close(3);
        trace.path(SYS_truncate, path, &[0], 0);
        trace.path(SYS_chmod, path, &[0o777], 0);
        trace.path(SYS_chown, path, &[12345, 12345], 0);
        trace.path(SYS_lchown, path, &[12345, 12345], 0);
        trace.call(SYS_utimensat, &[HERE, 1, 0, 0], 0).input(1, path);
        trace
            .call(SYS_setxattr, &[1, 2, 3, 1, 0], 0)
            .input(0, path)
            .input(1, "user.harm")
            .input(2, "x");
        trace.paths(SYS_link, path, "/link", 0).paths(SYS_rename, path, "/stolen", 0);
        trace.paths(SYS_rename, "/stolen", path, 0);
        trace.path(SYS_unlink, path, &[], 0).path(SYS_rmdir, path, &[], 0);
        trace.path(SYS_mkdir, &format!("{path}/made"), &[0o777], 0);
        trace.paths(SYS_symlink, "x", &format!("{path}/made"), 0);
        trace.path(SYS_mknod, &format!("{path}/made"), &[u64::from(S_IFIFO | 0o666), 0], 0);
        for prepare in [Prepare::Never, Prepare::Always] {
            let options = Options { keeps_going: true, prepare, ..Options::new(self.root()) };
            trace.replay_with(&options);
            self.check();
        }
    }
}

#[test]
fn paths_do_not_lead_out() {
    let scene = Scene::new();
    let absolute = scene.folder.path().to_str().unwrap();
    for path in
        ["../victim", "/../victim", "../victims", "a/../../victim", "./.././victims/..//victim"]
    {
        scene.attack(path);
    }
    scene.attack(&format!("{absolute}/victim"));
}

#[test]
fn links_do_not_lead_out() {
    let scene = Scene::new();
    let root = scene.root();
    symlink("../victim", root.join("file")).unwrap();
    symlink("..", root.join("up")).unwrap();
    symlink("/", root.join("top")).unwrap();
    symlink(scene.folder.path(), root.join("absolute")).unwrap();
    symlink(scene.folder.path().join("victim"), root.join("exactly")).unwrap();
    for path in [
        "file",
        "up/victim",
        "up/victims",
        "absolute/victim",
        "exactly",
        "top/../victim",
        "up/up/victim",
    ] {
        scene.attack(path);
    }
}

#[test]
fn links_made_by_the_trace_do_not_lead_out_even_if_the_plan_does_not_know_them() {
    let scene = Scene::new();
    let mut trace = Trace::new();
    trace.start("/", vec![]);
    // The trace says that these calls failed, but here they succeed.
    trace.paths(SYS_symlink, "..", "way", -i64::from(EPERM)).paths(
        SYS_symlink,
        "../victim",
        "file",
        -i64::from(EPERM),
    );
    trace
        .open("way/victim", WRITE_NEW, 0o666, 3)
        .write(3, b"harm")
        .open("file", WRITE_NEW, 0o666, 4)
        .write(4, b"harm");
    trace.path(SYS_chmod, "file", &[0o777], 0).path(SYS_unlink, "way/victim", &[], 0).path(
        SYS_mkdir,
        "way/victims/x",
        &[0o755],
        0,
    );
    trace.replay(&scene.root());
    scene.check();
}

#[test]
fn mounts_roots_and_devices_are_not_made() {
    let scene = Scene::new();
    let mut trace = Trace::new();
    trace.start("/", vec![]);
    trace.path(SYS_mkdir, "jail", &[0o755], 0).path(SYS_chroot, "jail", &[], 0).path(
        SYS_chdir,
        "/",
        &[],
        0,
    );
    trace.open("../../../victim", WRITE_NEW, 0o666, 3).write(3, b"inside").close(3);
    trace.paths(SYS_mount, "/dev/sda", "/", 0).path(SYS_umount2, "/", &[0], 0);
    trace.path(SYS_mknod, "disk", &[u64::from(S_IFBLK | 0o666), 0x800], 0);
    trace.open("disk", O_RDWR, 0, 3).write(3, b"harm");
    trace.paths(SYS_pivot_root, ".", ".", 0).call(
        SYS_reboot,
        &[0xfee1_dead, 672_274_793, 0x4321_fedc, 0],
        0,
    );
    trace.call(SYS_kill, &[1, 9], 0).call(SYS_kill, &[u64::MAX, 9], 0);
    let report = trace.replay(&scene.root());
    scene.check();
    assert_eq!(std::fs::read(scene.root().join("jail/victim")).unwrap(), b"inside");
    assert!(!scene.root().join("jail/disk").exists());
    assert!(report.skipped.values().sum::<u64>() >= 3, "{:?}", report.skipped);
}

/// Makes a device that is always full. Prints a message if the user or the file system does not
/// allow it.
fn full_device(path: &Path) -> bool {
    let numbers = rustix::fs::makedev(1, 7);
    let made = rustix::fs::mknodat(
        rustix::fs::CWD,
        path,
        rustix::fs::FileType::CharacterDevice,
        rustix::fs::Mode::RWXU,
        numbers,
    );
    let opened = made
        .map_err(std::io::Error::from)
        .and_then(|()| std::fs::OpenOptions::new().write(true).open(path));
    let tell = |error| {
        report::skip(Cause::Machine, &format!("devices cannot be made and opened: {error}"))
    };
    opened.map_err(tell).is_ok()
}

#[test]
fn preparation_opens_no_devices() {
    for (device, opened) in [("node", "node"), ("dev/node", "link/node")] {
        let scene = Scene::new();
        std::fs::create_dir(scene.root().join("dev")).unwrap();
        symlink("dev", scene.root().join("link")).unwrap();
        if !full_device(&scene.root().join(device)) {
            return;
        }
        let mut trace = Trace::new();
        trace.start("/", vec![]);
        // The trace treats it as a file with content.
        trace.open(opened, O_RDONLY, 0, 3).read(3, 100, b"written where it was").close(3);
        let options =
            Options { keeps_going: true, prepare: Prepare::Always, ..Options::new(scene.root()) };
        let failures = trace.replay_with(&options).prepared.unwrap().failures;
        let refused = std::io::Error::from_raw_os_error(ENXIO).to_string();
        assert!(
            !failures.is_empty() && failures.iter().all(|failure| failure.ends_with(&refused)),
            "{device}: {failures:?}"
        );
    }
}

#[test]
fn sizes_do_not_exhaust_memory() {
    let scene = Scene::new();
    let huge = i64::MAX as u64;
    let mut trace = Trace::new();
    trace.start("/", vec![]);
    trace.open("file", O_RDWR | O_CREAT, 0o644, 3).write(3, b"data");
    trace.call(SYS_pread64, &[3, 1, huge, 0], 4).output(1, "data");
    trace.call(SYS_pread64, &[3, 1, huge, 0], i64::MAX).output(1, "data");
    trace.call(SYS_write, &[3, 1, huge], i64::MAX).input(1, "x");
    trace.last().buffers[0].total_bytes = huge;
    trace.call(SYS_fallocate, &[3, 0, 0, huge], 0);
    trace.call(SYS_ftruncate, &[3, huge], 0);
    trace.call(SYS_copy_file_range, &[3, 0, 3, 0, huge, 0], i64::MAX);
    trace.call(SYS_getdents64, &[3, 1, huge], i64::MAX).output(1, [0xff; 100]);
    trace
        .call(SYS_getxattr, &[1, 2, 3, huge], i64::MAX)
        .input(0, "file")
        .input(1, "user.x")
        .output(2, "x");
    trace.call(SYS_dup2, &[3, i32::MAX as u64], i64::from(i32::MAX));
    trace.call(SYS_close_range, &[0, u64::from(u32::MAX), 0], 0);
    trace.path(SYS_mkdir, &"a/".repeat(100_000), &[0o755], 0);
    trace.path(SYS_mkdir, &"../".repeat(100_000), &[0o755], 0);
    trace.replay(&scene.root());
    scene.check();
}

fn any_call() -> impl Strategy<Value = TraceRecord> {
    let numbers = prop_oneof![
        0_u32..470,
        Just(SYS_openat as u32),
        Just(SYS_rename as u32),
        Just(SYS_write as u32),
        any::<u32>()
    ];
    let word = prop_oneof![0_u64..12, Just(HERE), Just(u64::MAX), any::<u64>()];
    let result = prop_oneof![0_i64..12, -200_i64..0, any::<i64>()];
    let text = prop_oneof!["[a-c./]{0,12}", "\\.\\./victim", "(/|\\.\\.|a|b){1,6}"]
        .prop_map(String::into_bytes);
    let data = prop_oneof![text, proptest::collection::vec(any::<u8>(), 0..80)];
    let buffer = (0_u8..6, any::<bool>(), word.clone(), any::<u64>(), data).prop_map(
        |(argument, reads, address, total_bytes, data)| {
            let direction = if reads { BufferDirection::Input } else { BufferDirection::Output };
            TracedBuffer { argument, direction, address, total_bytes, data: data.into() }
        },
    );
    let times = (0_u64..10_000, 0_u64..10_000);
    (
        numbers,
        proptest::array::uniform6(word),
        result,
        proptest::collection::vec(buffer, 0..4),
        1_u32..5,
        times,
    )
        .prop_map(|(number, arguments, result, buffers, thread, (entered_ns, returned_ns))| {
            TraceRecord::Call(TracedCall {
                thread,
                process: thread / 2,
                number,
                arguments,
                result,
                buffers,
                entered_ns,
                returned_ns,
                ..Default::default()
            })
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, max_shrink_iters: 200,
        ..ProptestConfig::default() })]

    #[test]
    fn any_trace_is_survived(records in proptest::collection::vec(any_call(), 1..60),
        prepares: bool) {
        let scene = Scene::new();
        symlink("..", scene.root().join("b")).unwrap();
        let mut trace = Trace::new();
        trace.start("/a", vec![]);
        trace.records.extend(records.into_iter().filter(|record| !waits(record)));
        let prepare = if prepares { Prepare::Always } else { Prepare::Never };
        trace.replay_with(&Options { keeps_going: true, prepare, allocation_limit: 1 << 20,
            ..Options::new(scene.root()) });
        scene.check();
    }
}

/// Whether a call would only wait for data that do not come.
fn waits(record: &TraceRecord) -> bool {
    matches!(record, TraceRecord::Call(call) if [SYS_pipe, SYS_pipe2, SYS_mknod,
        SYS_mknodat].contains(&i64::from(call.number)))
}

#[test]
fn directories_within_themselves_are_refused() {
    let scene = Scene::new();
    let mut trace = Trace::new();
    trace.start("/", vec![]);
    trace.path(SYS_mkdir, "a", &[0o755], 0).path(SYS_mkdir, "a/b", &[0o755], 0).path(
        SYS_mkdir,
        "a/b/c",
        &[0o755],
        0,
    );
    trace
        .paths(SYS_rename, "a", "a/b/c/a", 0)
        .paths(SYS_link, "a/b", "a/b/c/b", 0)
        .paths(SYS_rename, "a", "a/a", 0);
    trace
        .call(SYS_renameat2, &[HERE, 1, HERE, 3, u64::from(RENAME_EXCHANGE)], 0)
        .input(1, "a")
        .input(3, "a/b/c");
    for path in ["a/b/c/a/b/c/a/x", "a/b/c/b/c/b/x", "a/a/a/x"] {
        trace.path(SYS_chdir, path, &[], 0).path(SYS_mkdir, "x", &[0o755], 0).path(
            SYS_chdir,
            "/",
            &[],
            0,
        );
    }
    for prepare in [Prepare::Never, Prepare::Always] {
        trace.replay_with(&Options { keeps_going: true, prepare, ..Options::new(scene.root()) });
        scene.check();
    }
}

/// Makes one directory in the other: deeper than any path, and deeper than a recursion could go.
#[test]
fn deep_directories_take_their_room_and_no_more() {
    const DEPTH: usize = 30_000;
    let scene = Scene::new();
    let mut trace = Trace::new();
    trace.start("/", vec![]);
    let long = "d".repeat(200);
    (0..DEPTH).for_each(|_| {
        trace.path(SYS_mkdir, &long, &[0o755], 0).path(SYS_chdir, &long, &[], 0);
    });
    // Moves a deep tree deeper.
    (0..50).for_each(|index| {
        let away = format!("e{index}");
        trace.path(SYS_chdir, "/", &[], 0).paths(SYS_rename, &long, &away, 0).path(
            SYS_mkdir,
            &long,
            &[0o755],
            0,
        );
        trace.paths(SYS_rename, &away, &format!("{long}/{long}"), 0);
    });
    trace.replay(&scene.root());
    scene.check();
}

#[test]
fn paths_that_the_kernel_would_not_take_show_nothing() {
    let scene = Scene::new();
    let mut trace = Trace::new();
    trace.start("/", vec![]);
    (0..40).for_each(|index| {
        trace.path(SYS_mkdir, &format!("{index}/{}", "a/".repeat(60_000)), &[0o755], 0);
        trace.path(SYS_access, &format!("{index}/{}", "b/".repeat(2000)), &[0], 0);
        trace.paths(SYS_symlink, &"c/".repeat(2000), &format!("link{index}"), 0).path(
            SYS_access,
            &format!("link{index}/link0"),
            &[0],
            0,
        );
    });
    let report = trace.replay_with(&Options {
        keeps_going: true,
        prepare: Prepare::Always,
        ..Options::new(scene.root())
    });
    scene.check();
    assert!(report.mismatched >= 40, "{report:?}");
}

#[test]
fn reads_of_what_is_not_there_end() {
    let scene = Scene::new();
    let huge = i64::MAX as u64;
    let mut trace = Trace::new();
    trace.start("/", vec![]);
    trace.open("file", O_RDWR | O_CREAT, 0o644, 3).call(SYS_ftruncate, &[3, 1 << 43], 0);
    trace.call(SYS_pread64, &[3, 1, huge, 0], i64::MAX).output(1, "x");
    trace.last().buffers[0].total_bytes = huge;
    trace.call(SYS_pipe2, &[1, 0], 0).output(0, [5, 0, 0, 0, 6, 0, 0, 0]);
    let began = std::time::Instant::now();
    (0..300).for_each(|_| {
        trace.read(5, 10, b"never");
    });
    let report = trace.replay(&scene.root());
    scene.check();
    assert!(report.mismatched >= 300, "{report:?}");
    assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
}
