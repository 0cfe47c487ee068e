//! One instruction at a time.

use super::{Debuggee, GiveUp, Stop};
use crate::error::Result;
use crate::process::{Happened, in_runtime};

impl Debuggee {
    /// Executes one instruction of the current thread; a system call counts as one.
    pub fn step(&mut self, give_up: GiveUp) -> Result<Stop> {
        self.is_stepping = true;
        let stop = self.step_once(give_up);
        self.is_stepping = false;
        stop
    }

    fn step_once(&mut self, give_up: GiveUp) -> Result<Stop> {
        if let Some(stop) = self.at_end() {
            return Ok(stop);
        }
        let tid = self.current;
        let before = self.program_counter()?;
        if in_runtime(self.process.registers(tid)?.rip) {
            return self.finish_call(tid, give_up);
        }
        self.watchpoints.arm(tid)?;
        loop {
            let real = self.process.registers(tid)?.rip;
            let pushes = self.pushes_flags(real);
            self.process.step(tid)?;
            match self.process.next(&mut || false)? {
                Some(Happened::Stepped { tid: stepped, watch }) if stepped == tid => {
                    self.clear_pushed_flag(pushes)?;
                    let now = self.process.registers(tid)?.rip;
                    if let Some(watchpoint) = self.watchpoints.hit(watch) {
                        return Ok(Stop::Watch(watchpoint));
                    }
                    if in_runtime(now) {
                        return self.finish_call(tid, give_up);
                    }
                    let is_on_its_way = self.text.is_stub(now) && self.text.shown(now) == before;
                    // What the search displaced counts as one.
                    if !is_on_its_way && !self.process.is_in_search(tid) {
                        return Ok(Stop::Step);
                    }
                }
                Some(Happened::Emulates { signal, .. }) => return self.emulated(tid, signal, real, give_up),
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

    /// The thread is in the runtime: until it is back in the program.
    fn finish_call(&mut self, tid: i32, give_up: GiveUp) -> Result<Stop> {
        self.process.pause_after(tid, Some(0))?;
        self.stepped = Some(tid);
        let stop = self.run(give_up);
        self.stepped = None;
        stop
    }

    /// The stepped instruction made the kernel send a signal that the runtime is for.
    fn emulated(&mut self, tid: i32, signal: i32, address: u64, give_up: GiveUp) -> Result<Stop> {
        let length = if signal == libc::SIGSEGV { self.trapped_instruction(address) } else { 0 };
        if length == 0 {
            return self.finish_call(tid, give_up);
        }
        // The runtime does what the instruction would, and goes back from its signal handler.
        let place = address + length;
        let is_new = self.private_places.insert(place);
        let stop = self.run(give_up);
        if is_new {
            self.private_places.remove(&place);
        }
        match stop? {
            Stop::Breakpoint if self.current == tid && self.process.registers(tid)?.rip == place => Ok(Stop::Step),
            stop => Ok(stop),
        }
    }

    /// Bytes of an instruction that faults so that the runtime can answer it; 0 for all others.
    fn trapped_instruction(&self, address: u64) -> u64 {
        let mut code = [0; 3];
        self.process.read(address, &mut code);
        match code {
            [0x0f, 0x31 | 0xa2, _] | [0xcd, 0xa2 | 0x05, _] => 2,
            [0x0f, 0x01, 0xf9] => 3,
            _ => 0,
        }
    }

    /// Bytes of flags that the instruction pushes: with a flag in them that stepping sets.
    fn pushes_flags(&self, address: u64) -> usize {
        let mut code = [0; 2];
        self.process.read(address, &mut code);
        match code {
            [0x9c, _] | [0x40..=0x4f, 0x9c] => 8,
            [0x66, 0x9c] => 2,
            _ => 0,
        }
    }

    fn clear_pushed_flag(&self, bytes: usize) -> Result<()> {
        const TRAP_FLAG_BYTE: u64 = 1;
        if bytes == 0 {
            return Ok(());
        }
        let at = self.process.registers(self.current)?.rsp + TRAP_FLAG_BYTE;
        let mut byte = [0];
        self.process.read(at, &mut byte);
        Ok(self.process.write(at, &[byte[0] & !1])?)
    }
}
