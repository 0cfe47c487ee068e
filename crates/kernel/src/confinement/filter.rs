//! System-call filters in the kernel's form: classic BPF, generated from rules. The filter refuses
//! every call that no rule allows. It also refuses all calls of architectures other than x86-64:
//! the 32-bit calls of `int 0x80`, and those of x32, whose numbers no rule has.

const LOAD_WORD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_ABOVE: u16 = 0x25;
const RETURN: u16 = 0x06;

/// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

/// The architecture of 64-bit programs, `AUDIT_ARCH_X86_64`.
pub(super) const X86_64: u32 = 0xc000_003e;

/// A check of the low 32 bits of an argument. Of the arguments that rules check, the kernel reads
/// only these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// The masked argument has this value.
    Masked {
        /// The number of the argument, from 0.
        argument: u8,
        /// The bits that are compared.
        mask: u32,
        /// Their value.
        value: u32,
    },
    /// The argument, as an unsigned number, is above this limit.
    Above {
        /// The number of the argument, from 0.
        argument: u8,
        /// The highest value that does not pass.
        limit: u32,
    },
}

/// Returns a check that the argument has this value.
pub const fn is(argument: u8, value: u32) -> Check {
    Check::Masked { argument, mask: u32::MAX, value }
}

/// A system call that may pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The number of the call.
    pub number: u32,
    /// The call passes if all checks of one of these lists hold. Without lists it always passes.
    pub ways: Vec<Vec<Check>>,
}

/// Builds a filter. Calls that a rule allows pass; all others get `refusal` (`SECCOMP_RET_*`).
///
/// # Panics
/// If a rule is too long for a jump over it.
pub fn program(rules: &[Rule], refusal: u32) -> Vec<libc::sock_filter> {
    let mut steps = vec![
        step(LOAD_WORD, ARCHITECTURE),
        jump(JUMP_IF_EQUAL, X86_64, 1, 0),
        step(RETURN, refusal),
        step(LOAD_WORD, NUMBER),
    ];
    for rule in rules {
        let body = body(rule, refusal);
        steps.push(jump(JUMP_IF_EQUAL, rule.number, 0, short(body.len())));
        steps.extend(body);
    }
    steps.push(step(RETURN, refusal));
    steps
}

fn body(rule: &Rule, refusal: u32) -> Vec<libc::sock_filter> {
    let mut steps = Vec::new();
    for way in &rule.ways {
        let mut rest = 1; // as far as the end of this way
        let mut backwards = vec![step(RETURN, libc::SECCOMP_RET_ALLOW)];
        for check in way.iter().rev() {
            let mut check = of_check(*check, rest);
            rest += short(check.len());
            check.reverse();
            backwards.extend(check);
        }
        steps.extend(backwards.into_iter().rev());
    }
    let otherwise = if rule.ways.is_empty() { libc::SECCOMP_RET_ALLOW } else { refusal };
    steps.push(step(RETURN, otherwise));
    steps
}

/// Builds a check. If it holds, the next instruction follows; otherwise it jumps over `rest` more.
fn of_check(check: Check, rest: u8) -> Vec<libc::sock_filter> {
    let load = |argument: u8| step(LOAD_WORD, ARGUMENTS + 8 * u32::from(argument));
    match check {
        Check::Masked { argument, mask, value } => {
            vec![load(argument), step(AND, mask), jump(JUMP_IF_EQUAL, value, 0, rest)]
        }
        Check::Above { argument, limit } => {
            vec![load(argument), jump(JUMP_IF_ABOVE, limit, 0, rest)]
        }
    }
}

fn step(code: u16, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt: 0, jf: 0, k }
}

fn jump(code: u16, k: u32, holds: u8, fails: u8) -> libc::sock_filter {
    libc::sock_filter { code, jt: holds, jf: fails, k }
}

fn short(steps: usize) -> u8 {
    u8::try_from(steps).expect("rules are short")
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFUSED: u32 = libc::SECCOMP_RET_USER_NOTIF;

    /// Runs a filter on a call, as the kernel would.
    fn run(
        program: &[libc::sock_filter],
        architecture: u32,
        call: u32,
        arguments: [u64; 6],
    ) -> u32 {
        let word = |offset: u32| match offset {
            NUMBER => call,
            ARCHITECTURE => architecture,
            other => arguments[(other - ARGUMENTS) as usize / 8] as u32,
        };
        let (mut at, mut accumulator) = (0, 0);
        loop {
            let libc::sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            match code {
                LOAD_WORD => accumulator = word(k),
                AND => accumulator &= k,
                JUMP_IF_EQUAL => at += usize::from(if accumulator == k { jt } else { jf }),
                JUMP_IF_ABOVE => at += usize::from(if accumulator > k { jt } else { jf }),
                RETURN => return k,
                other => panic!("no step has code {other:#x}"),
            }
        }
    }

    #[test]
    fn only_what_a_rule_has_passes() {
        let byte = Check::Masked { argument: 1, mask: 0xff, value: 17 };
        let rules = [
            Rule { number: 5, ways: vec![] },
            Rule { number: 6, ways: vec![vec![is(0, 1)], vec![is(0, 2), byte]] },
            Rule { number: 7, ways: vec![vec![Check::Above { argument: 5, limit: 2 }]] },
        ];
        let program = program(&rules, REFUSED);
        let passes = |call: u32, arguments: [u64; 6]| {
            run(&program, X86_64, call, arguments) == libc::SECCOMP_RET_ALLOW
        };
        assert!(passes(5, [9; 6]));
        assert!(passes(6, [1, 0, 0, 0, 0, 0]));
        assert!(passes(6, [2, 0x111, 0, 0, 0, 0]));
        assert!(!passes(6, [2, 0x112, 0, 0, 0, 0]));
        assert!(!passes(6, [3, 17, 0, 0, 0, 0]));
        assert!(passes(7, [0, 0, 0, 0, 0, u64::MAX]));
        assert!(!passes(7, [9, 9, 9, 9, 9, 2]));
        assert!(!passes(4, [0; 6]));
        assert!(!passes(8, [0; 6]));
        // x32, and the other architecture.
        assert!(!passes(5 | 0x4000_0000, [0; 6]));
        assert_eq!(run(&program, 0x4000_0003, 5, [0; 6]), REFUSED);
    }
}
