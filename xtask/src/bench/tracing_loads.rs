//! The programs of `cargo xtask bench --tracing`, with their limits.

/// A program, and the limits of its ratios.
#[derive(Debug)]
pub struct Load {
    pub name: &'static str,
    pub title: &'static str,
    pub requires: &'static [&'static str],
    pub prepare: &'static str,
    /// A shell command. It runs in an empty folder of its own.
    pub command: &'static str,
    pub in_process_limit: f64,
    pub kernel_limit: Option<f64>,
}

/// All programs.
pub const LOADS: [Load; 5] = [
    Load {
        name: "dd",
        title: "dd, 4 KB × 50,000, to a file",
        requires: &["dd"],
        prepare: "head -c 200M /dev/urandom > data",
        command: "exec dd if=../data of=copy bs=4k status=none",
        in_process_limit: 1.5,
        kernel_limit: Some(1.8),
    },
    Load {
        name: "dd-null",
        title: "dd, 4 KB × 50,000, to /dev/null",
        requires: &["dd"],
        prepare: "head -c 200M /dev/urandom > data",
        command: "exec dd if=../data of=/dev/null bs=4k status=none",
        in_process_limit: f64::INFINITY,
        kernel_limit: None,
    },
    Load {
        name: "fio",
        title: "fio, buffered, random reads and writes of 4 KB",
        requires: &["fio"],
        prepare: "head -c 32M /dev/urandom > data",
        command: "cp ../data it; exec fio --name=it --filename=it --rw=randrw --bs=4k --size=32m \
        --io_size=64m --ioengine=psync --randseed=7 --minimal",
        in_process_limit: 1.4,
        kernel_limit: Some(1.6),
    },
    Load {
        name: "tar",
        title: "tar of /usr/include",
        requires: &["tar"],
        prepare: "tar cf warm -C /usr include; rm warm",
        command: "exec tar cf it -C /usr include",
        in_process_limit: 1.25,
        kernel_limit: Some(1.5),
    },
    Load {
        name: "leveldb",
        title: "LevelDB, what db_bench does, 60,000 entries",
        requires: &["gcc", "/usr/include/leveldb/c.h"],
        prepare: "${CC:-gcc} -O2 -o leveldb_bench $PROGRAMS/leveldb_bench.c -lleveldb",
        command: "exec ../leveldb_bench database 60000",
        in_process_limit: 1.4,
        kernel_limit: None,
    },
];
