//! Compiles breakpoint conditions. A debugger sends them as agent expressions, which are programs
//! for a stack machine. Here they become machine code.

use super::assembler::{Assembler, Pending};
use super::evaluate::operand;
use std::collections::HashMap;

/// The deepest stack. Conditions that need more are left to the debugger.
const DEEPEST: i32 = 12;
const LONGEST: usize = 512;
/// Register numbers of the protocol: rax rbx rcx rdx rsi rdi rbp rsp r8 to r15, then rip.
const MACHINE_NUMBERS: [u8; 16] = [0, 3, 1, 2, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15];
const PROGRAM_COUNTER: usize = retake_contract::context::registers::RIP / 8;

/// Emits code that leaves the expression's value on the stack. `None` if it has an unknown
/// operation.
pub(super) fn compile(code: &mut Assembler, address: u64, expression: &[u8]) -> Option<()> {
    if expression.len() > LONGEST {
        return None;
    }
    let mut compiler =
        Compiler { code, address, expression, at: 0, depth: 0, jumps: HashMap::new() };
    while compiler.next()? {}
    compiler.jumps.is_empty().then_some(())
}

struct Compiler<'a, 'b> {
    code: &'a mut Assembler,
    address: u64,
    expression: &'b [u8],
    at: usize,
    depth: i32,
    /// The pending forward jumps, by target, with the depth of the stack at each.
    jumps: HashMap<usize, Vec<(Pending, i32)>>,
}

impl Compiler<'_, '_> {
    fn operand(&mut self, bytes: usize) -> Option<u64> {
        operand(self.expression, &mut self.at, bytes)
    }

    /// Translates one operation. Returns false at the end.
    fn next(&mut self) -> Option<bool> {
        for (jump, depth) in self.jumps.remove(&self.at).unwrap_or_default() {
            self.code.land(jump);
            self.depth = depth;
        }
        let operation = self.operand(1)?;
        self.depth += effect(operation)?;
        if !(0..=DEEPEST).contains(&self.depth) {
            return None;
        }
        match operation {
            0x27 => return Some(false),
            0x20 | 0x21 => self.jump(operation == 0x20)?,
            0x22..=0x25 => {
                let value = self.operand(1 << (operation - 0x22))?;
                self.code.put(&[0x48, 0xb8]); // movabs, to %rax
                self.code.put(&value.to_le_bytes());
                self.code.put(&[0x50]);
            }
            0x26 => self.register()?,
            0x16 | 0x2a => self.extend(operation == 0x16)?,
            _ => self.code.put(arithmetic(operation)?),
        }
        Some(true)
    }

    fn jump(&mut self, is_conditional: bool) -> Option<()> {
        let target = self.operand(2)? as usize;
        if target < self.at {
            return None; // no loops
        }
        if is_conditional {
            self.code.put(&[0x58, 0x48, 0x85, 0xc0]); // pop %rax; test %rax, %rax
        }
        let opcode: &[u8] = if is_conditional { &[0x0f, 0x85] } else { &[0xe9] };
        let pending = self.code.pending(opcode);
        self.jumps.entry(target).or_default().push((pending, self.depth));
        Some(())
    }

    fn register(&mut self) -> Option<()> {
        let number = self.operand(2)? as usize;
        if number == PROGRAM_COUNTER {
            self.code.put(&[0x48, 0xb8]);
            self.code.put(&self.address.to_le_bytes());
            self.code.put(&[0x50]);
            return Some(());
        }
        self.code.push_register(*MACHINE_NUMBERS.get(number)?);
        Some(())
    }

    fn extend(&mut self, is_signed: bool) -> Option<()> {
        let bits = self.operand(1)?;
        if bits == 0 || bits >= 64 {
            return (bits == 64).then_some(());
        }
        let shift = 64 - bits as u8;
        let right = if is_signed { 0x3c } else { 0x2c }; // sar, shr (%rsp)
        self.code.put(&[0x48, 0xc1, 0x24, 0x24, shift, 0x48, 0xc1, right, 0x24, shift]);
        Some(())
    }
}

/// How an operation changes the depth of the stack.
fn effect(operation: u64) -> Option<i32> {
    Some(match operation {
        0x02..=0x0b | 0x0f..=0x11 | 0x13..=0x15 | 0x20 | 0x29 => -1,
        0x0e | 0x12 | 0x16..=0x1a | 0x21 | 0x27 | 0x2a | 0x2b => 0,
        0x22..=0x26 | 0x28 => 1,
        _ => return None,
    })
}

/// The code of operations without operands. The first value popped is the right-hand one.
fn arithmetic(operation: u64) -> Option<&'static [u8]> {
    Some(match operation {
        0x02 => &[0x58, 0x48, 0x01, 0x04, 0x24],             // add
        0x03 => &[0x58, 0x48, 0x29, 0x04, 0x24],             // sub
        0x04 => &[0x58, 0x59, 0x48, 0x0f, 0xaf, 0xc1, 0x50], // imul
        // quotient, signed: traps like the program's own
        0x05 => &[0x59, 0x58, 0x48, 0x99, 0x48, 0xf7, 0xf9, 0x50],
        0x06 => &[0x59, 0x58, 0x31, 0xd2, 0x48, 0xf7, 0xf1, 0x50], // unsigned
        0x07 => &[0x59, 0x58, 0x48, 0x99, 0x48, 0xf7, 0xf9, 0x52], // remainder, signed
        0x08 => &[0x59, 0x58, 0x31, 0xd2, 0x48, 0xf7, 0xf1, 0x52], // unsigned
        0x09 => &[0x59, 0x48, 0xd3, 0x24, 0x24],                   // shl %cl
        0x0a => &[0x59, 0x48, 0xd3, 0x3c, 0x24],                   // sar %cl
        0x0b => &[0x59, 0x48, 0xd3, 0x2c, 0x24],                   // shr %cl
        0x0e => &[0x58, 0x31, 0xc9, 0x48, 0x85, 0xc0, 0x0f, 0x94, 0xc1, 0x51], // is zero
        0x0f => &[0x58, 0x48, 0x21, 0x04, 0x24],                   // and
        0x10 => &[0x58, 0x48, 0x09, 0x04, 0x24],                   // or
        0x11 => &[0x58, 0x48, 0x31, 0x04, 0x24],                   // xor
        0x12 => &[0x48, 0xf7, 0x14, 0x24],                         // not
        0x13 => &[0x58, 0x5a, 0x31, 0xc9, 0x48, 0x39, 0xc2, 0x0f, 0x94, 0xc1, 0x51], // equal
        0x14 => &[0x58, 0x5a, 0x31, 0xc9, 0x48, 0x39, 0xc2, 0x0f, 0x9c, 0xc1, 0x51], // less, signed
        // less, unsigned
        0x15 => &[0x58, 0x5a, 0x31, 0xc9, 0x48, 0x39, 0xc2, 0x0f, 0x92, 0xc1, 0x51],
        0x17 => &[0x58, 0x0f, 0xb6, 0x00, 0x50], // a byte of memory
        0x18 => &[0x58, 0x0f, 0xb7, 0x00, 0x50], // two
        0x19 => &[0x58, 0x8b, 0x00, 0x50],       // four
        0x1a => &[0x58, 0xff, 0x30],             // eight
        0x28 => &[0xff, 0x34, 0x24],             // dup
        0x29 => &[0x58],                         // pop
        0x2b => &[0x58, 0x59, 0x50, 0x51],       // swap
        _ => return None,
    })
}
