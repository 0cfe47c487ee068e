//! The areas of the product, and the tests nearest to each file.

/// An area of the product, which has a share of the drawn mutations.
#[derive(Debug)]
pub struct Area {
    /// The folders of the area. The first gets at least half of the area's share.
    pub folders: &'static [&'static str],
}

pub const AREAS: [Area; 5] = [
    Area { folders: &["runtime/"] },
    Area {
        folders: &[
            "crates/record/src/",
            "crates/recording/src/",
            "crates/supervisor/src/",
            "crates/kernel/src/",
            "crates/patch/src/",
            "crates/model/src/",
        ],
    },
    Area { folders: &["crates/replay/src/"] },
    Area { folders: &["crates/debug/src/", "crates/snapshot/src/"] },
    Area { folders: &["crates/trace/src/", "crates/trace-format/src/"] },
];

impl Area {
    pub fn has(&self, file: &str) -> bool {
        self.folders.iter().any(|folder| file.starts_with(folder))
    }
}

/// Files that are not part of the product, or whose tests need more than every machine has.
const LEFT_OUT: [&str; 6] = [
    // Written by `cargo xtask gen`.
    "crates/model/src/gen.rs",
    "runtime/gen/",
    // An entry for fuzzers.
    "crates/recording/src/fuzzing.rs",
    // Tests.
    "crates/recording/src/writer_tests.rs",
    // Their tests need clang, and a kernel that permits tracing.
    "crates/trace/src/ebpf.rs",
    "crates/trace/src/ebpf/",
];

pub fn is_left_out(file: &str) -> bool {
    LEFT_OUT.iter().any(|left_out| file.starts_with(left_out))
}

/// Tests in the order in which they are most likely to notice a mutation, by the beginning of a
/// file's path. A test is `PACKAGE::TARGET`. The tests of the file's own package come first, and
/// all others last.
const NEAREST: [(&str, &[&str]); 15] = [
    ("runtime/order/chaos", &["retake::chaos", "retake::until_failure", "retake::programs"]),
    (
        "runtime/mode/debug",
        &[
            "retake::debug",
            "retake::debug_commands",
            "retake::debug_engine",
            "retake::debug_copies",
            "retake::debug_catch",
        ],
    ),
    ("runtime/order/section", &["retake::sync_policy", "retake::programs"]),
    ("runtime/order/passage", &["retake::passages", "retake::sync_policy", "retake::programs"]),
    (
        "runtime/mode/trace",
        &["retake::cli_trace", "retake::cli_trace_ends", "retake::cli_strace", "retake::programs"],
    ),
    ("runtime/log/trace_items", &["retake::cli_trace", "retake::cli_strace", "retake::programs"]),
    ("runtime/calls/memory", &["retake::programs", "retake::cli_trace", "retake::debug_mappings"]),
    (
        "runtime/mode/look",
        &[
            "retake::cli_trace",
            "retake::cli_trace_ends",
            "retake::reanimated_programs",
            "retake::programs",
        ],
    ),
    (
        "runtime/",
        &[
            "retake::programs",
            "retake::sync_policy",
            "retake::passages",
            "retake::chaos",
            "retake::debug_engine",
            "retake::debug_copies",
            "retake::kept",
        ],
    ),
    (
        "crates/record/",
        &[
            "retake::cli_record",
            "retake::keep_last",
            "retake::cores",
            "retake::accounts",
            "retake::chaos",
            "retake::programs",
        ],
    ),
    (
        "crates/replay/",
        &[
            "retake::cli_record",
            "retake::cli_recordings",
            "retake::cli_faults",
            "retake::altered",
            "retake::attack",
            "retake::programs",
        ],
    ),
    (
        "crates/snapshot/",
        &[
            "retake::debug_engine",
            "retake::debug_copies",
            "retake::debug",
            "retake::debug_speed",
            "retake::kept",
        ],
    ),
    (
        "crates/debug/",
        &[
            "retake::debug",
            "retake::debug_commands",
            "retake::debug_engine",
            "retake::debug_copies",
            "retake::debug_dap",
            "retake::kept",
            "retake::debug_places",
        ],
    ),
    (
        "crates/trace",
        &[
            "retake::cli_trace",
            "retake::cli_trace_ends",
            "retake::cli_strace",
            "retake::cli_ds",
            "retake::cli_reanimate",
        ],
    ),
    (
        "crates/",
        &["retake::cli_record", "retake::cli_recordings", "retake::programs", "retake::cli_faults"],
    ),
];

/// Returns the tests nearest to a file.
pub fn nearest(file: &str) -> &'static [&'static str] {
    NEAREST.iter().find(|(folder, _)| file.starts_with(folder)).map_or(&[], |(_, tests)| tests)
}

/// Returns the package that a file is first built into.
pub fn package(file: &str) -> &str {
    let folder = file.strip_prefix("crates/").and_then(|rest| rest.split('/').next());
    // This package compiles and embeds the runtime.
    folder.unwrap_or("supervisor")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_know_their_area_and_tests() {
        assert!(
            AREAS[4].has("crates/trace-format/src/lib.rs")
                && !AREAS[4].has("crates/trace-ebpf/src/lib.rs")
        );
        assert_eq!(nearest("runtime/order/chaos.c")[0], "retake::chaos");
        assert_eq!(nearest("runtime/calls/mmap.c")[0], "retake::programs");
        assert_eq!(
            (package("runtime/calls/mmap.c"), package("crates/debug/src/lib.rs")),
            ("supervisor", "debug")
        );
    }
}
