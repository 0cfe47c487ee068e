//! Replays of damaged traces: bytes are flipped, files cut, records changed. Whatever the damage,
//! the replay ends, does not crash, stays within its memory limit, and touches nothing outside its
//! root.
//!
//! An ordinary test run uses a few hundred variants of a trace made here. The following command
//! uses more, of traces of real programs. Traces that `retake ds repack` made without compression
//! are damaged most:
//!
//!     RETAKE_VARIANTS=20000 RETAKE_TRACES=a.ds:b.ds cargo test --release -p retake-reanimate \
//!         --test damaged -- --nocapture

mod support;

use std::io::Cursor;
use std::num::NonZeroU32;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use libc::*;
use retake_dataseries::{CompressionSet, Digests, ReadOptions, Reader};
use retake_reanimate::{Options, Order, Pass, Prepare, reanimate};
use retake_trace_format::{
    TraceReader, TraceReaderOptions, TraceRecord, TraceWriter, TraceWriterOptions, TracedCall,
};
use support::{HERE, Scene, Trace, entries};

/// The time limit of one variant.
const LIMIT: Duration = Duration::from_secs(60);
/// The memory limit of all variants together.
const MEMORY_KB: u64 = 1 << 20;

/// The most records of a real program's trace that are changed.
const MAXIMUM_RECORDS: usize = 3000;

/// A pseudo-random number generator.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    fn of<'all, T>(&mut self, all: &'all [T]) -> &'all T {
        &all[self.below(all.len())]
    }
}

/// A trace with some of everything: files, names, links, attributes, pipes, processes, data moved
/// inside the kernel.
fn some_of_everything() -> Vec<TraceRecord> {
    let mut trace = Trace::new();
    trace.start("/work", vec![]);
    trace.path(SYS_mkdir, "a", &[0o755], 0).path(SYS_mkdir, "a/b", &[0o755], 0);
    for index in 0..6_u64 {
        let path = format!("a/b/file{index}");
        trace.open(&path, O_RDWR | O_CREAT, 0o644, 3).write(3, &[index as u8; 3000]);
        trace.call(SYS_pread64, &[3, 1, 100, 50], 100).output(1, [index as u8; 100]);
        trace.call(SYS_lseek, &[3, 0, SEEK_SET as u64], 0).read(3, 4096, &[index as u8; 3000]);
        trace.call(SYS_ftruncate, &[3, 5000 + index], 0).call(SYS_fallocate, &[3, 0, 0, 8192], 0);
        trace.status(SYS_fstat, 3, S_IFREG | 0o644, 8192).call(SYS_fsync, &[3], 0).close(3);
        trace.path(SYS_chmod, &path, &[0o600], 0).paths(
            SYS_rename,
            &path,
            &format!("a/moved{index}"),
            0,
        );
    }
    trace
        .paths(SYS_symlink, "moved1", "a/link", 0)
        .paths(SYS_link, "a/moved2", "a/again", 0)
        .paths(SYS_symlink, "..", "a/up", 0);
    trace.open("a/link", O_RDONLY, 0, 3).read(3, 10, &[1; 10]).open(
        "a/up/copy",
        O_RDWR | O_CREAT | O_EXCL,
        0o600,
        4,
    );
    trace
        .call(SYS_copy_file_range, &[3, 0, 4, 0, 2000, 0], 2000)
        .call(SYS_sendfile, &[4, 3, 0, 100], 100)
        .close(4);
    trace.open("before", O_RDONLY, 0, 4).read(4, 100, b"what was there before").close(4);
    trace.open("a", O_RDONLY | O_DIRECTORY, 0, 4).call(SYS_getdents64, &[4, 1, 4096], 120);
    trace.output(1, entries(&[(".", 4), ("..", 4), ("b", 4), ("again", 8), ("link", 10)])).close(4);
    trace
        .call(SYS_setxattr, &[1, 2, 3, 5, 0], 0)
        .input(0, "a/again")
        .input(1, "user.name")
        .input(2, "value");
    trace
        .call(SYS_pipe2, &[1, 0], 0)
        .output(0, [5, 0, 0, 0, 6, 0, 0, 0])
        .write(6, b"through a pipe");
    trace.call(SYS_fork, &[], 2);
    trace
        .by(2, 2)
        .read(5, 100, b"through a pipe")
        .path(SYS_chdir, "a", &[], 0)
        .path(SYS_mkdir, "c", &[0o700], 0)
        .close(6)
        .close(5);
    trace.call(SYS_exit_group, &[0], 0);
    trace
        .by(1, 1)
        .close(6)
        .close(5)
        .call(SYS_wait4, &[2, 0, 0, 0], 2)
        .path(SYS_chroot, "a", &[], 0)
        .path(SYS_mkdir, "/../../inside", &[0o755], 0);
    trace
        .call(SYS_utimensat, &[HERE, 1, 0, 0], 0)
        .input(1, "b")
        .path(SYS_unlink, "again", &[], 0)
        .path(SYS_rmdir, "b", &[], 0);
    trace.records
}

fn written(records: &[TraceRecord]) -> Vec<u8> {
    let options = TraceWriterOptions {
        extent_bytes: 600,
        compression: CompressionSet::NONE,
        ..TraceWriterOptions::default()
    };
    let mut writer = TraceWriter::new(Vec::new(), options).unwrap();
    records.iter().for_each(|record| writer.write(record).unwrap());
    writer.finish().unwrap()
}

/// A trace to be damaged.
struct Original {
    bytes: Vec<u8>,
    /// The offsets at which its extents begin.
    boundaries: Vec<usize>,
    records: Vec<TraceRecord>,
}

impl Original {
    fn new(bytes: Vec<u8>) -> Self {
        let reader = Reader::open(Cursor::new(&bytes), ReadOptions::default()).unwrap();
        let boundaries = reader
            .entries()
            .iter()
            .map(|entry| entry.offset as usize)
            .chain([bytes.len()])
            .collect();
        let reader = TraceReader::new(Cursor::new(&bytes), &TraceReaderOptions::default()).unwrap();
        let records = reader.take(MAXIMUM_RECORDS).map(Result::unwrap).collect();
        Self { bytes, boundaries, records }
    }

    fn all() -> Vec<Self> {
        match std::env::var("RETAKE_TRACES") {
            Ok(files) => {
                files.split(':').map(|file| Self::new(std::fs::read(file).unwrap())).collect()
            }
            Err(_) => vec![Self::new(written(&some_of_everything()))],
        }
    }

    /// A place in the file. Every second one is near a boundary.
    fn place(&self, random: &mut Random) -> usize {
        const NEAR: usize = 80;
        let end = self.bytes.len() - 1;
        match random.below(2) {
            0 => random.below(end),
            _ => (*random.of(&self.boundaries) + random.below(NEAR))
                .saturating_sub(NEAR / 4)
                .min(end),
        }
    }

    fn damaged(&self, random: &mut Random) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        if random.below(4) == 0 {
            bytes.truncate(self.place(random));
            return bytes;
        }
        for _ in 0..=random.below(8) {
            let place = self.place(random);
            let run = 1 + random.below(8);
            for byte in bytes.iter_mut().skip(place).take(run) {
                let (flipped, any) = (*byte ^ 1 << random.below(8), random.next() as u8);
                *byte = *random.of(&[0, 0xff, 0x7f, 0x80, flipped, any]);
            }
        }
        bytes
    }

    fn changed(&self, random: &mut Random) -> Vec<TraceRecord> {
        let mut records = self.records.clone();
        for _ in 0..=random.below(30) {
            let index = random.below(records.len());
            match random.below(8) {
                0 => drop(records.remove(index)),
                1 => records.insert(index, records[index].clone()),
                2 => {
                    let other = random.below(records.len());
                    records.swap(index, other);
                }
                _ => {
                    if let TraceRecord::Call(call) = &mut records[index] {
                        change(call, random);
                    }
                }
            }
            if records.len() < 2 {
                break;
            }
        }
        records
    }
}

/// Changes a call in one place.
fn change(call: &mut TracedCall, random: &mut Random) {
    const WORDS: [u64; 14] = [
        0,
        1,
        3,
        4,
        HERE,
        4096,
        1 << 20,
        0x7fff_ffff,
        0x8000_0000,
        u32::MAX as u64,
        1 << 40,
        i64::MAX as u64,
        1 << 63,
        u64::MAX,
    ];
    const TEXTS: [&str; 14] = [
        "../victim",
        "/../victims/made",
        "a/up/../../../victim",
        "/proc/self/root",
        "/proc/self/fd/3",
        "/proc/1/cwd/victim",
        "/dev/sda",
        "/dev/null",
        "",
        "/",
        "..",
        "a/link/",
        "./././a//b/../b/../..",
        "a/up",
    ];
    match random.below(7) {
        0 => call.number = random.next() as u32 % 470,
        1 => call.result = *random.of(&WORDS) as i64,
        2 => call.result = -(random.below(140) as i64),
        3 => call.arguments[random.below(6)] = *random.of(&WORDS),
        4 => (call.process, call.thread) = (random.below(4) as u32, random.below(6) as u32),
        5 => (call.entered_ns, call.returned_ns) = (*random.of(&WORDS), *random.of(&WORDS)),
        _ if call.buffers.is_empty() => call.processor = u32::MAX,
        _ => {
            let index = random.below(call.buffers.len());
            let buffer = &mut call.buffers[index];
            match random.below(4) {
                0 => buffer.data = random.of(&TEXTS).as_bytes().into(),
                1 => buffer.total_bytes = *random.of(&WORDS),
                2 => buffer.data.truncate(random.below(buffer.data.len())),
                _ => buffer.argument = random.below(7) as u8,
            }
        }
    }
}

impl Scene {
    fn victim_changed(&self) -> i64 {
        self.folder.path().join("victim").metadata().unwrap().ctime_nsec()
    }

    fn empty(&self) {
        std::fs::remove_dir_all(self.root()).unwrap();
        std::fs::create_dir(self.root()).unwrap();
    }

    fn check(&self, variant: u64, changed: i64) {
        let victim = self.folder.path().join("victim");
        assert_eq!(std::fs::read(&victim).unwrap(), b"untouched", "variant {variant}");
        assert_eq!(self.victim_changed(), changed, "variant {variant}");
        assert_eq!(
            std::fs::read_dir(self.folder.path().join("victims")).unwrap().count(),
            0,
            "variant {variant}"
        );
        assert_eq!(std::fs::read_dir(self.folder.path()).unwrap().count(), 3, "variant {variant}");
    }
}

/// Ends the test program if a variant does not end, or if one of its threads panics. Both would
/// otherwise go unnoticed.
fn watch() -> &'static AtomicU64 {
    static STARTED: AtomicU64 = AtomicU64::new(0);
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        usual(info);
        eprintln!("in variant {}", STARTED.load(Ordering::Relaxed));
        std::process::abort();
    }));
    std::thread::spawn(|| {
        let (mut seen, mut since) = (0, Instant::now());
        loop {
            std::thread::sleep(Duration::from_millis(500));
            let now = STARTED.load(Ordering::Relaxed);
            if now != seen {
                (seen, since) = (now, Instant::now());
            }
            if since.elapsed() > LIMIT {
                eprintln!("variant {now} does not end");
                std::process::abort();
            }
        }
    });
    &STARTED
}

fn replay(original: &Original, random: &mut Random, root: &Path) {
    let options = Options {
        keeps_going: random.below(4) != 0,
        prepare: *random.of(&[Prepare::Always, Prepare::Never]),
        order: *random.of(&[Order::Resource, Order::Resource, Order::Overlap, Order::Strict]),
        threads: NonZeroU32::new(*random.of(&[1, 2, 256])).unwrap(),
        allocation_limit: 1 << 20,
        ..Options::new(root)
    };
    if random.below(2) == 0 {
        let records = original.changed(random);
        let open = |_| {
            Ok::<_, std::convert::Infallible>(
                records.clone().into_iter().map(Ok::<_, std::convert::Infallible>),
            )
        };
        reanimate(&options, open, &mut |_| {}).unwrap();
        return;
    }
    let bytes = original.damaged(random);
    // If digests were checked, hardly any damage would get past the reader.
    let reading = TraceReaderOptions {
        digests: if random.below(8) == 0 { Digests::Both } else { Digests::None },
        memory_bytes: 64 << 20,
        skips_written: false,
    };
    let open = |pass| {
        let reading =
            TraceReaderOptions { skips_written: pass == Pass::Preparing, ..reading.clone() };
        TraceReader::new(Cursor::new(bytes.as_slice()), &reading)
    };
    let _ = reanimate(&options, open, &mut |_| {});
}

fn peak_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn damaged_traces_end_and_stay_below_the_root() {
    let number =
        |name: &str, usual| std::env::var(name).map_or(usual, |text| text.parse().unwrap());
    let (first, count) = (number("RETAKE_FIRST_VARIANT", 1), number("RETAKE_VARIANTS", 300));
    let originals = Original::all();
    let started = watch();
    let scene = Scene::new();
    let changed = scene.victim_changed();
    for variant in first..first + count {
        started.store(variant, Ordering::Relaxed);
        let began = Instant::now();
        let mut random = Random(variant);
        replay(&originals[variant as usize % originals.len()], &mut random, &scene.root());
        scene.check(variant, changed);
        scene.empty();
        let took = began.elapsed();
        if took > Duration::from_secs(2) {
            eprintln!("variant {variant} took {:.1} s", took.as_secs_f64());
        }
        assert!(peak_kb() < MEMORY_KB, "variant {variant}: {} KB", peak_kb());
    }
    eprintln!("{count} variants, {} MB", peak_kb() >> 10);
}
