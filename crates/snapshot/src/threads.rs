//! The state of a stopped process's threads that the kernel and the shared header hold. With it,
//! the threads can be made anew in a copy of the memory.

use crate::process::Process;
use crate::remote;
use crate::slots::{self, SlotState, address_of_slot, slot_of};
use retake_kernel::context::{self, Context};
use retake_kernel::ptrace::{self, Registers};
use retake_kernel::shared::{
    self, Header, MAX_SLOTS, REGION_ALTERNATE, REGION_ALTERNATE_TOP, REGION_CONTEXT,
    REGION_STACK_LOW, TURN_GATES,
};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::io;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// The distance from a thread's context to its signal stack, in its region of the runtime.
const SIGNAL_STACK: u64 = REGION_ALTERNATE - REGION_CONTEXT;
const SIGNAL_STACK_BYTES: u64 = REGION_ALTERNATE_TOP - REGION_ALTERNATE;
/// The distance from a thread's context to the end of a stack that is hardly ever used up.
pub(crate) const SCRATCH: u64 = REGION_STACK_LOW - REGION_CONTEXT;

/// The segments and flags of a thread in user mode.
const USER_CODE: u64 = 0x33;
const USER_DATA: u64 = 0x2b;
const FLAGS: u64 = 0x202;

/// A thread of an image of a recorded process.
pub(crate) struct Recorded {
    /// The address of its context.
    pub context: u64,
    pub stack_top: u64,
    pub thread_base: u64,
    pub extended: Vec<u8>,
    pub slot: SlotState,
}

/// The threads of a process. The one that the stop is about comes first.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Threads {
    all: Vec<Thread>,
    turns: SharedTurns,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Thread {
    #[serde(with = "words")]
    registers: Registers,
    #[serde(with = "digits")]
    extended: Vec<u8>,
    mask: u64,
    slot: SlotState,
}

/// The count of turns in the header, which a process uses that mapped memory shared. If no other
/// process ever sees that memory, the process can be copied, and no other process takes these
/// turns. `None` if others take turns there, or may.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct SharedTurns(Option<u64>);

impl SharedTurns {
    fn of(header: &Header) -> Self {
        let is_alone = header.options.load(Relaxed) & shared::OPTION_ALONE != 0;
        Self(is_alone.then(|| header.shared_domain.completed.load(Acquire)))
    }

    fn put_back(&self, header: &Header) {
        if let Some(completed) = self.0 {
            header.shared_domain.completed.store(completed, Release);
        }
    }
}

impl Threads {
    /// Reads the threads of a stopped process. `None` if one has no slot.
    ///
    /// # Errors
    /// A thread is gone.
    pub fn of(process: &Process, header: &Header, current: i32) -> io::Result<Option<Self>> {
        let others: Vec<i32> = process.threads().filter(|tid| *tid != current).collect();
        let mut all = Vec::new();
        for tid in [current].into_iter().chain(others) {
            let Some(slot) = slot_of(process, tid) else { return Ok(None) };
            all.push(Thread {
                registers: restartable(ptrace::registers(tid)?),
                extended: ptrace::extended_state(tid)?,
                mask: ptrace::signal_mask(tid)?,
                slot: SlotState::of(header, slot),
            });
        }
        Ok(Some(Self { all, turns: SharedTurns::of(header) }))
    }

    /// Makes the threads of an image of a recorded process, whose memory is ready for replay.
    /// `turns`: the last turn that is over, if the process takes turns in the header.
    pub(crate) fn recorded(all: impl Iterator<Item = Recorded>, turns: Option<u64>) -> Self {
        let thread = |one: Recorded| Thread {
            registers: Registers {
                rip: context::ENTER_IMAGE,
                rsp: one.stack_top,
                fs_base: one.thread_base,
                gs_base: one.context,
                cs: USER_CODE,
                ss: USER_DATA,
                eflags: FLAGS,
                orig_rax: u64::MAX,
                ..ptrace::NO_REGISTERS
            },
            extended: one.extended,
            mask: 0,
            slot: one.slot,
        };
        Self { all: all.map(thread).collect(), turns: SharedTurns(turns) }
    }

    /// The extended registers of the thread that the stop is about.
    pub fn extended(&self) -> &[u8] {
        &self.all[0].extended
    }

    /// The addresses of the threads' contexts.
    pub fn contexts(&self) -> impl Iterator<Item = u64> {
        self.all.iter().map(|thread| thread.registers.gs_base)
    }

    /// The threads' streams, and the addresses of their contexts.
    pub fn streams(&self) -> impl Iterator<Item = (u32, u64)> {
        self.all.iter().map(|thread| (thread.slot.stream, thread.registers.gs_base))
    }

    /// The filter of each thread's system calls: the index in the header of the last one, plus 1; 0
    /// if there is none.
    pub fn filters(&self) -> Vec<u32> {
        self.all.iter().map(|thread| thread.slot.filter).collect()
    }

    /// The same threads with other filters.
    #[must_use]
    pub fn with_filters(mut self, filters: &[u32]) -> Self {
        for (thread, filter) in self.all.iter_mut().zip(filters) {
            thread.slot.filter = *filter;
        }
        self
    }

    /// Makes all the threads in a process that has a copy of the memory and one thread. Returns
    /// their IDs, in the same order.
    ///
    /// # Errors
    /// A thread cannot be made, for example for lack of memory.
    pub fn make_in(&self, process: &mut Process) -> io::Result<Vec<i32>> {
        let pid = process.pid;
        remote::intercept_calls(pid)?;
        let mut tids = vec![pid];
        for saved in &self.all[1..] {
            let tid = remote::thread(pid)?;
            process.adopt(tid);
            remote::intercept_calls(tid)?;
            saved.give_signal_stack(process, tid)?;
            tids.push(tid);
        }
        for (saved, &tid) in self.all.iter().zip(&tids) {
            saved.put_back(tid)?;
        }
        Ok(tids)
    }

    /// Gives the first thread its signal stack. Only a process that is no copy needs this: its
    /// first thread has another stack.
    ///
    /// # Errors
    /// The process is gone.
    pub fn give_first_signal_stack(&self, process: &Process) -> io::Result<()> {
        self.all[0].give_signal_stack(process, process.pid)
    }

    /// Puts the threads' state back into the header. Process `pid` with these threads replaces the
    /// process `old`.
    pub fn put_into_header(&self, header: &Header, old: i32, pid: i32, tids: &[i32]) {
        let kept = |index: usize| self.all.iter().any(|thread| thread.slot.index == index);
        for (index, slot) in header.used_slots().iter().enumerate() {
            let used = matches!(
                slot.state.load(Acquire),
                shared::SLOT_CLAIMED | shared::SLOT_LIVE | shared::SLOT_EXITED
            );
            if used && slot.pid.load(Relaxed) as i32 == old && !kept(index) {
                slot.pid.store(0, Relaxed);
                shared::push_ready(header, index);
            }
        }
        // The list of ready slots may also contain slots of ours, if the threads did not exist yet
        // where the process went in the meantime.
        let indices: Vec<usize> = self.all.iter().map(|thread| thread.slot.index).collect();
        shared::withdraw_ready(header, &indices);
        for (thread, &tid) in self.all.iter().zip(tids) {
            thread.slot.put_back(header, pid, tid);
        }
        self.turns.put_back(header);
    }

    /// The number of threads.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Whether a copy can run beside the process. It cannot if the turns are counted in the header,
    /// which has only one count.
    pub fn can_run_beside(&self) -> bool {
        self.turns.0.is_none()
    }

    /// Gives the threads of a copy that runs beside the process their own slots.
    ///
    /// # Errors
    /// The copy is gone.
    pub fn put_into_slots(
        &self,
        header: &Header,
        process: &Process,
        tids: &[i32],
        indices: &[usize],
    ) -> io::Result<()> {
        for ((thread, &tid), &index) in self.all.iter().zip(tids).zip(indices) {
            let (slot, original) = (&header.slots[index], &header.slots[thread.slot.index]);
            for (own, word) in [
                (&slot.pid_space.own, &original.pid_space.own),
                (&slot.pid_space.inner_tid, &original.pid_space.inner_tid),
                (&slot.ties, &original.ties),
            ] {
                own.store(word.load(Relaxed), Relaxed);
            }
            slot.affinity.take(&original.affinity);
            slot.request.kind.store(0, Relaxed);
            slot.request.reply.store(1, Relaxed);
            SlotState { index, ..thread.slot }.put_back(header, process.pid, tid);
            process.memory.write(
                thread.registers.gs_base + context::SLOT,
                &address_of_slot(index).to_le_bytes(),
            )?;
        }
        Ok(())
    }

    // ---- threads from a file ----

    /// Returns what is wrong with the threads, if anything is.
    pub fn fault(&self) -> Option<&'static str> {
        let indices: HashSet<usize> = self.all.iter().map(|thread| thread.slot.index).collect();
        let is_dead = |thread: &&Thread| {
            !matches!(thread.slot.state, shared::SLOT_LIVE | shared::SLOT_EXITED)
        };
        if self.all.is_empty()
            || indices.len() != self.all.len()
            || indices.iter().any(|index| *index >= MAX_SLOTS)
        {
            return Some("its threads have no slots of their own");
        }
        self.all.iter().find(is_dead).map(|_| "one of its threads does not live")
    }

    /// Tells the threads their slots. Returns false if the contexts in memory do not name the
    /// `former` ones.
    ///
    /// # Errors
    /// The process is gone.
    pub fn move_to_slots(&self, process: &Process, former: &[usize]) -> io::Result<bool> {
        for (thread, &former) in self.all.iter().zip(former) {
            let context = thread.registers.gs_base;
            let known = Context::read(process.pid, context).map(|context| context.slot);
            if !known.is_ok_and(|known| known == address_of_slot(former)) {
                return Ok(false);
            }
            let slot = address_of_slot(thread.slot.index).to_le_bytes();
            process.memory.write(context + context::SLOT, &slot)?;
        }
        Ok(true)
    }

    /// Claims slots for the threads in the process `pid`: their former ones, or others if another
    /// process has these. Returns the former ones; `None` if there is no room.
    pub fn claim_slots(&mut self, header: &Header, pid: i32) -> Option<Vec<usize>> {
        let former: Vec<usize> = self.all.iter().map(|thread| thread.slot.index).collect();
        let claimed = slots::claim(header, &former, pid)?;
        for (thread, index) in self.all.iter_mut().zip(claimed) {
            thread.slot.index = index;
        }
        Some(former)
    }

    /// Counts the threads as waiting at the gates of the header. The header counts waiting threads,
    /// and these have not been counted.
    pub fn wait_at_gates(&self, header: &Header) {
        if self.turns.0.is_some() {
            debug_assert_eq!(header.shared_domain.gates.len(), TURN_GATES);
            for gate in &header.shared_domain.gates {
                gate.waiters.fetch_add(1, AcqRel);
            }
        }
    }
}

impl Thread {
    fn put_back(&self, tid: i32) -> io::Result<()> {
        ptrace::set_extended_state(tid, &self.extended)?;
        ptrace::set_signal_mask(tid, self.mask)?;
        ptrace::set_registers(tid, &self.registers)
    }

    fn give_signal_stack(&self, process: &Process, tid: i32) -> io::Result<()> {
        let context = self.registers.gs_base;
        let description: Vec<u8> = [context + SIGNAL_STACK, 0, SIGNAL_STACK_BYTES]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        process.memory.write(context + SCRATCH, &description)?;
        remote::set_signal_stack(tid, context + SCRATCH)
    }
}

/// Resets an interrupted system call, so that the thread makes it again. A call that already
/// continues as `restart_syscall` finds nothing to restart. That ends the wait, and the waiting
/// code checks again.
fn restartable(registers: Registers) -> Registers {
    const RESTARTS: [i64; 4] = [-512, -513, -514, -516];
    let none = u64::MAX;
    if registers.orig_rax != none && RESTARTS.contains(&(registers.rax as i64)) {
        return Registers {
            rax: registers.orig_rax,
            rip: registers.rip - 2,
            orig_rax: none,
            ..registers
        };
    }
    Registers { orig_rax: none, ..registers }
}

/// Serializes registers as a list in the order of the kernel's structure.
mod words {
    use retake_kernel::ptrace::Registers;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[rustfmt::skip]
    pub fn serialize<S: Serializer>(registers: &Registers, serializer: S) -> Result<S::Ok,
        S::Error> {
        let Registers {
            r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi, orig_rax, rip,
                cs, eflags, rsp, ss, fs_base, gs_base, ds, es, fs, gs,
        } = *registers;
        [
            r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi, orig_rax, rip,
                cs, eflags, rsp, ss, fs_base, gs_base, ds, es, fs, gs,
        ].serialize(serializer)
    }

    #[rustfmt::skip]
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Registers, D::Error> {
        let [
            r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi, orig_rax, rip,
                cs, eflags, rsp, ss, fs_base, gs_base, ds, es, fs, gs,
        ] = <[u64; 27]>::deserialize(deserializer)?;
        Ok(Registers {
            r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi, orig_rax, rip,
                cs, eflags, rsp, ss, fs_base, gs_base, ds, es, fs, gs,
        })
    }
}

/// Serializes bytes as hexadecimal digits.
mod digits {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use std::fmt::Write;

    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = String::with_capacity(2 * bytes.len());
        for byte in bytes {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        serializer.serialize_str(&text)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        let pairs = text
            .as_bytes()
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap_or(""), 16));
        pairs.collect::<Result<_, _>>().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(index: usize) -> Thread {
        let registers: Registers =
            words::deserialize(&serde_json::json!((0..27).collect::<Vec<u64>>())).unwrap();
        let slot = SlotState {
            index,
            state: shared::SLOT_LIVE,
            stream: 3,
            baton_state: 1,
            event_count: 9,
            recorded: (4, 5),
            filter: 0,
        };
        Thread { registers, extended: vec![0, 0xff, 7], mask: u64::MAX, slot }
    }

    #[test]
    fn threads_come_back_from_text() {
        let threads = Threads { all: vec![thread(0), thread(7)], turns: SharedTurns(Some(8)) };
        let text = serde_json::to_string(&threads).unwrap();
        let again: Threads = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&again).unwrap(), text);
        assert!(again.fault().is_none() && again.extended() == [0, 0xff, 7]);
        assert_eq!(
            (again.all[1].registers.r15, again.all[1].registers.gs, again.all[1].registers.rip),
            (0, 26, 16)
        );
    }

    #[test]
    fn threads_that_make_no_sense_are_found() {
        let of = |all: Vec<Thread>| Threads { all, turns: SharedTurns(None) };
        assert!(of(vec![]).fault().is_some());
        assert!(of(vec![thread(1), thread(1)]).fault().is_some());
        assert!(of(vec![thread(MAX_SLOTS)]).fault().is_some());
        let mut dead = thread(1);
        dead.slot.state = shared::SLOT_READY;
        assert!(of(vec![dead]).fault().is_some());
        for text in ["0g", "\u{fc}"] {
            assert!(digits::deserialize(&serde_json::json!(text)).is_err(), "{text}");
        }
    }
}
