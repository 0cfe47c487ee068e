//! Control flow into and out of a range of code.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};
use std::collections::BTreeSet;
use std::ops::Range;

/// The addresses outside this code, which begins at `start`, at which execution continues after it.
/// Also the instructions inside that call or lead to an unknown address. `None` if it does not
/// decode.
pub fn ways_out(start: u64, code: &[u8]) -> Option<BTreeSet<u64>> {
    let range = start..start.checked_add(code.len() as u64)?;
    let mut ways = BTreeSet::new();
    for instruction in Decoder::with_ip(64, code, start, DecoderOptions::NONE) {
        if instruction.is_invalid() {
            return None;
        }
        add_ways(&instruction, &range, &mut ways);
    }
    Some(ways)
}

/// The start and end of each instruction in code that begins at `start`, up to the one at `last`.
/// `None` if there is no instruction at `last`.
pub fn instructions(start: u64, code: &[u8], last: u64) -> Option<Vec<(u64, u64)>> {
    let mut all = Vec::new();
    for instruction in Decoder::with_ip(64, code, start, DecoderOptions::NONE) {
        if instruction.is_invalid() || instruction.ip() > last {
            return None;
        }
        all.push((instruction.ip(), instruction.next_ip()));
        if instruction.ip() == last {
            return Some(all);
        }
    }
    None
}

/// The addresses of calls in code that begins at `start`.
pub fn calls(start: u64, code: &[u8]) -> BTreeSet<u64> {
    let is_call = |one: &Instruction| {
        matches!(one.flow_control(), FlowControl::Call | FlowControl::IndirectCall)
    };
    Decoder::with_ip(64, code, start, DecoderOptions::NONE)
        .iter()
        .filter(is_call)
        .map(|one| one.ip())
        .collect()
}

/// The instructions of a function that may lead into a range from outside. The function's code
/// begins at `start`. `None` if it does not decode.
pub fn ways_in(start: u64, code: &[u8], range: &Range<u64>) -> Option<BTreeSet<u64>> {
    let mut ways = BTreeSet::new();
    for instruction in Decoder::with_ip(64, code, start, DecoderOptions::NONE) {
        if instruction.is_invalid() {
            return None;
        }
        let mut own = BTreeSet::new();
        add_ways(&instruction, &(instruction.ip()..instruction.ip()), &mut own);
        let is_anywhere = instruction.flow_control() == FlowControl::IndirectBranch;
        let leads_in = is_anywhere
            || own.iter().any(|to| range.contains(to))
            || range.contains(&instruction.next_ip());
        if leads_in && !range.contains(&instruction.ip()) {
            ways.insert(instruction.ip());
        }
    }
    Some(ways)
}

/// The bytes of the instructions that a thread at `start` surely executes if nothing interrupts it:
/// all up to the first one that may lead elsewhere, which is included. Only complete instructions
/// count.
pub fn straight_run(start: u64, code: &[u8]) -> usize {
    let mut end = 0;
    for instruction in Decoder::with_ip(64, code, start, DecoderOptions::NONE) {
        if instruction.is_invalid() {
            break;
        }
        end += instruction.len();
        if instruction.flow_control() != FlowControl::Next {
            break;
        }
    }
    end
}

fn add_ways(instruction: &Instruction, range: &Range<u64>, ways: &mut BTreeSet<u64>) {
    let mut goes_to = |address: u64| {
        if !range.contains(&address) {
            ways.insert(address);
        }
    };
    match instruction.flow_control() {
        FlowControl::Next => goes_to(instruction.next_ip()),
        FlowControl::UnconditionalBranch => goes_to(instruction.near_branch_target()),
        FlowControl::ConditionalBranch => {
            goes_to(instruction.next_ip());
            goes_to(instruction.near_branch_target());
        }
        _ => {
            ways.insert(instruction.ip());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_left_behind_it_and_where_it_calls() {
        // add $1, %eax; call; ret; cmp; jne to the start; jmp far ahead
        let code =
            [0x83, 0xc0, 1, 0xe8, 0, 1, 0, 0, 0xc3, 0x39, 0xc8, 0x75, 0xf3, 0xe9, 0, 1, 0, 0];
        assert_eq!(ways_out(0x1000, &code), Some(BTreeSet::from([0x1003, 0x1008, 0x1112])));
        assert_eq!(ways_out(0x1000, &code[..13]), Some(BTreeSet::from([0x1003, 0x1008, 0x100d])));
        assert_eq!(ways_out(0x1000, &[0x06]), None);
        assert_eq!(
            instructions(0x1000, &code, 0x1003),
            Some(vec![(0x1000, 0x1003), (0x1003, 0x1008)])
        );
        assert_eq!(instructions(0x1000, &code, 0x1004), None);
    }

    #[test]
    fn a_straight_run_ends_where_it_may_lead_elsewhere() {
        // add $1, %eax; nop; jne; nop
        let code = [0x83, 0xc0, 1, 0x90, 0x75, 0xf6, 0x90];
        assert_eq!(straight_run(0x1000, &code), 6);
        assert_eq!(straight_run(0x1006, &code[6..]), 1);
        assert_eq!(straight_run(0x1000, &code[..5]), 4, "half an instruction is none");
        assert_eq!(straight_run(0x1000, &[0xc3, 0x90]), 1);
        assert_eq!(straight_run(0x1000, &[0x06]), 0);
    }

    #[test]
    fn a_range_is_come_into_from_before_it_and_by_jumps() {
        // 1000 nop; 1001 jmp 1006; 1003 nop; 1004 jmp *%rax; 1006 call; 100b jne 1003; 100d jmp
        // 1000
        let code = [0x90, 0xeb, 3, 0x90, 0xff, 0xe0, 0xe8, 0, 1, 0, 0, 0x75, 0xf6, 0xeb, 0xf1];
        assert_eq!(
            ways_in(0x1000, &code, &(0x1003..0x1004)),
            Some(BTreeSet::from([0x1001, 0x1004, 0x100b]))
        );
        assert_eq!(
            ways_in(0x1000, &code, &(0x1006..0x100d)),
            Some(BTreeSet::from([0x1001, 0x1004]))
        );
        assert_eq!(ways_in(0x1000, &[0x06], &(0x1000..0x1001)), None);
        assert_eq!(calls(0x1000, &code), BTreeSet::from([0x1006]));
    }
}
