//! Replacement of the vDSO's functions by system calls, which the runtime sees.
//!
//! The vDSO reads clocks and processor numbers without entering the kernel, so the runtime would
//! not notice. The start of each function is replaced by a jump to the runtime's system-call entry,
//! with the number of the call that it stands for. The runtime returns to the `ret` after it.
//! `getrandom` keeps state in memory that only the kernel and the vDSO understand. Its replacement
//! returns that the call is not implemented, and the C library makes the system call.
//!
//! The runtime itself may call the vDSO, which is five times faster than the kernel. The originals
//! of functions that only read clocks therefore stay callable. Their first instructions move to the
//! padding after all code. The replacement is there too, so that only a short jump is written over
//! the function.

use crate::analysis::CALL_TRAP;
use crate::bytes::array_at;
use crate::elf::{ElfView, FunctionSymbol};
use crate::entry::Entry;
use crate::error::PatchError;
use crate::watch::put;
use crate::{PAGE_BYTES, bytes};
use iced_x86::{Code, Decoder, DecoderOptions, Encoder, FlowControl, Instruction, OpKind};

/// Bytes reserved for the supervisor's bootstrap code.
pub const BOOTSTRAP_BYTES: usize = 16;

/// `mov $number,%eax`, `lea AFTER(%rip),%rcx`, `jmp *LITERAL(%rip)`, [`CALL_TRAP`], AFTER: `ret`,
/// the literal. If a signal comes before the call, the program goes back to the trap, as with a
/// call of its own.
const JUMP_BYTES: usize = 5 + 7 + 6 + 2 + 1 + 8;
/// `mov $number,%eax`, [`CALL_TRAP`], `ret`
const PLAIN_BYTES: usize = 5 + 2 + 1;
const RETURN: u8 = 0xc3;
/// `jmp rel32`
const NEAR_JUMP: u8 = 0xe9;
const NEAR_JUMP_BYTES: usize = 5;
/// `mov $-38,%rax`, `ret`: the kernel's result for a call that is not implemented.
const NOT_IMPLEMENTED: [u8; 8] = [0x48, 0xc7, 0xc0, 0xda, 0xff, 0xff, 0xff, 0xc3];

/// Those of [`FUNCTIONS`] whose originals stay callable.
const CLOCKS: [u32; 3] =
    [libc::SYS_clock_gettime as u32, libc::SYS_gettimeofday as u32, libc::SYS_time as u32];

/// Names without the prefix `__vdso_`, and numbers of the system calls. `None` for a function that
/// must fail instead.
const FUNCTIONS: [(&str, Option<u32>); 6] = [
    ("clock_gettime", Some(libc::SYS_clock_gettime as u32)),
    ("gettimeofday", Some(libc::SYS_gettimeofday as u32)),
    ("time", Some(libc::SYS_time as u32)),
    ("getcpu", Some(libc::SYS_getcpu as u32)),
    ("clock_getres", Some(libc::SYS_clock_getres as u32)),
    ("getrandom", None),
];

/// Changes a replacement so that it makes its call without the runtime. An address within it, which
/// a handler may return to, still leads to the call.
pub fn without_runtime(replacement: &mut [u8]) {
    const CALL: [u8; 2] = [0x0f, 0x05];
    const SHORT_JUMP: u8 = 0xeb;
    // From `lea`, and from `jmp`, to the call.
    const JUMPS: [(usize, u8); 2] = [(7 + 6, 7 + 6 - 2), (6, 6 - 2)];
    let is_call = |at: &usize| {
        replacement[*at..].starts_with(&CALL_TRAP) && replacement.get(at + 2) == Some(&RETURN)
    };
    let calls: Vec<usize> = (0..replacement.len()).filter(is_call).collect();
    for at in calls {
        replacement[at..at + 2].copy_from_slice(&CALL);
        if at < 5 + 7 + 6 || replacement[at - 6..at - 4] != [0xff, 0x25] {
            continue;
        }
        for (before, distance) in JUMPS {
            replacement[at - before..at - before + 2].copy_from_slice(&[SHORT_JUMP, distance]);
        }
    }
}

/// The changes of a vDSO. All offsets are relative to its first byte in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VdsoPatch {
    /// The functions that were found, in the order of the patcher's list.
    pub functions: Vec<VdsoFunction>,
    /// The bytes to write.
    pub edits: Vec<VdsoEdit>,
    /// Offset of [`BOOTSTRAP_BYTES`] of zero padding for bootstrap code, executable like the rest.
    /// `None` if the last page is full.
    pub bootstrap_offset: Option<u64>,
    /// Functions of the vDSO that the patcher does not know, or could not change. They answer
    /// without the runtime.
    pub left_alone: Vec<String>,
}

/// One changed function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VdsoFunction {
    /// Its name without prefix, such as `clock_gettime`.
    pub name: &'static str,
    /// Offset of its first byte.
    pub offset: u64,
    /// How it was changed.
    pub method: VdsoMethod,
    /// The system call that it stands for, and the offset at which the original can be called.
    /// `None` if it no longer can.
    pub original: Option<(u32, u64)>,
}

/// The replacement of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VdsoMethod {
    /// A jump to the runtime.
    Jump,
    /// [`CALL_TRAP`] alone, if the function is too short.
    SystemCall,
    /// A failure, so that the C library falls back to the system call.
    NotImplemented,
}

/// Bytes to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VdsoEdit {
    /// Offset of the first byte.
    pub offset: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// Computes the changes to a vDSO, given as its bytes in memory.
///
/// # Errors If the bytes are not an ELF library, or have none of the known functions.
pub fn build_vdso_patch(vdso: &[u8]) -> Result<VdsoPatch, PatchError> {
    let elf = ElfView::parse(vdso)?;
    let mut symbols = elf.function_symbols();
    symbols.retain(|symbol| elf.is_text(symbol.address));
    symbols.sort_by_key(|symbol| symbol.address);
    let mut patch = VdsoPatch {
        functions: Vec::new(),
        edits: Vec::new(),
        bootstrap_offset: padding(vdso),
        left_alone: Vec::new(),
    };
    let mut free =
        patch.bootstrap_offset.map_or(vdso.len(), |offset| offset as usize + BOOTSTRAP_BYTES);
    for (name, number) in FUNCTIONS {
        let Some(symbol) = symbols.iter().find(|symbol| plain_name(symbol.name) == name.as_bytes())
        else {
            continue;
        };
        let room = room(&elf, &symbols, symbol);
        let offset = symbol.address - elf.low;
        let clock = number.filter(|number| CLOCKS.contains(number));
        if let Some((number, kept)) = clock.and_then(|number| {
            Some((number, keep(&elf, symbol, number, vdso.get(free..)?, free as u64)?))
        }) {
            free = (free + kept.moved.len()).next_multiple_of(BOOTSTRAP_BYTES);
            patch.functions.push(VdsoFunction {
                name,
                offset,
                method: VdsoMethod::Jump,
                original: Some((number, kept.original)),
            });
            patch.edits.extend([
                VdsoEdit { offset, bytes: kept.jump },
                VdsoEdit { offset: kept.place, bytes: kept.moved },
            ]);
            continue;
        }
        let Some((method, bytes)) = replacement(number, room) else {
            continue;
        };
        patch.functions.push(VdsoFunction { name, offset, method, original: None });
        patch.edits.push(VdsoEdit { offset, bytes });
    }
    if patch.functions.is_empty() {
        return Err(PatchError::EmptyVdso);
    }
    let changed = |symbol: &&FunctionSymbol| {
        patch.functions.iter().any(|function| function.offset == symbol.address - elf.low)
    };
    let left: Vec<_> = symbols
        .iter()
        .filter(|symbol| !changed(symbol))
        .map(|symbol| String::from_utf8_lossy(symbol.name).into_owned())
        .collect();
    patch.left_alone = left;
    Ok(patch)
}

fn plain_name(name: &[u8]) -> &[u8] {
    name.strip_prefix(b"__vdso_").unwrap_or(name)
}

/// The number of bytes at a function's start that may be overwritten: its own, and the padding up
/// to the next function.
fn room(elf: &ElfView, symbols: &[FunctionSymbol], symbol: &FunctionSymbol) -> usize {
    let bytes = elf.bytes_from(symbol.address);
    let own = usize::try_from(symbol.bytes).unwrap_or(usize::MAX).min(bytes.len());
    let next = symbols.iter().map(|other| other.address).find(|address| *address > symbol.address);
    let limit = next
        .map_or(own, |next| usize::try_from(next - symbol.address).unwrap_or(usize::MAX))
        .min(bytes.len());
    if own > limit {
        return limit;
    }
    // Only single-byte padding is recognised. Anything else after a function's end might be the
    // start of code without a symbol.
    own + bytes[own..limit].iter().take_while(|byte| matches!(byte, 0x90 | 0xcc)).count()
}

/// A function whose original stays callable.
struct Kept {
    /// The bytes to write over its start.
    jump: Vec<u8>,
    /// Offset of `moved`.
    place: u64,
    /// The replacement, and the instructions that the jump displaces.
    moved: Vec<u8>,
    /// Offset of the displaced instructions.
    original: u64,
}

/// Keeps a function callable. `padding` is the memory from the offset `place` on. Returns `None` if
/// the function cannot be taken apart, or if there is no room.
fn keep(
    elf: &ElfView,
    symbol: &FunctionSymbol,
    number: u32,
    padding: &[u8],
    place: u64,
) -> Option<Kept> {
    let start = symbol.address;
    let code = elf.bytes_from(start).get(..usize::try_from(symbol.bytes).ok()?)?;
    let instructions: Vec<Instruction> =
        Decoder::with_ip(64, code, start, DecoderOptions::NONE).into_iter().collect();
    let enough =
        |instruction: &Instruction| instruction.next_ip() - start >= NEAR_JUMP_BYTES as u64;
    let (displaced, _) = instructions.split_at(instructions.iter().position(enough)? + 1);
    let back = displaced.last()?.next_ip();
    let leads_inside =
        |instruction: &Instruction| (start + 1..back).contains(&instruction.near_branch_target());
    let is_movable = |instruction: &Instruction| {
        matches!(instruction.flow_control(), FlowControl::Next | FlowControl::ConditionalBranch)
    };
    if !instructions.iter().all(uses_general_registers)
        || instructions.iter().any(leads_inside)
        || !displaced.iter().all(is_movable)
    {
        return None;
    }
    let (_, mut moved) = replacement(Some(number), JUMP_BYTES)?;
    let mut encoder = Encoder::new(64);
    let mut at = elf.low + place + moved.len() as u64;
    let original = at - elf.low;
    for instruction in
        displaced.iter().copied().chain([Instruction::with_branch(Code::Jmp_rel32_64, back).ok()?])
    {
        at += put(&mut encoder, instruction, at)?;
    }
    moved.extend(encoder.take_buffer());
    let distance =
        i32::try_from((elf.low + place) as i64 - (start + NEAR_JUMP_BYTES as u64) as i64).ok()?;
    let mut jump = vec![NEAR_JUMP];
    jump.extend(distance.to_le_bytes());
    let is_free = padding.get(..moved.len())?.iter().all(|byte| *byte == 0);
    is_free.then_some(Kept { jump, place, moved, original })
}

/// Whether an instruction uses only general registers: the runtime saves no others before it calls
/// the function.
fn uses_general_registers(instruction: &Instruction) -> bool {
    let is_general = |operand| {
        instruction.op_kind(operand) != OpKind::Register
            || instruction.op_register(operand).is_gpr()
    };
    !instruction.is_invalid() && (0..instruction.op_count()).all(is_general)
}

/// The best replacement that fits.
fn replacement(number: Option<u32>, room: usize) -> Option<(VdsoMethod, Vec<u8>)> {
    let Some(number) = number else {
        return (room >= NOT_IMPLEMENTED.len())
            .then(|| (VdsoMethod::NotImplemented, NOT_IMPLEMENTED.to_vec()));
    };
    let mut code = vec![0xb8];
    code.extend(number.to_le_bytes());
    if room >= JUMP_BYTES {
        // AFTER follows the 6-byte jump and the trap. The literal is one byte further.
        code.extend([0x48, 0x8d, 0x0d, 8, 0, 0, 0]);
        code.extend([0xff, 0x25, 3, 0, 0, 0]);
        code.extend(CALL_TRAP);
        code.push(RETURN);
        code.extend(Entry::SystemCall.address().to_le_bytes());
        assert_eq!(code.len(), JUMP_BYTES);
        return Some((VdsoMethod::Jump, code));
    }
    code.extend(CALL_TRAP);
    code.push(RETURN);
    assert_eq!(code.len(), PLAIN_BYTES);
    (room >= PLAIN_BYTES).then_some((VdsoMethod::SystemCall, code))
}

/// The offset of zero bytes at the end of the last page, aligned, at least one byte after the used
/// part.
fn padding(vdso: &[u8]) -> Option<u64> {
    let used = vdso.len() - vdso.iter().rev().take_while(|byte| **byte == 0).count();
    let start = (used + 1).next_multiple_of(BOOTSTRAP_BYTES);
    let last_page = bytes::page_floor((vdso.len() as u64).checked_sub(1)?);
    let place = (start as u64).max(last_page);
    debug_assert!(PAGE_BYTES.is_multiple_of(BOOTSTRAP_BYTES as u64));
    array_at::<BOOTSTRAP_BYTES>(vdso, place as usize).map(|_| place)
}
