//! Compiles the programs that run in the kernel, if there is a clang that can. Without one the crate is built too, and says so when it is used.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const FLAGS: &[&str] = &["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror", "-c"];

/// Ring sizes: for machines with few processors, and with many.
const OBJECTS: [(&str, u32); 2] = [("large.o", 25), ("small.o", 22)];

/// Debian has clang under these names.
const CLANGS: &[&str] = &["clang", "clang-21", "clang-20", "clang-19", "clang-18", "clang-17", "clang-16", "clang-15", "clang-14"];

fn main() {
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let output = PathBuf::from(std::env::var("OUT_DIR").expect("set by cargo"));
    for path in ["bpf", "../../runtime/gen/table.c", "../../runtime/gen/table.h"] {
        println!("cargo:rerun-if-changed={}", root.join(path).display());
    }
    println!("cargo:rerun-if-env-changed=BPF_CLANG");
    let clang = find_clang();
    if clang.is_none() {
        // One that is installed later is noticed.
        println!("cargo:rerun-if-changed=/usr/bin/clang");
    }
    for (name, bits) in OBJECTS {
        let path = output.join(name);
        match &clang {
            Some(clang) => compile(clang, &root.join("bpf/program.c"), &path, bits),
            None => std::fs::write(&path, []).expect("OUT_DIR can be written"),
        }
    }
}

fn find_clang() -> Option<String> {
    if let Ok(named) = std::env::var("BPF_CLANG") {
        return (!named.is_empty()).then_some(named);
    }
    let makes_bpf = |name: &&&str| {
        let ran = Command::new(name).arg("-print-targets").stderr(Stdio::null()).output();
        ran.is_ok_and(|ran| ran.status.success() && String::from_utf8_lossy(&ran.stdout).contains("bpf"))
    };
    CLANGS.iter().find(makes_bpf).map(|name| (*name).to_owned())
}

fn compile(clang: &str, source: &Path, output: &Path, bits: u32) {
    let mut command = Command::new(clang);
    let status = command.args(FLAGS).arg(format!("-DRING_BITS={bits}")).arg("-o").arg(output).arg(source).status();
    let status = status.unwrap_or_else(|error| panic!("cannot run {clang}, which BPF_CLANG names: {error}"));
    assert!(status.success(), "{clang} does not compile the programs for the kernel; BPF_CLANG= in the environment builds without them");
}
