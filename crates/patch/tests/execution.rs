//! Runs patched code: a library made for the purpose is laid out in memory with its image over it, and a stand-in for the runtime at the
//! runtime's address answers what the stubs ask.

use object::{Object, ObjectSegment, ObjectSymbol};
use retake_patch::{Image, Options, Placement, RUNTIME_TEXT, SiteKind, build_image};
use std::collections::HashMap;
use std::ffi::c_void;
use std::path::Path;
use std::process::Command;

/// The functions under test, each with its own shape of site, and the stand-in as data.
const SOURCE: &str = r#"
    .macro function name
    .p2align 4
    .globl \name
    .type \name, @function
\name:
    .endm
    .macro done name
    .size \name, .-\name
    .endm
    .text
    function plain              # the usual pair
    mov $39, %eax
    syscall
    ret
    done plain
    function wide               # a 7-byte mov: the jump, then two bytes of int3
    mov $39, %rax
    syscall
    ret
    done wide
    function conditional        # like read() of glibc
    cmpb $0, flag(%rip)
    je 1f
    xor %eax, %eax
    syscall
    ret
1:  mov $0x7777, %eax
    ret
    done conditional
    function padded             # by way of padding
    xor %eax, %eax
    syscall
    ret
    done padded
    function relative           # a displaced instruction with an address relative to itself
    mov number(%rip), %eax
    syscall
    ret
    done relative
    function counter_after      # displaced after the site
    mov $99, %ecx
    jmp 2f
    .p2align 4
2:  rdtsc
    shl $32, %rdx
    or %rdx, %rax
    add %rcx, %rax
    ret
    done counter_after
    function counter_before     # displaced before it
    mov number(%rip), %esi
    rdtsc
    add %rsi, %rax
    ret
    done counter_before
    function counter_pair
    mov $5, %ecx
    rdtscp
    mov %ecx, %eax
    ret
    done counter_pair
    function identify           # between pushes
    push %rbx
    xor %ecx, %ecx
    mov $7, %eax
    cpuid
    lea (%rbx,%rcx), %eax
    pop %rbx
    ret
    done identify
    .section .rodata
    .p2align 4
number: .long 39
flag:   .byte 1
    .p2align 4
    .globl stand_in
    .globl stand_in_end
stand_in:
    jmp call
    .org stand_in + 0x10
    jmp counter
    .org stand_in + 0x20
    jmp counter_and_core
    .org stand_in + 0x30
    jmp features
    .org stand_in + 0x40
entries: .quad 0
saved:  .quad 0
call:
    incq entries(%rip)
    mov %rcx, saved(%rip)
    syscall
    jmp *saved(%rip)
counter:
    mov %rcx, saved(%rip)
    mov $0x1000, %eax
    mov $2, %edx
    mov %gs:0x10, %rcx
    jmp *saved(%rip)
counter_and_core:
    mov %rcx, saved(%rip)
    mov $0x1000, %eax
    mov $2, %edx
    mov $42, %ecx
    jmp *saved(%rip)
features:
    mov %rcx, saved(%rip)
    mov %gs:0x10, %rcx
    lea 100(%rax,%rcx), %rbx
    mov $1000, %ecx
    jmp *saved(%rip)
stand_in_end:
"#;

/// `arch_prctl` sub-function that sets the base of `%gs`.
const ARCH_SET_GS: libc::c_long = 0x1001;

fn compile() -> Option<Vec<u8>> {
    let folder = std::env::temp_dir().join(format!("retake-patch-execution-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let (source, library) = (folder.join("code.s"), folder.join("code.so"));
    std::fs::write(&source, SOURCE).expect("written");
    let status = Command::new("gcc").args(["-shared", "-nostdlib", "-Wl,-Bsymbolic", "-o"]).arg(&library).arg(&source).status();
    let compiled = status.is_ok_and(|status| status.success());
    let bytes = compiled.then(|| std::fs::read(&library).expect("just compiled"));
    std::fs::remove_dir_all(Path::new(&folder)).expect("removed");
    bytes
}

/// Maps fresh memory for code; at a fixed address unless that is zero.
fn map(address: u64, bytes: usize) -> *mut u8 {
    let fixed = if address == 0 { 0 } else { libc::MAP_FIXED_NOREPLACE };
    let protection = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    // SAFETY: a new anonymous mapping, which replaces nothing (MAP_FIXED_NOREPLACE).
    let mapped = unsafe { libc::mmap(address as *mut c_void, bytes, protection, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | fixed, -1, 0) };
    assert_ne!(mapped, libc::MAP_FAILED);
    mapped.cast()
}

/// Lays out the library, its image and its stubs; returns the address that stands for link-time address 0.
fn load(library: &object::File, image: &Image, placement: Placement) -> u64 {
    let span = (image.high - image.low) as usize;
    let base = map(0, span + 2 * image.stubs.len());
    let gap = if placement == Placement::Before { image.stubs.len() as u64 } else { 0 };
    let bias = (base as u64 + gap).wrapping_sub(image.low);
    let write = |address: u64, bytes: &[u8]| {
        let to = bias.wrapping_add(address) as *mut u8;
        // SAFETY: segments and stubs lie inside the area mapped above, by the checks that every image passes.
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
        let function: extern "C" fn(u64, u64, u64) -> u64 = unsafe { std::mem::transmute(address as *const ()) };
        function(arguments[0], arguments[1], arguments[2])
    }
}

/// Puts the stand-in where stubs expect the runtime.
fn install_stand_in(library: &object::File, symbols: &HashMap<String, u64>) {
    let (start, end) = (symbols["stand_in"], symbols["stand_in_end"]);
    let segment = library.segments().find(|segment| (segment.address()..segment.address() + segment.size()).contains(&start));
    let segment = segment.expect("the stand-in is in a segment");
    let at = (start - segment.address()) as usize;
    let code = &segment.data().expect("segment data")[at..at + (end - start) as usize];
    let place = map(RUNTIME_TEXT, 4096);
    // SAFETY: the stand-in is far smaller than the page just mapped.
    unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), place, code.len()) };
}

/// How many system calls came through stubs.
fn entries() -> u64 {
    // SAFETY: the stand-in is mapped for the rest of the process, and its counter is at this offset.
    unsafe { ((RUNTIME_TEXT + 0x40) as *const u64).read_volatile() }
}

/// Gives `%gs:0x10` of this thread a place.
fn give_scratch() {
    let scratch = Box::leak(Box::new([0_u64; 8]));
    // SAFETY: %gs is used by nothing else in a 64-bit process, and the scratch memory is never freed.
    let result = unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_SET_GS, scratch.as_mut_ptr()) };
    assert_eq!(result, 0);
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

#[test]
fn patched_code_runs() {
    let Some(bytes) = compile() else {
        println!("skipped: no assembler");
        return;
    };
    let library = object::File::parse(&*bytes).expect("a library");
    let symbols: HashMap<_, _> = library.dynamic_symbols().filter_map(|symbol| Some((symbol.name().ok()?.to_owned(), symbol.address()))).collect();
    install_stand_in(&library, &symbols);
    give_scratch();
    for placement in [Placement::After, Placement::Before] {
        let image = build_image(&bytes, placement, &Options::default()).expect("well formed").expect("patched");
        assert!(image.refused.is_empty(), "{:?}", image.refused);
        let count = |kind| image.sites.iter().filter(|site| site.kind == kind).count();
        assert_eq!(SiteKind::ALL.map(count), [5, 2, 1, 1]);
        assert!(image.sites.iter().any(|site| site.pad_address.is_some()));
        let bias = load(&library, &image, placement);
        check(&Loaded { bias, symbols: symbols.clone() });
    }
}
