//! Compiles the runtime: freestanding C and assembly into one static executable at a fixed address,
//! of which the text is kept. The executable itself is for people: it has debug information.

use std::path::{Path, PathBuf};
use std::process::Command;

const FLAGS: &[&str] = &[
    "-std=gnu11",
    "-O2",
    "-g",
    "-ffreestanding",
    "-fno-builtin",
    "-nostdlib",
    "-static",
    // The fixed address is far above 2 GB, so code must address relative to the program counter.
    "-fpie",
    "-no-pie",
    "-mgeneral-regs-only",
    "-mno-red-zone",
    "-fno-stack-protector",
    "-fcf-protection=none",
    "-fno-asynchronous-unwind-tables",
    "-fno-jump-tables",
    "-fvisibility=hidden",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wl,--build-id=none",
    "-Wl,-z,noexecstack",
    "-Wl,-z,max-page-size=4096",
];

/// The folders of the runtime: its floors from the ground up, and the generated code.
const FLOORS: [&str; 9] =
    ["base", "log", "order", "place", "signals", "mode", "calls", "entry", "gen"];

fn main() {
    let repository =
        PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").expect("set by cargo")).join("../..");
    let root = repository.join("runtime");
    let folder = PathBuf::from(std::env::var("OUT_DIR").expect("set by cargo"));
    write_contract(&repository.join("contract"), &folder.join("contract"));
    let output = folder.join("runtime.elf");
    let mut sources = Vec::new();
    for floor in FLOORS {
        let folder = root.join(floor);
        for entry in std::fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        {
            let path = entry.expect("readable").path();
            if path.extension().is_some_and(|extension| extension == "c" || extension == "S") {
                sources.push(path);
            }
        }
    }
    sources.sort();
    let compiler = std::env::var("CC").unwrap_or_else(|_| "gcc".to_owned());
    let objects = compile(&compiler, &root, &folder, &sources);
    let mut link = Command::new(&compiler);
    link.args(FLAGS).arg(format!("-Wl,-T,{}", root.join("link.ld").display()));
    run(link.arg("-o").arg(&output).args(&objects));
    write_text(&output, &folder);
    println!("cargo:rerun-if-changed={}", root.display());
    println!("cargo:rerun-if-env-changed=CC");
}

/// Writes the runtime's text, which is the executable's only loadable segment, and its hash. All
/// else in the executable depends on the folder in which it was built.
fn write_text(executable: &Path, folder: &Path) {
    let bytes = std::fs::read(executable).expect("written by the linker");
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let table = word(32) as usize; // e_phoff
    let (offset, size) = (word(table + 8) as usize, word(table + 32) as usize);
    let text = &bytes[offset..offset + size];
    std::fs::write(folder.join("runtime.text"), text).expect("a folder of our own");
    let hash = blake3::hash(text).to_hex();
    std::fs::write(folder.join("runtime.hash"), hash.as_str()).expect("a folder of our own");
}

/// Compiles each source separately, in parallel. A test reads the calls between files from the
/// objects.
fn compile(compiler: &str, root: &Path, folder: &Path, sources: &[PathBuf]) -> Vec<PathBuf> {
    let target = folder.join("objects");
    let _ = std::fs::remove_dir_all(&target);
    std::fs::create_dir_all(&target).expect("a folder of our own");
    println!("cargo:rustc-env=RETAKE_RUNTIME_OBJECTS={}", target.display());
    let object = |source: &PathBuf| {
        let path = source.strip_prefix(root).expect("below it").to_string_lossy().into_owned();
        target.join(format!("{}.o", path.replace('/', ":")))
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for share in 0..workers {
            scope.spawn(move || {
                for source in sources.iter().skip(share).step_by(workers) {
                    let mut command = Command::new(compiler);
                    command.args(FLAGS).arg("-I").arg(folder).arg("-I").arg(root).arg("-c");
                    run(command.arg("-o").arg(object(source)).arg(source));
                }
            });
        }
    });
    sources.iter().map(object).collect()
}

fn run(command: &mut Command) {
    let status = command.status().unwrap_or_else(|error| {
        panic!("the runtime needs a C compiler: cannot run {command:?}: {error}")
    });
    assert!(status.success(), "the runtime does not compile");
}

/// Writes the C headers of the contract.
fn write_contract(source: &Path, target: &Path) {
    println!("cargo:rerun-if-changed={}", source.display());
    println!("cargo:rerun-if-env-changed={}", retake_contract_gen::SCRAMBLE);
    let contract = retake_contract_gen::read(source).unwrap_or_else(|error| panic!("{error}"));
    let headers = retake_contract_gen::c(&contract).unwrap_or_else(|error| panic!("{error}"));
    std::fs::create_dir_all(target).expect("a folder of our own");
    for (name, text) in headers {
        std::fs::write(target.join(name), text).expect("a folder of our own");
    }
}
