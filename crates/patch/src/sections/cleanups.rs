//! Functions of the GNU C library that release what a cancelled thread holds of an object. They are
//! not called by name: functions that wait pass their address on.

use super::objects::Object;
use crate::elf::ElfView;
use iced_x86::{Instruction, Mnemonic, OpKind, Register};

const PUSH: &[u8] = b"_pthread_cleanup_push";
/// The most instructions between the load of the address and the call.
const MOST_BETWEEN: usize = 12;

/// The address of the function that takes their addresses, if the file has it.
pub(super) fn push(elf: &ElfView) -> Option<u64> {
    let symbols = elf.function_symbols();
    symbols.iter().find(|symbol| symbol.name == PUSH).map(|symbol| symbol.address)
}

/// Finds the cleanup functions that a chunk registers.
pub(super) struct Cleanups {
    push: Option<u64>,
    /// The last address loaded into the register of the second argument, and the number of
    /// instructions since.
    last: Option<(u64, usize)>,
}

impl Cleanups {
    pub fn of(push: Option<u64>) -> Self {
        Self { push, last: None }
    }

    /// Takes the chunk's next instruction. Returns the function that it registers, if it does.
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

/// The object of a cleanup function that is registered by a function on an object, and the object
/// of the function that the cleanup jumps to at its end.
pub(super) fn objects(waits_for: Object) -> [Option<Object>; 2] {
    match waits_for {
        Object::First => [Some(Object::First), None],
        // It gives up its place among the waiting threads, and locks the mutex.
        Object::Second => [None, Some(Object::First)],
        Object::Own(_) | Object::OfThread(_) => [None, None],
    }
}
