//! Turning the functions of the vDSO into system calls, which the runtime sees.
//!
//! The vDSO reads clocks and processor numbers without entering the kernel, so without anyone noticing. Each function's start is replaced by a jump to the
//! runtime's system-call entry with the number of the call it stands for; the runtime returns to the `ret` behind it. `getrandom` keeps state
//! in memory that only the kernel and the vDSO understand: its replacement says that it is not implemented, and the C library makes the
//! call.

use crate::analysis::CALL_TRAP;
use crate::bytes::array_at;
use crate::elf::{ElfView, FunctionSymbol};
use crate::error::PatchError;
use crate::image::SiteKind;
use crate::{PAGE_BYTES, bytes};

/// Bytes reserved for the supervisor's bootstrap code.
pub const BOOTSTRAP_BYTES: usize = 16;

/// `mov $number,%eax`, `lea AFTER(%rip),%rcx`, `jmp *LITERAL(%rip)`, [`CALL_TRAP`], AFTER: `ret`, the literal. Where a signal comes before the call
/// the program goes back to the trap, as it would to one of its own.
const JUMP_BYTES: usize = 5 + 7 + 6 + 2 + 1 + 8;
/// `mov $number,%eax`, [`CALL_TRAP`], `ret`
const PLAIN_BYTES: usize = 5 + 2 + 1;
const RETURN: u8 = 0xc3;
/// `mov $-38,%rax`, `ret`: as the kernel says that a call is not implemented.
const NOT_IMPLEMENTED: [u8; 8] = [0x48, 0xc7, 0xc0, 0xda, 0xff, 0xff, 0xff, 0xc3];

/// Name without the prefix `__vdso_`, and the number of the system call; `None` for what must fail instead.
const FUNCTIONS: [(&str, Option<u32>); 6] = [
    ("clock_gettime", Some(228)),
    ("gettimeofday", Some(96)),
    ("time", Some(201)),
    ("getcpu", Some(309)),
    ("clock_getres", Some(229)),
    ("getrandom", None),
];

/// How to change the vDSO. All offsets count from its first byte in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VdsoPatch {
    /// The functions that were found, in the order of the patcher's list.
    pub functions: Vec<VdsoFunction>,
    /// What to write where.
    pub edits: Vec<VdsoEdit>,
    /// Where [`BOOTSTRAP_BYTES`] of zero padding are free for bootstrap code, executable like the rest; `None` if the last page is full.
    pub bootstrap_offset: Option<u64>,
    /// Functions of the vDSO that the patcher does not know, or could not change: they answer without the runtime.
    pub left_alone: Vec<String>,
}

/// One changed function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VdsoFunction {
    /// Its name without prefix, such as `clock_gettime`.
    pub name: &'static str,
    /// Offset of its first byte.
    pub offset: u64,
    /// What became of it.
    pub method: VdsoMethod,
}

/// What a function was replaced by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VdsoMethod {
    /// A jump to the runtime.
    Jump,
    /// [`CALL_TRAP`] alone, where the function is too short.
    SystemCall,
    /// A failure, so that the C library falls back to the system call.
    NotImplemented,
}

/// Bytes to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VdsoEdit {
    /// Offset of the first.
    pub offset: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// Computes the changes to a vDSO, given as its bytes in memory.
///
/// # Errors
/// The bytes are not an ELF library, or have none of the known functions.
pub fn build_vdso_patch(vdso: &[u8]) -> Result<VdsoPatch, PatchError> {
    let elf = ElfView::parse(vdso)?;
    let mut symbols = elf.function_symbols();
    symbols.retain(|symbol| elf.is_text(symbol.address));
    symbols.sort_by_key(|symbol| symbol.address);
    let mut patch = VdsoPatch { functions: Vec::new(), edits: Vec::new(), bootstrap_offset: padding(vdso), left_alone: Vec::new() };
    for (name, number) in FUNCTIONS {
        let Some(symbol) = symbols.iter().find(|symbol| plain_name(symbol.name) == name.as_bytes()) else {
            continue;
        };
        let room = room(&elf, &symbols, symbol);
        let Some((method, bytes)) = replacement(number, room) else {
            continue;
        };
        let offset = symbol.address - elf.low;
        patch.functions.push(VdsoFunction { name, offset, method });
        patch.edits.push(VdsoEdit { offset, bytes });
    }
    if patch.functions.is_empty() {
        return Err(PatchError::EmptyVdso);
    }
    let changed = |symbol: &&FunctionSymbol| patch.functions.iter().any(|function| function.offset == symbol.address - elf.low);
    let left: Vec<_> = symbols.iter().filter(|symbol| !changed(symbol)).map(|symbol| String::from_utf8_lossy(symbol.name).into_owned()).collect();
    patch.left_alone = left;
    Ok(patch)
}

fn plain_name(name: &[u8]) -> &[u8] {
    name.strip_prefix(b"__vdso_").unwrap_or(name)
}

/// How many bytes at a function's start may be overwritten: its own, and the padding up to the next function.
fn room(elf: &ElfView, symbols: &[FunctionSymbol], symbol: &FunctionSymbol) -> usize {
    let bytes = elf.bytes_from(symbol.address);
    let own = usize::try_from(symbol.bytes).unwrap_or(usize::MAX).min(bytes.len());
    let next = symbols.iter().map(|other| other.address).find(|address| *address > symbol.address);
    let limit = next.map_or(own, |next| usize::try_from(next - symbol.address).unwrap_or(usize::MAX)).min(bytes.len());
    if own > limit {
        return limit;
    }
    // Only single-byte padding is recognised: after a function's end anything else might be the start of code without a symbol.
    own + bytes[own..limit].iter().take_while(|byte| matches!(byte, 0x90 | 0xcc)).count()
}

/// The best replacement that fits.
fn replacement(number: Option<u32>, room: usize) -> Option<(VdsoMethod, Vec<u8>)> {
    let Some(number) = number else {
        return (room >= NOT_IMPLEMENTED.len()).then(|| (VdsoMethod::NotImplemented, NOT_IMPLEMENTED.to_vec()));
    };
    let mut code = vec![0xb8];
    code.extend(number.to_le_bytes());
    if room >= JUMP_BYTES {
        // AFTER is behind the 6-byte jump and the trap; the literal one byte further.
        code.extend([0x48, 0x8d, 0x0d, 8, 0, 0, 0]);
        code.extend([0xff, 0x25, 3, 0, 0, 0]);
        code.extend(CALL_TRAP);
        code.push(RETURN);
        code.extend(SiteKind::SystemCall.entry_address().to_le_bytes());
        assert_eq!(code.len(), JUMP_BYTES);
        return Some((VdsoMethod::Jump, code));
    }
    code.extend(CALL_TRAP);
    code.push(RETURN);
    assert_eq!(code.len(), PLAIN_BYTES);
    (room >= PLAIN_BYTES).then_some((VdsoMethod::SystemCall, code))
}

/// Zero bytes at the end of the last page, aligned, leaving a byte of distance to what precedes.
fn padding(vdso: &[u8]) -> Option<u64> {
    let used = vdso.len() - vdso.iter().rev().take_while(|byte| **byte == 0).count();
    let start = (used + 1).next_multiple_of(BOOTSTRAP_BYTES);
    let last_page = bytes::page_floor((vdso.len() as u64).checked_sub(1)?);
    let place = (start as u64).max(last_page);
    debug_assert!(PAGE_BYTES.is_multiple_of(BOOTSTRAP_BYTES as u64));
    array_at::<BOOTSTRAP_BYTES>(vdso, place as usize).map(|_| place)
}
