//! Functions of the GNU C library that give back what a cancelled thread has of an object. Nothing
//! calls them by name: those that wait hand their address over.

use super::objects::Object;
use crate::elf::ElfView;
use iced_x86::{Instruction, Mnemonic, OpKind, Register};

const PUSH: &[u8] = b"_pthread_cleanup_push";
/// How far before the call the address is put into its register.
const MOST_BETWEEN: usize = 12;

/// Where the function begins that takes their addresses, if the file has it.
pub(super) fn push(elf: &ElfView) -> Option<u64> {
    let symbols = elf.function_symbols();
    symbols.iter().find(|symbol| symbol.name == PUSH).map(|symbol| symbol.address)
}

/// Finds what a chunk hands over.
pub(super) struct Cleanups {
    push: Option<u64>,
    /// The last address that was put into the second argument's register, and how many instructions
    /// ago.
    last: Option<(u64, usize)>,
}

impl Cleanups {
    pub fn of(push: Option<u64>) -> Self {
        Self { push, last: None }
    }

    /// Takes the chunk's next instruction; gives what that hands over.
    pub fn next(&mut self, instruction: &Instruction) -> Option<u64> {
        let push = self.push?;
        if let Some((_, age)) = &mut self.last {
            *age += 1;
        }
        if instruction.mnemonic() == Mnemonic::Lea && instruction.op0_register() == Register::RSI {
            let address = instruction.is_ip_rel_memory_operand();
            self.last = address.then(|| (instruction.ip_rel_memory_address(), 0));
        }
        let calls = instruction.op0_kind() == OpKind::NearBranch64
            && instruction.is_call_near()
            && instruction.near_branch_target() == push;
        let (address, age) = self.last.filter(|_| calls)?;
        (age <= MOST_BETWEEN).then_some(address)
    }
}

/// What the function works on that a function on an object hands over; and what one works on where
/// it goes on at last.
pub(super) fn objects(waits_for: Object) -> [Option<Object>; 2] {
    match waits_for {
        Object::First => [Some(Object::First), None],
        // It gives back its place among those that wait, and takes the mutex.
        Object::Second => [None, Some(Object::First)],
        Object::Own(_) | Object::OfThread(_) => [None, None],
    }
}
