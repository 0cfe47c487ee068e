//! The machine's description: noted when recording, and compared when replaying.

use std::collections::BTreeSet;
use std::fs;

use retake_kernel::cpuid;
use retake_recording::Machine;
use retake_supervisor::this_processor;

/// Processor features that programs detect and use by themselves, as named in /proc/cpuinfo.
/// Features that the runtime hides from programs (such as RDRAND) are not listed, nor are those
/// that only a kernel can use.
const FEATURES: &[&str] = &[
    "pni",
    "ssse3",
    "sse4_1",
    "sse4_2",
    "sse4a",
    "popcnt",
    "cx16",
    "movbe",
    "lahf_lm",
    "abm",
    "pclmulqdq",
    "aes",
    "xsave",
    "xsaveopt",
    "xsavec",
    "xgetbv1",
    "avx",
    "avx2",
    "fma",
    "fma4",
    "f16c",
    "xop",
    "tbm",
    "bmi1",
    "bmi2",
    "adx",
    "erms",
    "fsrm",
    "fsgsbase",
    "clflushopt",
    "clwb",
    "clzero",
    "movdiri",
    "movdir64b",
    "serialize",
    "sha_ni",
    "vaes",
    "vpclmulqdq",
    "gfni",
    "avx_vnni",
    "avx_ifma",
    "pku",
    "ospke",
];

/// Prefixes of the names of features that are used in the same way.
const FEATURE_FAMILIES: &[&str] = &["avx512", "amx_", "avx10"];

/// Describes this machine. Unknown values are empty.
pub fn this_machine() -> Machine {
    let processor = cpuid::description();
    Machine {
        kernel: kernel_release(),
        cpu_model: field(processor, "model name").unwrap_or_default().to_owned(),
        features_needed: usable_features(processor),
        processor: this_processor(),
    }
}

/// The kernel release that `uname -r` prints.
pub fn kernel_release() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release.trim().to_owned()
}

/// The features in `needed` that this machine lacks.
pub fn missing_features(needed: &[String]) -> Vec<String> {
    let flags: BTreeSet<&str> = flags(cpuid::description()).collect();
    let missing = needed.iter().filter(|name| !flags.contains(name.as_str()));
    missing.cloned().collect()
}

fn usable_features(processor: &str) -> Vec<String> {
    let usable = |name: &&str| {
        FEATURES.contains(name) || FEATURE_FAMILIES.iter().any(|family| name.starts_with(family))
    };
    flags(processor).filter(usable).map(str::to_owned).collect()
}

fn flags(processor: &str) -> impl Iterator<Item = &str> {
    field(processor, "flags").unwrap_or_default().split_ascii_whitespace()
}

/// The first field with this name.
fn field<'text>(processor: &'text str, name: &str) -> Option<&'text str> {
    processor.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim_end() == name).then(|| value.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROCESSOR: &str = "processor\t: 0\nmodel name\t: A Fine CPU @ 3 GHz\n\
        flags\t\t: fpu sse2 rdrand avx2 avx512f rdtscp\n\nprocessor\t: 1\nflags\t\t: other\n";

    #[test]
    fn fields_are_those_of_the_first_processor() {
        assert_eq!(field(PROCESSOR, "model name"), Some("A Fine CPU @ 3 GHz"));
        assert_eq!(field(PROCESSOR, "model"), None);
        assert_eq!(usable_features(PROCESSOR), ["avx2", "avx512f"]);
    }

    #[test]
    fn a_machine_has_what_it_says_it_has() {
        assert!(missing_features(&this_machine().features_needed).is_empty());
        assert_eq!(missing_features(&["no_such".to_owned()]), ["no_such"]);
    }
}
