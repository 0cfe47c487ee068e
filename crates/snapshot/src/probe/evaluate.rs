//! Evaluates breakpoint conditions where no probe runs: at a place where the program already
//! stands.

use retake_kernel::ptrace::Registers;

/// The limit for operations. No condition needs that many.
const MOST_OPERATIONS: usize = 10_000;

/// The registers in the order in which the debugger's protocol numbers them, up to rip.
pub fn numbered(r: &Registers) -> [u64; 17] {
    [
        r.rax, r.rbx, r.rcx, r.rdx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8, r.r9, r.r10, r.r11, r.r12,
        r.r13, r.r14, r.r15, r.rip,
    ]
}

/// Whether a condition holds. `registers` are in the order of [`numbered`]. `None` if the condition
/// has an unknown operation, or cannot be evaluated.
pub fn holds(
    expression: &[u8],
    registers: &[u64; 17],
    read: impl Fn(u64, &mut [u8]) -> bool,
) -> Option<bool> {
    let (mut stack, mut at) = (Vec::new(), 0);
    for _ in 0..MOST_OPERATIONS {
        let operation = operand(expression, &mut at, 1)?;
        match operation {
            0x27 => return Some(stack.pop()? != 0),
            0x20 | 0x21 => {
                let target = operand(expression, &mut at, 2)? as usize;
                if operation == 0x21 || stack.pop()? != 0 {
                    at = target;
                }
            }
            0x22..=0x25 => stack.push(operand(expression, &mut at, 1 << (operation - 0x22))?),
            0x26 => stack.push(*registers.get(operand(expression, &mut at, 2)? as usize)?),
            0x16 | 0x2a => {
                let shift = 64_u64
                    .checked_sub(operand(expression, &mut at, 1)?)
                    .filter(|shift| *shift < 64)?;
                let high = stack.pop()? << shift;
                stack.push(if operation == 0x16 {
                    (high.cast_signed() >> shift).cast_unsigned()
                } else {
                    high >> shift
                });
            }
            0x17..=0x1a => {
                let mut bytes = [0; 8];
                read(stack.pop()?, bytes.get_mut(..1 << (operation - 0x17))?).then_some(())?;
                stack.push(u64::from_le_bytes(bytes));
            }
            0x0e | 0x12 => {
                let value = stack.pop()?;
                stack.push(if operation == 0x0e { u64::from(value == 0) } else { !value });
            }
            0x28 => stack.push(*stack.last()?),
            0x29 => drop(stack.pop()?),
            0x2b => {
                let (right, left) = (stack.pop()?, stack.pop()?);
                stack.extend([right, left]);
            }
            _ => {
                let (right, left) = (stack.pop()?, stack.pop()?);
                stack.push(of_two(operation, left, right)?);
            }
        }
    }
    None
}

/// Reads the next bytes of an expression as a number.
pub(super) fn operand(expression: &[u8], at: &mut usize, bytes: usize) -> Option<u64> {
    let operand = expression.get(*at..*at + bytes)?;
    *at += bytes;
    Some(operand.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

/// Applies a binary operation like the processor, which uses only six bits of a shift count.
fn of_two(operation: u64, left: u64, right: u64) -> Option<u64> {
    let (signed, distance) = ((left.cast_signed(), right.cast_signed()), right as u32);
    Some(match operation {
        0x02 => left.wrapping_add(right),
        0x03 => left.wrapping_sub(right),
        0x04 => left.wrapping_mul(right),
        0x05 => signed.0.checked_div(signed.1)?.cast_unsigned(),
        0x06 => left.checked_div(right)?,
        0x07 => signed.0.checked_rem(signed.1)?.cast_unsigned(),
        0x08 => left.checked_rem(right)?,
        0x09 => left.wrapping_shl(distance),
        0x0a => signed.0.wrapping_shr(distance).cast_unsigned(),
        0x0b => left.wrapping_shr(distance),
        0x0f => left & right,
        0x10 => left | right,
        0x11 => left ^ right,
        0x13 => u64::from(left == right),
        0x14 => u64::from(signed.0 < signed.1),
        0x15 => u64::from(left < right),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_evaluated_as_probes_do_it() {
        let mut registers = [0; 17];
        (registers[5], registers[16]) = (77_777, 0x401_000);
        let memory = |address: u64, bytes: &mut [u8]| {
            bytes.fill(7);
            address == 0x1000
        };
        let cases: [(&[u8], Option<bool>); 12] = [
            (b"\x26\0\x05\x16\x40\x22\xff\x16\x08\x13\x27", Some(false)), // %rdi == -1
            (b"\x26\0\x05\x24\0\x01\x2f\xd1\x13\x27", Some(true)),        // %rdi == 77777
            (b"\x26\0\x10\x24\0\x40\x10\0\x13\x27", Some(true)),          // %rip == 0x401000
            (b"\x23\x10\0\x18\x23\x07\x07\x13\x27", Some(true)),          // a short at 0x1000
            (b"\x23\x10\x01\x17\x27", None),                              // unmapped
            (b"\x22\xff\x16\x08\x22\x01\x14\x27", Some(true)),            // -1 < 1
            (b"\x22\xff\x16\x08\x22\x01\x15\x27", Some(false)),           // unsigned
            (b"\x22\x05\x22\0\x06\x27", None),                            // division by zero
            (b"\x22\x01\x20\0\x08\x22\0\x27\x22\x01\x27", Some(true)),    // a jump
            (b"\x22\x01\x22\x02\x2b\x03\x22\x01\x13\x27", Some(true)),    // swap, then 2 - 1
            (b"\x21\0\0", None),                                          // an endless loop
            (b"\x99\x27", None),
        ];
        for (expression, expected) in cases {
            assert_eq!(holds(expression, &registers, memory), expected, "{expression:x?}");
        }
    }
}
