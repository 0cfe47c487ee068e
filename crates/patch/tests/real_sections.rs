//! Sections in the C library of this machine.

mod common;

use common::{check_image, print_counts};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};
use object::{Object, ObjectSymbol};
use retake_patch::{Image, Options, Placement, SiteKind, build_image, examine, is_missed};
use retake_testing::c::compiler;
use retake_testing::report::{self, Cause};
use std::path::{Path, PathBuf};
use std::process::Command;

const LIBRARIES: [&str; 3] =
    ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6", "/usr/lib/libc.so.6"];

/// Prefixes of the names of functions that must be sections.
const SECTIONS: [&str; 23] = [
    "pthread_mutex_lock",
    "pthread_mutex_trylock",
    "pthread_mutex_timedlock",
    "pthread_mutex_unlock",
    "pthread_cond_wait",
    "pthread_cond_timedwait",
    "pthread_cond_signal",
    "pthread_cond_broadcast",
    "pthread_barrier_wait",
    "pthread_create",
    "pthread_join",
    "pthread_detach",
    "pthread_rwlock_rdlock",
    "pthread_rwlock_wrlock",
    "pthread_rwlock_unlock",
    "pthread_once",
    "sem_wait",
    "sem_post",
    "malloc",
    "free",
    "calloc",
    "realloc",
    "__lll_lock_wait",
];

fn with_sections(bytes: &[u8]) -> Image {
    let options = Options { sections: true, ..Options::default() };
    let verdict = examine(bytes, Placement::After, &options).expect("well formed");
    print_counts("with sections", &verdict);
    let image = verdict.into_image().expect("patched");
    check_image(bytes, &image, Placement::After);
    image
}

fn kind_at(image: &Image, address: u64) -> Option<SiteKind> {
    image.sites.iter().find(|site| site.address == address).map(|site| site.kind)
}

/// Whether a function begins a section, and each of its returns ends one. A function that only
/// jumps to another one leaves this to it.
fn is_section(bytes: &[u8], image: &Image, start: u64, length: u64) -> bool {
    let segment = image
        .segments
        .iter()
        .find(|segment| start.wrapping_sub(segment.address) < segment.bytes.len() as u64)
        .expect("text");
    let at = (segment.file_offset + (start - segment.address)) as usize;
    let code: Vec<_> =
        Decoder::with_ip(64, &bytes[at..at + length as usize], start, DecoderOptions::NONE)
            .into_iter()
            .collect();
    let leaves = |instruction: &&Instruction| instruction.flow_control() != FlowControl::Next;
    if let Some(jump) = code
        .iter()
        .find(leaves)
        .filter(|first| first.flow_control() == FlowControl::UnconditionalBranch)
    {
        return kind_at(image, jump.near_branch_target()) == Some(SiteKind::SectionBegin);
    }
    let mut returns =
        code.iter().filter(|instruction| instruction.flow_control() == FlowControl::Return);
    kind_at(image, start) == Some(SiteKind::SectionBegin)
        && returns.all(|ret| kind_at(image, ret.ip()) == Some(SiteKind::SectionEnd))
}

#[test]
fn c_library() {
    let path =
        LIBRARIES.map(Path::new).into_iter().find(|path| path.exists()).expect("a C library");
    let bytes = std::fs::read(path).expect("readable");
    let image = with_sections(&bytes);
    let library = object::File::parse(&*bytes).expect("a library");
    let mut found = 0;
    for symbol in library
        .dynamic_symbols()
        .filter(|symbol| SECTIONS.contains(&symbol.name().unwrap_or_default()))
    {
        let name = symbol.name().expect("just compared");
        assert!(
            is_section(&bytes, &image, symbol.address(), symbol.size()),
            "{name} at {:#x}",
            symbol.address()
        );
        found += 1;
    }
    assert!(found >= SECTIONS.len() - 4, "{found}");
    // Each access to a spin lock is an operation, because a waiting thread reads the lock again and
    // again.
    let spin = [("pthread_spin_lock", 2), ("pthread_spin_trylock", 1), ("pthread_spin_unlock", 1)];
    for (name, accesses) in spin {
        let symbol = library.dynamic_symbols().find(|symbol| symbol.name() == Ok(name));
        let symbol = symbol.expect("GNU C library");
        let range = symbol.address()..symbol.address() + symbol.size();
        let inside = image.sites.iter().filter(|site| range.contains(&site.address));
        let atomic = inside.filter(|site| site.kind == SiteKind::Atomic).count();
        assert_eq!(atomic, accesses, "{name}");
    }
    let never = library.dynamic_symbols().filter(|symbol| {
        matches!(symbol.name(), Ok("pthread_self" | "pthread_getspecific" | "pthread_spin_lock"))
    });
    assert!(
        never
            .into_iter()
            .all(|symbol| kind_at(&image, symbol.address()) != Some(SiteKind::SectionBegin))
    );
    let refused = image.refused.iter().filter(|site| site.kind == SiteKind::Atomic).count();
    assert!(refused <= 5, "{refused} atomic instructions refused");
}

/// `mov %fs:0x10,%rcx`: a stub has it if it tells the runtime a word of the calling thread.
const LOAD_SELF: [u8; 9] = [0x64, 0x48, 0x8b, 0x0c, 0x25, 0x10, 0, 0, 0];

/// Functions that check whether their thread is cancelled are ordered by a word of the thread. So
/// are the functions without a name around each call that is a cancellation point.
#[test]
fn cancellation_points() {
    let path =
        LIBRARIES.map(Path::new).into_iter().find(|path| path.exists()).expect("a C library");
    let bytes = std::fs::read(path).expect("readable");
    let image = with_sections(&bytes);
    let library = object::File::parse(&*bytes).expect("a library");
    let own: Vec<u64> = image
        .sites
        .iter()
        .filter(|site| site.kind == SiteKind::SectionBegin)
        .filter(|site| {
            let stub = &image.stubs[site.stub.offset as usize..][..site.stub.length as usize];
            stub.windows(LOAD_SELF.len()).any(|bytes| bytes == LOAD_SELF)
        })
        .map(|site| site.address)
        .collect();
    let named =
        |address: &u64| library.dynamic_symbols().any(|symbol| symbol.address() == *address);
    let looks = library.dynamic_symbols().find(|symbol| symbol.name() == Ok("pthread_testcancel"));
    assert!(own.contains(&looks.expect("GNU C library").address()), "{own:x?}");
    assert!(own.iter().filter(|address| !named(address)).count() >= 2, "{own:x?}");
}

#[test]
fn dynamic_linker() {
    let bytes = std::fs::read("/lib64/ld-linux-x86-64.so.2").expect("the dynamic linker");
    let sections = Options { sections: true, ..Options::default() };
    let images = [Options::default(), sections]
        .map(|options| build_image(&bytes, Placement::After, &options));
    assert!(images[0] == images[1], "it has none");
}

/// Calls of other files' functions are reported while their slots are unbound, unless the dynamic
/// linker binds them when it loads the file.
#[test]
fn functions_of_other_files() {
    let folder = std::env::temp_dir().join(format!("retake-patch-lazy-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let (source, library) = (folder.join("lazy.c"), folder.join("lazy.so"));
    std::fs::write(&source, "int g(int), h(int); int f(int a) { return g(a) + h(a) + h(1); }\n")
        .expect("written");
    let bindings = |how: &str| {
        let mut command = Command::new(compiler());
        command.args(["-shared", "-fpic", "-O1", how, "-o"]).arg(&library).arg(&source);
        assert!(command.status().expect("gcc runs").success());
        let bytes = std::fs::read(&library).expect("just linked");
        let verdict =
            examine(&bytes, Placement::After, &Options { sections: true, ..Options::default() });
        let image = verdict.expect("well formed").into_image();
        image.map_or(0, |image| {
            image.sites.iter().filter(|site| site.kind == SiteKind::Binding).count()
        })
    };
    let counts = ["-Wl,-z,lazy", "-Wl,-z,now", "-fno-plt"].map(bindings);
    std::fs::remove_dir_all(&folder).expect("removed");
    assert!(counts[0] >= 2 && counts[0] <= 3 && counts[1..] == [0, 0], "{counts:?}");
}

/// Builds a program that contains a C library.
fn static_program(folder: &Path) -> Vec<u8> {
    let (source, program): (PathBuf, PathBuf) = (folder.join("main.c"), folder.join("main"));
    let text = "#include <pthread.h>\n#include <stdlib.h>\nstatic int count;\nstatic void \
    *run(void *a) { __atomic_add_fetch(&count, 1, 5); return a; }\n\
        int main(void) { pthread_t t; pthread_create(&t, 0, run, 0); pthread_join(t, 0); free(malloc(count)); return count; }\n";
    std::fs::write(&source, text).expect("written");
    let status =
        Command::new(compiler()).args(["-static", "-O1", "-o"]).arg(&program).arg(&source).status();
    assert!(status.expect("gcc runs").success());
    std::fs::read(&program).expect("just linked")
}

#[test]
fn static_programs() {
    let folder = std::env::temp_dir().join(format!("retake-patch-static-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let bytes = static_program(&folder);
    std::fs::remove_dir_all(&folder).expect("removed");
    let image = with_sections(&bytes);
    let program = object::File::parse(&*bytes).expect("a program");
    for name in ["pthread_create", "pthread_join", "malloc", "free", "__pthread_mutex_lock"] {
        let symbol = program.symbols().find(|symbol| symbol.name() == Ok(name));
        let Some(symbol) = symbol else { panic!("{name} is not linked") };
        assert!(is_section(&bytes, &image, symbol.address(), symbol.size()), "{name}");
    }
    // It changes a list that `malloc` looks at without the list's lock.
    let end = "__malloc_arena_thread_freeres";
    if let Some(symbol) = program.symbols().find(|symbol| symbol.name() == Ok(end)) {
        assert!(is_section(&bytes, &image, symbol.address(), symbol.size()), "{end}");
    }
    let run = program.symbols().find(|symbol| symbol.name() == Ok("run")).expect("linked");
    let own = run.address()..run.address() + run.size();
    assert!(
        image.sites.iter().any(|site| site.kind == SiteKind::Atomic && own.contains(&site.address))
    );
}

/// The GNU OpenMP library synchronises its threads by plain accesses, too: each access that is not
/// to the stack is an operation.
#[test]
fn openmp_library() {
    let compiler = Command::new(compiler()).arg("-print-file-name=libgomp.so.1").output();
    let path = String::from_utf8(compiler.expect("a compiler").stdout).expect("a path");
    let Ok(bytes) = std::fs::read(path.trim()) else {
        report::skip(Cause::NotInstalled, "the GNU OpenMP library is not installed");
        return;
    };
    let image = with_sections(&bytes);
    let operations = image.sites.iter().filter(|site| site.kind == SiteKind::Atomic).count();
    let refused = image.refused.iter().filter(|site| site.kind == SiteKind::Atomic).count();
    assert!(operations > 4000 && refused < operations / 400, "{operations}, {refused} refused");
    assert!(!image.refused.iter().any(|site| is_missed(&bytes, site)), "{:?}", image.refused);
}
