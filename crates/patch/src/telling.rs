//! Whether a file tells everything by which its threads synchronise. If so, they can be recorded in
//! parallel and replayed exactly.

use crate::atomic::is_atomic;
use crate::chunk::Chunk;
use crate::declared::{DECLARED_SECTION, is_plain};
use crate::elf::ElfView;
use crate::functions::{Functions, find_functions};
use crate::image::{RefusedSite, SiteKind};
use crate::sections;
use iced_x86::{Decoder, DecoderOptions};
use object::LittleEndian;
use object::elf::FileHeader64;
use object::read::ReadCache;
use object::read::elf::FileHeader;
use std::collections::BTreeSet;
use std::fs::File;

/// Libraries of the system whose threads synchronise only by locked instructions and by the C
/// library, by their sonames.
const KNOWN: [&[u8]; 10] = [
    b"ld-linux-x86-64.so.2",
    b"libc.so.6",
    b"libm.so.6",
    b"libdl.so.2",
    b"libpthread.so.0",
    b"librt.so.1",
    b"libresolv.so.2",
    b"libgcc_s.so.1",
    b"libstdc++.so.6",
    b"libgomp.so.1", // by plain accesses, too, which are operations (`PLAIN` in `declared.rs`)
];

/// Functions that the linker adds to every file. They run while there is only one thread.
const ADDED: [&[u8]; 11] = [
    b"_start",
    b"_dl_relocate_static_pie",
    b"deregister_tm_clones",
    b"register_tm_clones",
    b"__do_global_dtors_aux",
    b"frame_dummy",
    b"atexit",
    b"at_quick_exit",
    b"pthread_atfork",
    b"__pthread_atfork",
    b"__stack_chk_fail_local",
];

/// Sections that the linker makes.
const STUBS: [&[u8]; 5] = [b".plt", b".plt.got", b".plt.sec", b".init", b".fini"];

/// Prefixes of the names of functions that synchronise or start threads.
const OF_THREADS: [&[u8]; 9] = [
    b"pthread_",
    b"__pthread_",
    b"sem_",
    b"mtx_",
    b"cnd_",
    b"thrd_",
    b"call_once",
    b"syscall",
    b"__cxa_guard_",
];

/// Whether a compiler declared anything about a file's code. Only its headers are read.
pub fn is_declared(file: &File) -> bool {
    let data = ReadCache::new(file);
    let has_section = || -> object::Result<bool> {
        let header = FileHeader64::<LittleEndian>::parse(&data)?;
        let sections = header.sections(LittleEndian, &data)?;
        let section = sections.section_by_name(LittleEndian, DECLARED_SECTION.as_bytes());
        Ok(section.is_some())
    };
    has_section().unwrap_or(false)
}

/// Functions that request mutexes to which the kernel writes, too. The kernel's writes are outside
/// all operations.
const OF_KERNEL: [&[u8]; 3] = [
    b"pthread_mutexattr_setprotocol",
    b"pthread_mutexattr_setrobust",
    b"pthread_mutexattr_setrobust_np",
];

/// Prefixes of functions that make locales other than the classic one. Threads that use such a
/// locale for the first time find its caches by plain loads.
const OF_LOCALES: [&[u8]; 2] = [b"_ZNSt6localeC", b"_ZNSt6locale5_Impl"];
/// Exceptions: the default constructors and the copy constructors.
const NOT_OF_LOCALES: [&[u8]; 4] =
    [b"_ZNSt6localeC1Ev", b"_ZNSt6localeC2Ev", b"_ZNSt6localeC1ERKS_", b"_ZNSt6localeC2ERKS_"];

/// Whether a file tells everything: a compiler declared which instructions of each function
/// synchronise (docs/COMPILER.md), or it is a known library of the system, or it does not use
/// threads. A file that is no program tells nothing.
pub fn tells_all(file: &[u8]) -> bool {
    let Ok(elf) = ElfView::parse(file) else { return false };
    if is_known(&elf) {
        return true;
    }
    let functions = find_functions(&elf, &[]);
    if asks_for_more(&elf) {
        return false;
    }
    all_are_declared(&elf, &functions) || knows_no_threads(&elf, &functions)
}

/// Whether threads may synchronise by an instruction that could not be patched. In a library all of
/// whose accesses are operations, most are in order anyway, because a lock is held or a barrier
/// comes between. So only its locked instructions count: a few of its accesses have no room for a
/// jump.
pub fn is_missed(file: &[u8], site: &RefusedSite) -> bool {
    let Ok(elf) = ElfView::parse(file) else { return true };
    let is_locked = || {
        let bytes = elf.bytes_from(site.address);
        is_atomic(&Decoder::with_ip(64, bytes, site.address, DecoderOptions::NONE).decode())
    };
    site.kind == SiteKind::Atomic && (!is_plain(&elf) || is_locked())
}

/// Whether a file is a library that uses no function for threads and has no atomic instruction. Its
/// callers must order its accesses to memory that several threads share.
fn knows_no_threads(elf: &ElfView, functions: &Functions) -> bool {
    let Some(strings) = elf.section(b".dynstr") else { return false };
    let mut names = strings.bytes.split(|byte| *byte == 0);
    let is_library = elf.soname().is_some();
    is_library
        && functions.known
        && !names.any(|name| OF_THREADS.iter().any(|prefix| name.starts_with(prefix)))
        && sections::find(elf, functions).atomics.is_empty()
}

/// Whether a file imports a function that no declaration orders.
fn asks_for_more(elf: &ElfView) -> bool {
    let Some(strings) = elf.section(b".dynstr") else { return false };
    strings.bytes.split(|byte| *byte == 0).any(|name| {
        let of_locales = OF_LOCALES.iter().any(|prefix| name.starts_with(prefix));
        OF_KERNEL.contains(&name) || of_locales && !NOT_OF_LOCALES.contains(&name)
    })
}

fn is_known(elf: &ElfView) -> bool {
    elf.soname().is_some_and(|name| KNOWN.contains(&name))
}

fn all_are_declared(elf: &ElfView, functions: &Functions) -> bool {
    let added: BTreeSet<u64> = elf
        .function_symbols()
        .iter()
        .filter(|symbol| ADDED.contains(&symbol.name))
        .map(|symbol| symbol.address)
        .chain([elf.entry])
        .collect();
    let stubs: Vec<_> = STUBS.iter().filter_map(|name| elf.section(name)).collect();
    let is_stub = |chunk: &Chunk| {
        stubs
            .iter()
            .any(|section| chunk.start.wrapping_sub(section.address) < section.bytes.len() as u64)
    };
    let tells =
        |chunk: &Chunk| functions.declared.is_function(chunk.start) || added.contains(&chunk.start);
    functions.known
        && functions.declared.has_functions()
        && functions.chunks.iter().all(|chunk| tells(chunk) || is_stub(chunk))
}
