//! Runs patched code. A library made for the purpose is put into memory with its image over it. A
//! stand-in for the runtime, at the runtime's address, answers the stubs.

mod common;

use common::check_image;
use object::{Object, ObjectSegment, ObjectSymbol};
use retake_contract::context::context;
use retake_patch::{Image, Options, Placement, RUNTIME_TEXT, Refusal, SiteKind, build_image};
use retake_testing::c::compiler;
use std::collections::HashMap;
use std::ffi::c_void;
use std::path::Path;
use std::process::Command;

/// The functions under test, each with its own form of site, and the stand-in as data.
const SOURCE: &str = include_str!("common/execution.s");

/// `arch_prctl` sub-function that sets the base of `%gs`.
const ARCH_SET_GS: libc::c_long = 0x1001;

fn compile() -> Vec<u8> {
    let folder =
        std::env::temp_dir().join(format!("retake-patch-execution-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let (source, library) = (folder.join("code.s"), folder.join("code.so"));
    std::fs::write(&source, SOURCE).expect("written");
    let status = Command::new(compiler())
        .args(["-shared", "-nostdlib", "-Wl,-Bsymbolic", "-o"])
        .arg(&library)
        .arg(&source)
        .status();
    assert!(status.expect("gcc runs").success());
    let bytes = std::fs::read(&library).expect("just compiled");
    std::fs::remove_dir_all(Path::new(&folder)).expect("removed");
    bytes
}

/// Maps new memory for code, at a fixed address unless `address` is 0.
fn map(address: u64, bytes: usize) -> *mut u8 {
    let fixed = if address == 0 { 0 } else { libc::MAP_FIXED_NOREPLACE };
    let protection = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    // SAFETY: a new anonymous mapping, which replaces nothing (MAP_FIXED_NOREPLACE).
    let mapped = unsafe {
        libc::mmap(
            address as *mut c_void,
            bytes,
            protection,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | fixed,
            -1,
            0,
        )
    };
    assert_ne!(mapped, libc::MAP_FAILED);
    mapped.cast()
}

/// Puts the library, its image and its stubs into memory. Returns the address of link-time address
/// 0.
fn load(library: &object::File, image: &Image, placement: Placement) -> u64 {
    let span = (image.high - image.low) as usize;
    let base = map(0, span + 2 * image.stubs.len());
    let gap = if placement == Placement::Before { image.stubs.len() as u64 } else { 0 };
    let bias = (base as u64 + gap).wrapping_sub(image.low);
    let write = |address: u64, bytes: &[u8]| {
        let to = bias.wrapping_add(address) as *mut u8;
        // SAFETY: segments and stubs lie inside the area mapped above, by the checks that every
        // image passes.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    };
    for segment in library.segments() {
        write(segment.address(), segment.data().expect("segment data"));
    }
    for segment in &image.segments {
        write(segment.address, &segment.bytes);
    }
    write(image.stub_address, &image.stubs);
    bias
}

struct Loaded {
    bias: u64,
    symbols: HashMap<String, u64>,
}

impl Loaded {
    /// Calls a function with three arguments.
    fn call(&self, name: &str, arguments: [u64; 3]) -> u64 {
        let address = self.bias.wrapping_add(self.symbols[name]);
        // SAFETY: the symbol is a function written above, following the C calling convention.
        let function: extern "C" fn(u64, u64, u64) -> u64 =
            unsafe { std::mem::transmute(address as *const ()) };
        function(arguments[0], arguments[1], arguments[2])
    }
}

/// Puts the stand-in where stubs expect the runtime.
fn install_stand_in(library: &object::File, symbols: &HashMap<String, u64>) {
    let (start, end) = (symbols["stand_in"], symbols["stand_in_end"]);
    let segment = library
        .segments()
        .find(|segment| (segment.address()..segment.address() + segment.size()).contains(&start));
    let segment = segment.expect("the stand-in is in a segment");
    let at = (start - segment.address()) as usize;
    let code = &segment.data().expect("segment data")[at..at + (end - start) as usize];
    let place = map(RUNTIME_TEXT, 4096);
    // SAFETY: the stand-in is far smaller than the page just mapped.
    unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), place, code.len()) };
}

/// The number of system calls that came through stubs.
fn entries() -> u64 {
    // SAFETY: the stand-in is mapped for the rest of the process, and its counter is at this
    // offset.
    unsafe { ((RUNTIME_TEXT + 0x40) as *const u64).read_volatile() }
}

/// The numbers of sections that began and ended.
fn sections() -> (u64, u64) {
    // SAFETY: as for the counter of system calls, behind which these are.
    unsafe {
        (
            ((RUNTIME_TEXT + 0x48) as *const u64).read_volatile(),
            ((RUNTIME_TEXT + 0x50) as *const u64).read_volatile(),
        )
    }
}

/// Sets whether a compare-and-exchange is skipped as if it had failed.
fn set_fails(fails: bool) {
    // SAFETY: as for the counters.
    unsafe { ((RUNTIME_TEXT + 0x60) as *mut u64).write_volatile(u64::from(fails)) };
}

/// Puts valid memory, of zeros, where stubs expect the context of this thread.
fn give_scratch() -> *mut u64 {
    let scratch = Box::leak(Box::new([0_u64; 0x1000]));
    // SAFETY: %gs is used by nothing else in a 64-bit process, and the scratch memory is never
    // freed.
    let result = unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_SET_GS, scratch.as_mut_ptr()) };
    assert_eq!(result, 0);
    scratch.as_mut_ptr()
}

fn check(loaded: &Loaded) {
    let pid = u64::from(std::process::id());
    let before = entries();
    for name in ["plain", "wide", "relative"] {
        assert_eq!(loaded.call(name, [0; 3]), pid, "{name}");
    }
    let no_descriptor = u64::MAX;
    let bad_descriptor = -i64::from(libc::EBADF) as u64;
    assert_eq!(loaded.call("conditional", [no_descriptor, 0, 0]), bad_descriptor);
    assert_eq!(loaded.call("padded", [no_descriptor, 0, 0]), bad_descriptor);
    assert_eq!(entries() - before, 5, "every call came through its stub");
    assert_eq!(loaded.call("counter_after", [0; 3]), 0x2_0000_1000 + 99);
    assert_eq!(loaded.call("counter_before", [0; 3]), 0x1000 + 39);
    assert_eq!(loaded.call("counter_pair", [0; 3]), 42);
    assert_eq!(loaded.call("identify", [0; 3]), 100 + 7 + 1000);
}

/// Functions that spin count their rounds. They enter the runtime while the count's highest byte
/// is not 0.
fn check_spins(loaded: &Loaded, scratch: *mut u64) {
    // SAFETY: the field is in the memory made for it, and the counter is behind those of sections.
    let (rounds, looks) =
        unsafe { (scratch.add(context::ROUNDS as usize / 8), (RUNTIME_TEXT + 0x68) as *const u64) };
    // SAFETY: as above.
    let (count, entered) =
        (|| unsafe { rounds.read_volatile() }, || unsafe { looks.read_volatile() });
    let word = 1_u32;
    let before = (count(), entered());
    assert_eq!(loaded.call("spin_pause", [10, 0, 0]), 10);
    assert_eq!(loaded.call("spin_look", [&raw const word as u64, 0, 0]), 1);
    assert_eq!((count(), entered()), (before.0 + 11, before.1));
    // SAFETY: as above.
    unsafe { rounds.write_volatile((1 << 56) - 7) };
    assert_eq!(loaded.call("spin_pause", [10, 0, 0]), 10);
    assert_eq!(loaded.call("spin_look", [&raw const word as u64, 0, 0]), 1);
    assert_eq!((count(), entered()), ((1 << 56) + 4, before.1 + 5));
    // SAFETY: as above.
    unsafe { rounds.write_volatile(0) };
}

/// Calls functions with sections. Each must begin and end as many sections as expected.
fn check_sections(loaded: &Loaded) {
    let mut word = 10_u64;
    let pointer = &raw mut word as u64;
    let calls = [
        ("pthread_mutex_lock", [pointer, 0, 0], 13, 1),
        ("pthread_tail", [9, 0, 0], 1009, 1),
        ("pthread_tail", [4, 0, 0], 1005, 1),
        ("pthread_tail", [2, 0, 0], 77, 1),
        ("pthread_bare", [0, 0, 0], 39, 1),
        ("pthread_bare", [1, 0, 0], 5, 1),
        ("pthread_bare", [2, 0, 0], 6, 1),
        ("pthread_split", [1, 2, 0], 10, 1),
        ("pthread_split", [0, 2, 0], 109, 1),
        ("pthread_split", [0, 4, 0], 4, 1),
        ("atomic_add", [pointer, 100, 0], 113, 1),
        ("atomic_skip", [pointer, 0, 0], 1, 1),
        ("atomic_skip", [pointer, 1, 0], 1, 1),
        ("atomic_short", [pointer, 50, 0], 21, 1),
    ];
    for (name, arguments, result, count) in calls {
        let before = sections();
        assert_eq!(loaded.call(name, arguments), result, "{name} {arguments:x?}");
        let after = sections();
        assert_eq!(
            (after.0 - before.0, after.1 - before.1),
            (count, count),
            "{name} {arguments:x?}"
        );
    }
    set_fails(true);
    for taken in [0, 1] {
        assert_eq!(loaded.call("atomic_skip", [pointer, taken, 0]), 0, "left out");
    }
    set_fails(false);
    // SAFETY: the word lives until the end of this function; the calls above have written to it.
    assert_eq!(unsafe { (&raw const word).read_volatile() }, 50);
}

#[test]
fn patched_code_runs() {
    let bytes = compile();
    let library = object::File::parse(&*bytes).expect("a library");
    let symbols: HashMap<_, _> = library
        .dynamic_symbols()
        .filter_map(|symbol| Some((symbol.name().ok()?.to_owned(), symbol.address())))
        .collect();
    install_stand_in(&library, &symbols);
    let scratch = give_scratch();
    for (placement, sections) in [
        (Placement::After, false),
        (Placement::Before, false),
        (Placement::After, true),
        (Placement::Before, true),
    ] {
        let options = Options { sections, ..Options::default() };
        let image =
            build_image(&bytes, placement, &options).expect("well formed").expect("patched");
        check_image(&bytes, &image, placement);
        let count = |kind| image.sites.iter().filter(|site| site.kind == kind).count();
        assert_eq!(SiteKind::REPLACED.map(count), [5, 2, 1, 1]);
        assert!(image.sites.iter().any(|site| site.pad_address.is_some()));
        let loaded = Loaded { bias: load(&library, &image, placement), symbols: symbols.clone() };
        check(&loaded);
        if sections {
            assert_eq!(count(SiteKind::Atomic), 3, "{:x?}", image.refused);
            assert_eq!(count(SiteKind::SectionBegin), 4, "{:x?}", image.refused);
            check_sections(&loaded);
        } else {
            assert_eq!(count(SiteKind::Spin), 2, "{:x?}", image.refused);
            check_spins(&loaded, scratch);
        }
        let expected = if sections { 3 } else { 0 };
        assert_eq!(image.refused.len(), expected, "{:?}", image.refused);
        assert!(image.refused.iter().all(|site| site.reason == Refusal::IndirectCall));
    }
}
