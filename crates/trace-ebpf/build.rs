//! Compiles the programs that run in the kernel, if there is a clang that can. Otherwise, the crate
//! is built without them, and says so when it is used.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const FLAGS: &[&str] = &[
    "-target",
    "bpf",
    "-mcpu=v3",
    "-O2",
    "-g",
    "-Wall",
    "-Wextra",
    "-Wno-unused-parameter",
    "-Werror",
    "-c",
];

/// Ring sizes for machines with few processors and with many.
const OBJECTS: [(&str, u32); 2] = [("large.o", 25), ("small.o", 22)];

/// Names of clang in Debian.
const CLANGS: &[&str] = &[
    "clang", "clang-21", "clang-20", "clang-19", "clang-18", "clang-17", "clang-16", "clang-15",
    "clang-14",
];

fn main() {
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let output = PathBuf::from(std::env::var("OUT_DIR").expect("set by cargo"));
    let generated =
        ["table.c", "table.h", "numbers.h"].map(|name| format!("../../runtime/gen/{name}"));
    for path in generated.iter().map(String::as_str).chain(["bpf"]) {
        println!("cargo:rerun-if-changed={}", root.join(path).display());
    }
    println!("cargo:rerun-if-env-changed=BPF_CLANG");
    let built = find_clang().and_then(|clang| {
        let compile = |(name, bits): &(&str, u32)| {
            compile(&clang, &root.join("bpf/program.c"), &output.join(name), *bits)
        };
        OBJECTS.iter().try_for_each(compile)
    });
    if let Err(reason) = &built {
        // The folder is watched, so that a clang installed later is noticed. The program file
        // itself has the date of its package.
        println!("cargo:rerun-if-changed=/usr/bin");
        for (name, _) in OBJECTS {
            std::fs::write(output.join(name), []).expect("OUT_DIR can be written");
        }
        println!("cargo:rustc-env=RETAKE_BPF_ABSENT={reason}");
    } else {
        println!("cargo:rustc-env=RETAKE_BPF_ABSENT=");
    }
}

fn find_clang() -> Result<String, String> {
    if let Ok(named) = std::env::var("BPF_CLANG") {
        return if named.is_empty() { Err("BPF_CLANG was empty".to_owned()) } else { Ok(named) };
    }
    let makes_bpf = |name: &&&str| {
        let ran = Command::new(name).arg("-print-targets").stderr(Stdio::null()).output();
        ran.is_ok_and(|ran| {
            ran.status.success() && String::from_utf8_lossy(&ran.stdout).contains("bpf")
        })
    };
    CLANGS
        .iter()
        .find(makes_bpf)
        .map(|name| (*name).to_owned())
        .ok_or_else(|| "there was no clang".to_owned())
}

/// Compiles the programs. A clang that cannot counts as missing, unless BPF_CLANG names it.
fn compile(clang: &str, source: &Path, output: &Path, bits: u32) -> Result<(), String> {
    let mut command = Command::new(clang);
    // The debug information of the programs stays in the product: it must not depend on the folder.
    let root = source.ancestors().nth(2).expect("below bpf/").display().to_string();
    let ran = command
        .args(FLAGS)
        .arg(format!("-ffile-prefix-map={root}=/retake/crates/trace-ebpf"))
        .arg(format!("-DRING_BITS={bits}"))
        .arg("-o")
        .arg(output)
        .arg(source)
        .output();
    let reason = match ran {
        Ok(ran) if ran.status.success() => return Ok(()),
        Ok(ran) => String::from_utf8_lossy(&ran.stderr)
            .lines()
            .find(|line| line.contains("error"))
            .unwrap_or("it failed")
            .to_owned(),
        Err(error) => error.to_string(),
    };
    assert!(
        std::env::var_os("BPF_CLANG").is_none(),
        "{clang}, which BPF_CLANG names, does not compile the programs for the kernel: {reason}"
    );
    Err(format!("{clang} did not compile them: {reason}"))
}
