//! Inline assembly, about which the compiler knows nothing.

/// Instructions whose operands are no memory by which threads synchronise.
const WITHOUT_MEMORY: [&str; 22] = [
    "call", "ret", "lea", "nop", "pause", "lock", "rep", "repz", "repnz", "mfence", "lfence",
    "sfence", "syscall", "cpuid", "rdtsc", "rdtscp", "push", "pop", "hlt", "ud2", "prefetch",
    "int",
];

/// String instructions. Their memory is in registers and they may be repeated, so no stub can hold
/// them.
const STRINGS: [&str; 5] = ["movs", "stos", "lods", "cmps", "scas"];

/// The statements of a line.
pub(crate) fn statements(line: &str) -> impl Iterator<Item = &str> {
    line.split(';').map(str::trim).filter(|statement| !statement.is_empty())
}

/// Whether a statement is an instruction that may read or write memory.
pub(crate) fn may_access_memory(statement: &str) -> bool {
    let word = first_word(statement);
    let known = WITHOUT_MEMORY.iter().any(|name| {
        word.strip_prefix(name).is_some_and(|rest| matches!(rest, "" | "q" | "l" | "w" | "t0"))
    });
    !known && !word.starts_with('j') && !is_string(word)
}

/// Whether a statement accesses memory in a way that cannot be an operation.
pub(crate) fn is_beyond_us(statement: &str) -> bool {
    let is_repeated = first_word(statement).starts_with("rep");
    let last = statement.split_whitespace().next_back().unwrap_or_default();
    let word = if is_repeated { last } else { first_word(statement) };
    is_string(word)
}

/// Whether a word is a string instruction. `movs` with two sizes is a sign extension instead.
fn is_string(word: &str) -> bool {
    let size = |rest: &str| matches!(rest, "b" | "w" | "l" | "q");
    STRINGS.iter().any(|name| word.strip_prefix(name).is_some_and(size))
}

fn first_word(statement: &str) -> &str {
    statement.split_whitespace().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_with_memory() {
        for with in ["movb $0, (%rdi)", "xchgl %eax, flag(%rip)", "leaveq", "movslq (%rax), %rax"] {
            assert!(may_access_memory(with), "{with}");
        }
        for without in ["jne 1b", "lea 8(%rax), %rbx", "pause", "callq f", "lock", "rep movsb"] {
            assert!(!may_access_memory(without), "{without}");
        }
        assert!(is_beyond_us("rep movsb") && is_beyond_us("stosq"));
        assert!(!is_beyond_us("rep nop") && !is_beyond_us("movswl (%rax), %eax"));
    }
}
