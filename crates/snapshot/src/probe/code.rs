//! The machine code of a probe's stub.
//!
//! At the entry is one comparison, which most visits fail. It is there only if flags may be
//! changed. The tests at the beginning of the page decide whether this is the wanted place: if all
//! hold, a trap follows. Then come the conditions, a countdown and another trap, and last the
//! displaced instructions. Flags and the program's stack stay unchanged; conditions change and
//! restore them.

use super::assembler::{
    Assembler, DATA_OFFSET, DISPLACED_OFFSET, MACHINE_NUMBERS, Pending, SLOT_FLAGS, SLOT_RDX,
    SLOT_RSP, STACK_TOP, Test,
};
use super::condition;

/// What a stub is to do.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// The stack pointer at the place, if the flags are dead there so that the stub may change
    /// them.
    pub stack: Option<u64>,
    /// Tests that all hold at the place where to stop; `None` if no place is wanted.
    pub tests: Option<Vec<Test>>,
    /// The address of the countdown; the stub stops when it comes to 0.
    pub counter: Option<u64>,
    /// Agent expressions, one of which must hold for a visit to count. If there are none, all
    /// visits count.
    pub conditions: Vec<Vec<u8>>,
}

/// A stub's code, and addresses in it.
pub(super) struct Stub {
    pub code: Vec<u8>,
    /// The code that the planted jump leads to.
    pub entry: Vec<u8>,
    pub place_trap: Option<u64>,
    pub stop_trap: Option<u64>,
    /// The address after the search for the place.
    pub counting: u64,
}

/// Builds the code of a page, with an entry at `entry`, for a probe at `address`. Returns `None` if
/// a condition cannot be compiled or there is no room.
pub(super) fn build(page: u64, entry: u64, address: u64, wanted: &Wanted) -> Option<Stub> {
    let (mut code, mut front) = (Assembler::new(page), Assembler::new(entry));
    let quick = wanted
        .tests
        .as_ref()
        .zip(wanted.stack)
        .and_then(|(tests, stack)| quickly(&mut front, tests.first()?, stack));
    let place_trap = wanted.tests.as_ref().map(|tests| search(&mut code, tests));
    let counting = code.here();
    if let Some(miss) = quick {
        let next = if wanted.counter.is_some() { counting } else { page + DISPLACED_OFFSET };
        front.land_at(miss, next.wrapping_sub(entry));
    }
    front.relative(&[0xe9], page.wrapping_sub(entry));
    let stop_trap = match wanted.counter {
        Some(counter) => Some(count(&mut code, counter, address, &wanted.conditions)?),
        None => None,
    };
    code.relative(&[0xe9], DISPLACED_OFFSET);
    (code.bytes.len() as u64 <= DATA_OFFSET).then_some(Stub {
        code: code.bytes,
        entry: front.bytes,
        place_trap,
        stop_trap,
        counting,
    })
}

fn trap(code: &mut Assembler) -> u64 {
    let at = code.here();
    code.put(&[0xcc]);
    at
}

/// Emits one comparison, of the lower half of the first test's value, and a jump that is taken if
/// they differ.
fn quickly(code: &mut Assembler, test: &Test, stack: u64) -> Option<Pending> {
    let value = match *test {
        Test::Register { index, value } => {
            let number = MACHINE_NUMBERS[index];
            let extended: &[u8] = if number >= 8 { &[0x41] } else { &[] };
            code.put(extended);
            code.put(&[0x81, 0xf8 | (number & 7)]); // cmp $value, %number
            value
        }
        Test::Word { address, value } => {
            let distance = i32::try_from(address.wrapping_sub(stack) as i64).ok()?;
            code.put(&[0x81, 0xbc, 0x24]); // cmpl $value, distance(%rsp)
            code.put(&distance.to_le_bytes());
            value
        }
        Test::Vector { .. } => return None,
    };
    code.put(&value.to_le_bytes()[..4]);
    Some(code.pending(&[0x0f, 0x85])) // jne
}

fn search(code: &mut Assembler, tests: &[Test]) -> u64 {
    code.save();
    let mut misses = Vec::new();
    for test in tests {
        code.difference(test);
        code.put(&[0xe3, 5]); // jrcxz over the jump
        misses.push(code.pending(&[0xe9]));
    }
    code.restore();
    let at = trap(code);
    let over = code.pending(&[0xe9]);
    misses.into_iter().for_each(|miss| code.land(miss));
    code.restore();
    code.land(over);
    at
}

fn count(code: &mut Assembler, counter: u64, address: u64, conditions: &[Vec<u8>]) -> Option<u64> {
    code.save();
    let miss = if conditions.is_empty() {
        None
    } else {
        Some(test_conditions(code, address, conditions)?)
    };
    code.put(&[0x48, 0xa1]); // movabs counter, %rax
    code.put(&counter.to_le_bytes());
    code.put(&[0x48, 0x8d, 0x48, 0xff]); // lea -1(%rax), %rcx
    code.put(&[0x48, 0x89, 0xc8]); // mov %rcx, %rax
    code.put(&[0x48, 0xa3]); // movabs %rax, counter
    code.put(&counter.to_le_bytes());
    code.put(&[0xe3, 5]); // jrcxz over the jump
    let not_yet = code.pending(&[0xe9]);
    code.restore();
    let at = trap(code);
    let over = code.pending(&[0xe9]);
    code.land(not_yet);
    if let Some(miss) = miss {
        code.land(miss);
    }
    code.restore();
    code.land(over);
    Some(at)
}

/// Emits code that jumps away if no condition holds.
fn test_conditions(code: &mut Assembler, address: u64, conditions: &[Vec<u8>]) -> Option<Pending> {
    code.put(&[0x9f, 0x0f, 0x90, 0xc0]); // lahf; seto %al
    code.relative(&[0x48, 0x89, 0x05], SLOT_FLAGS);
    code.relative(&[0x48, 0x89, 0x15], SLOT_RDX);
    code.relative(&[0x48, 0x89, 0x25], SLOT_RSP);
    let mut hits = Vec::new();
    for condition in conditions {
        code.relative(&[0x48, 0x8d, 0x25], STACK_TOP); // lea, to %rsp
        condition::compile(code, address, condition)?;
        code.put(&[0x58, 0x48, 0x85, 0xc0]); // pop %rax; test %rax, %rax
        hits.push(code.pending(&[0x0f, 0x85])); // jnz
    }
    restore_all(code);
    let miss = code.pending(&[0xe9]);
    hits.into_iter().for_each(|hit| code.land(hit));
    restore_all(code);
    Some(miss)
}

/// Emits code that restores the flags, the stack pointer and rdx. The values of rax and rcx stay in
/// their slots.
fn restore_all(code: &mut Assembler) {
    code.relative(&[0x48, 0x8b, 0x05], SLOT_FLAGS);
    code.put(&[0x04, 0x7f, 0x9e]); // add $0x7f, %al; sahf
    code.relative(&[0x48, 0x8b, 0x15], SLOT_RDX);
    code.relative(&[0x48, 0x8b, 0x25], SLOT_RSP);
}
