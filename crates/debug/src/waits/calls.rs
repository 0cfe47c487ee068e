//! Finds the call in which a thread is, and what the call waits for.

use super::Wait;
use super::deeds::Range;
use super::holders::{Holders, Sought};
use crate::error::Result;
use crate::history::LastCall;
use crate::inferior::{Fate, Inferior};
use crate::replay::Replay;
use retake_model::table::{self, number};
use retake_snapshot::in_runtime;

/// The bits of a futex operation that are flags.
const FUTEX_FLAGS: u64 = 128 | 256;
/// FUTEX_WAIT, FUTEX_LOCK_PI, FUTEX_WAIT_BITSET, FUTEX_WAIT_REQUEUE_PI, FUTEX_LOCK_PI2.
const FUTEX_WAITS: [u64; 5] = [0, 6, 9, 11, 13];
/// The sizes of a `struct pollfd` and of a `struct flock`.
const POLLED_BYTES: usize = 8;
const LOCK_BYTES: usize = 32;
/// The most descriptors that are described.
const MOST_POLLED: u64 = 16;
const POLLIN: u16 = 1;
/// Higher numbers are no system calls that wait.
const NO_CALL: u64 = 1024;

/// The threads of the replayed process that wait, at their places.
///
/// # Errors
/// The recording cannot be read, or the process cannot be examined.
pub(crate) fn of_replay(replay: &Replay) -> Result<Vec<Wait>> {
    let is_at_end = replay.inferior.ending.fate != Fate::Open;
    let here = replay.here().filter(|_| !is_at_end);
    let until = here.and_then(|here| replay.history.time(here)).map(|(ns, _)| ns);
    let holders = Holders::of(&replay.history.recording, until)?;
    let mut waits = Vec::new();
    for (tid, known) in replay.inferior.threads() {
        let Some(call) = call_of(replay, tid)? else { continue };
        let pid = replay.history.target.pid;
        let asked = Asked { inferior: &replay.inferior, holders: &holders, pid, call };
        if let Some(((what, helpers), is_bounded)) = asked.sought() {
            waits.push(Wait {
                pid,
                tid: known as i32,
                call: table::call(call.number).map_or("?", |row| row.name).to_owned(),
                what,
                futex: (call.number == number::FUTEX).then_some(call.arguments[0]),
                helpers,
                is_bounded,
            });
        }
    }
    Ok(waits)
}

/// A call that a thread is in.
#[derive(Debug, Clone, Copy)]
struct Call {
    number: u16,
    arguments: [u64; 6],
}

/// The call in which a thread is, or that a signal has just interrupted.
fn call_of(replay: &Replay, tid: i32) -> Result<Option<Call>> {
    if !in_runtime(replay.inferior.process.registers(tid)?.rip) {
        return Ok(None);
    }
    let place = replay.consumed(tid);
    match place.map(|place| replay.history.last_call(place)).transpose()? {
        Some(LastCall::Interrupted { number, arguments }) => {
            return Ok(Some(Call { number, arguments }));
        }
        Some(LastCall::Over) => return Ok(None),
        Some(LastCall::Open) | None => {}
    }
    let shown = replay.inferior.registers(tid)?;
    Ok((shown.rax < NO_CALL).then_some(Call {
        number: shown.rax as u16,
        arguments: [shown.rdi, shown.rsi, shown.rdx, shown.r10, shown.r8, shown.r9],
    }))
}

/// A call, and the process that made it.
struct Asked<'a> {
    inferior: &'a Inferior,
    holders: &'a Holders,
    pid: i32,
    call: Call,
}

impl Asked<'_> {
    /// What the call waits for, and whether it ends by itself; `None` if it does not wait.
    fn sought(&self) -> Option<(Sought, bool)> {
        let [first, second, third, fourth, ..] = self.call.arguments;
        let nobody = |what: &str| (what.to_owned(), Vec::new());
        let data = |is_input| self.holders.data(self.pid, first as u32, is_input);
        Some(match self.call.number {
            number::FUTEX if FUTEX_WAITS.contains(&(second & !FUTEX_FLAGS)) => {
                (nobody(&format!("futex {first:#x}")), fourth != 0)
            }
            number::READ | number::READV | number::RECVFROM | number::RECVMSG => {
                (data(true), false)
            }
            number::WRITE | number::WRITEV | number::SENDTO | number::SENDMSG => {
                (data(false), false)
            }
            number::POLL => (self.polled(first, second), third as i32 >= 0),
            number::PPOLL => (self.polled(first, second), third != 0),
            number::SELECT | number::PSELECT6 => {
                (nobody("one of several descriptors"), self.call.arguments[4] != 0)
            }
            number::EPOLL_WAIT | number::EPOLL_PWAIT | number::EPOLL_PWAIT2 => {
                (nobody(&format!("an event of epoll (descriptor {first})")), fourth as i32 >= 0)
            }
            number::ACCEPT | number::ACCEPT4 => {
                (nobody(&format!("a connection (descriptor {first})")), false)
            }
            number::CONNECT => (nobody("the other side of a connection"), false),
            number::FLOCK => (self.holders.lock(self.pid, first as u32, None), false),
            number::FCNTL if is_locking(second) => {
                let range = Range::of(&self.bytes(third, LOCK_BYTES));
                (self.holders.lock(self.pid, first as u32, range), false)
            }
            number::WAIT4 => {
                let which = Some(first as i32).filter(|pid| *pid > 0);
                (self.holders.children(self.pid, which), false)
            }
            number::WAITID => {
                let which = (first == u64::from(libc::P_PID)).then_some(second as i32);
                (self.holders.children(self.pid, which), false)
            }
            number::NANOSLEEP | number::CLOCK_NANOSLEEP => (nobody("time to pass"), true),
            number::PAUSE | number::RT_SIGSUSPEND => (nobody("a signal"), false),
            number::RT_SIGTIMEDWAIT => (nobody("a signal"), third != 0),
            number::SEMOP => (nobody("a System V semaphore"), false),
            number::MSGRCV => (nobody("a System V message"), false),
            number::OPEN | number::OPENAT => {
                (nobody("a process that opens the other end of a FIFO"), false)
            }
            _ => return None,
        })
    }

    fn bytes(&self, address: u64, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        let read = self.inferior.read(address, &mut bytes);
        bytes.truncate(read);
        bytes
    }

    /// The descriptors that the call polls. Any of them ends the wait.
    fn polled(&self, address: u64, count: u64) -> Sought {
        let bytes = self.bytes(address, count.min(MOST_POLLED) as usize * POLLED_BYTES);
        let mut sought = bytes.chunks_exact(POLLED_BYTES).map(|polled| {
            let descriptor = u32::from_le_bytes([polled[0], polled[1], polled[2], polled[3]]);
            let wanted = u16::from_le_bytes([polled[4], polled[5]]);
            self.holders.data(self.pid, descriptor, wanted & POLLIN != 0)
        });
        if count == 1
            && let Some(only) = sought.next()
        {
            return only;
        }
        let all: Vec<Sought> = sought.collect();
        // If the helpers of one descriptor are unknown, those of all are.
        let helpers = if all.iter().all(|(_, helpers)| !helpers.is_empty()) {
            all.into_iter().flat_map(|(_, helpers)| helpers).collect()
        } else {
            Vec::new()
        };
        (format!("one of {count} descriptors"), helpers)
    }
}

fn is_locking(command: u64) -> bool {
    matches!(command as i32, libc::F_SETLKW | libc::F_OFD_SETLKW)
}
