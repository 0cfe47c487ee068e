//! Executes single instructions.

use super::{GiveUp, Inferior, Stop};
use crate::error::Result;
use retake_snapshot::{Happened, Memory, Process, in_runtime, search};

/// The longest instruction, in bytes.
const LONGEST_INSTRUCTION: usize = 15;

/// The size of the repeated string instruction at the beginning of code; 0 for any other
/// instruction.
fn repeated_instruction(code: &[u8]) -> u64 {
    const LEGACY_PREFIXES: [u8; 10] = [0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x66, 0x67, 0xf2, 0xf3];
    const REPEAT: [u8; 2] = [0xf2, 0xf3];
    let mut at = code.iter().take_while(|byte| LEGACY_PREFIXES.contains(byte)).count();
    let is_repeated = code[..at].iter().any(|byte| REPEAT.contains(byte));
    at += usize::from(code.get(at).is_some_and(|byte| matches!(byte, 0x40..=0x4f)));
    // MOVS, CMPS, STOS, LODS, SCAS. No program may execute the ones for I/O ports.
    let is_string = code.get(at).is_some_and(|opcode| matches!(opcode, 0xa4..=0xa7 | 0xaa..=0xaf));
    if is_repeated && is_string { at as u64 + 1 } else { 0 }
}

impl Inferior {
    /// Executes one instruction of the current thread; a system call counts as one.
    pub fn step(&mut self, give_up: GiveUp) -> Result<Stop> {
        self.is_stepping = true;
        let stop = self.step_once(give_up);
        self.is_stepping = false;
        stop
    }

    fn step_once(&mut self, give_up: GiveUp) -> Result<Stop> {
        if let Some(stop) = self.ending.next_word() {
            return Ok(stop);
        }
        let tid = self.current;
        if in_runtime(self.process.registers(tid)?.rip) {
            return self.finish_call(tid, give_up);
        }
        self.stops.watchpoints.arm(tid, &[])?;
        loop {
            let real = self.process.registers(tid)?.rip;
            let pushes = pushes_flags(&self.process.memory, real);
            self.process.step(tid)?;
            match self.process.next(&mut || false)? {
                Some(Happened::Stepped { tid: stepped, watch }) if stepped == tid => {
                    clear_pushed_flag(&self.process, tid, pushes)?;
                    let mut now = self.process.registers(tid)?.rip;
                    if let Some(watchpoint) = self.stops.watchpoints.hit(watch) {
                        return Ok(Stop::Watch(watchpoint));
                    }
                    if in_runtime(now) {
                        let stop = self.finish_call(tid, give_up)?;
                        if stop != Stop::Step {
                            return Ok(stop);
                        }
                        now = self.process.registers(tid)?.rip;
                    }
                    // The code that the search displaced counts as one instruction.
                    if !self.text.is_same_instruction(real, now)
                        && !search::is_in_search(&self.process.memory, tid)
                    {
                        return Ok(Stop::Step);
                    }
                }
                Some(Happened::Emulates { signal, .. }) => {
                    return self.emulated(tid, signal, real, give_up);
                }
                Some(happened) => {
                    if let Some(stop) = self.interpret(happened)? {
                        self.stopped()?;
                        return Ok(stop);
                    }
                }
                None => return Ok(Stop::Interrupted),
            }
        }
    }

    /// Runs a thread that is in the runtime until it is back in the program.
    fn finish_call(&mut self, tid: i32, give_up: GiveUp) -> Result<Stop> {
        self.process.pause_after(tid, Some(0))?;
        self.stepped = Some(tid);
        let stop = self.run(give_up);
        self.stepped = None;
        stop
    }

    /// Handles a signal of the stepped instruction that is meant for the runtime.
    fn emulated(&mut self, tid: i32, signal: i32, address: u64, give_up: GiveUp) -> Result<Stop> {
        let length = if signal == libc::SIGSEGV {
            trapped_instruction(&self.process.memory, address)
        } else {
            0
        };
        if length == 0 {
            return self.finish_call(tid, give_up);
        }
        // The runtime does what the instruction would do, and returns from its signal handler.
        let place = address + length;
        match self.run_to(place, give_up)? {
            Stop::Breakpoint
                if self.current == tid && self.process.registers(tid)?.rip == place =>
            {
                Ok(Stop::Step)
            }
            stop => Ok(stop),
        }
    }

    /// Goes on until something stops the process, at the latest at this address.
    fn run_to(&mut self, place: u64, give_up: GiveUp) -> Result<Stop> {
        let is_new = self.planting.private_places.insert(place);
        let stop = self.run(give_up);
        if is_new {
            self.planting.private_places.remove(&place);
        }
        stop
    }

    /// Finishes a repeated string instruction, and returns what stopped the thread after it. The
    /// current thread may be in the middle of the instruction, while traps stop only at its
    /// beginning. `None` if there is no such instruction, or the user wants to stop there.
    pub fn finish_repeated(&mut self) -> Result<Option<Stop>> {
        let address = self.process.registers(self.current)?.rip;
        let length = repeated_at(&self.process.memory, address);
        let is_stop = self.stops.breakpoints.contains(&self.text.shown(address))
            && self.planting.passed != Some(address);
        if length == 0 || is_stop {
            return Ok(None);
        }
        self.run_to(address + length, &mut || false).map(Some)
    }

    /// Whether the current thread is at a repeated string instruction, or in the middle of one.
    pub fn is_at_repeated(&self) -> Result<bool> {
        Ok(repeated_at(&self.process.memory, self.process.registers(self.current)?.rip) != 0)
    }
}

/// Steps over an instruction at which a trap is to be planted. A repeated instruction is finished,
/// since a trap there hits only once.
pub(super) fn step_off(inferior: &mut Inferior, give_up: GiveUp) -> Result<Stop> {
    let address = inferior.process.registers(inferior.current)?.rip;
    let length = repeated_at(&inferior.process.memory, address);
    if length == 0 {
        return inferior.step(give_up);
    }
    inferior.planting.passed = Some(address);
    let stop = inferior.run_to(address + length, give_up);
    inferior.planting.passed = None;
    match stop? {
        Stop::Breakpoint
            if inferior.process.registers(inferior.current)?.rip == address + length =>
        {
            Ok(Stop::Step)
        }
        stop => Ok(stop),
    }
}

fn repeated_at(memory: &Memory, address: u64) -> u64 {
    let mut code = [0; LONGEST_INSTRUCTION];
    let count = memory.read(address, &mut code);
    repeated_instruction(&code[..count])
}

/// The size of an instruction that faults so that the runtime answers it; 0 for any other
/// instruction.
fn trapped_instruction(memory: &Memory, address: u64) -> u64 {
    let mut code = [0; 3];
    memory.read(address, &mut code);
    match code {
        [0x0f, 0x31 | 0xa2, _] | [0xcd, 0xa2 | 0x05, _] => 2,
        [0x0f, 0x01, 0xf9] => 3,
        _ => 0,
    }
}

/// The number of bytes that the instruction pushes, if it pushes the flags. Single steps set a flag
/// in them.
fn pushes_flags(memory: &Memory, address: u64) -> usize {
    let mut code = [0; 2];
    memory.read(address, &mut code);
    match code {
        [0x9c, _] | [0x40..=0x4f, 0x9c] => 8,
        [0x66, 0x9c] => 2,
        _ => 0,
    }
}

fn clear_pushed_flag(process: &Process, tid: i32, bytes: usize) -> Result<()> {
    const TRAP_FLAG_BYTE: u64 = 1;
    if bytes == 0 {
        return Ok(());
    }
    let at = process.registers(tid)?.rsp + TRAP_FLAG_BYTE;
    let mut byte = [0];
    process.memory.read(at, &mut byte);
    Ok(process.memory.write(at, &[byte[0] & !1])?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_instructions_are_known() {
        let lengths: [(&[u8], u64); 8] = [
            (&[0xf3, 0xa4, 0x90], 2),       // rep movsb
            (&[0xf3, 0x48, 0xab], 3),       // rep stosq
            (&[0x66, 0xf3, 0xa5], 3),       // rep movsw
            (&[0xf2, 0xae], 2),             // repne scasb
            (&[0xa4], 0),                   // movsb
            (&[0xf3, 0x0f, 0x10, 0xc1], 0), // movss
            (&[0xf3, 0x90], 0),             // pause
            (&[0xf3], 0),
        ];
        for (code, length) in lengths {
            assert_eq!(repeated_instruction(code), length, "{code:x?}");
        }
    }
}
