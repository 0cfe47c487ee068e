//! The system calls of a diversion. Calls that concern only the copy are executed in it. Output
//! goes to the debugger's console. Many other calls get an answer without being executed. Calls
//! that would act on the world outside are refused, which is reported once for each call.

use super::Diversion;
use crate::error::Result;
use crate::inferior::Stop;
use retake_model::table;
use retake_snapshot::remote;

/// The most output of one call. The rest is cut off.
const MOST_OUTPUT_BYTES: u64 = 64 << 10;
const MOST_PIECES: u64 = 64;
const MAP_ANONYMOUS: u64 = 0x20;
const MAP_SHARED_TYPES: u64 = 0x1;
const FUTEX_COMMAND: u64 = 0x7f;
const FUTEX_WAKES: [u64; 4] = [1, 3, 4, 5];
const STAT_BYTES: usize = 144;
const STAT_MODE_OFFSET: usize = 24;
const STAT_DEVICE_OFFSET: usize = 40;
const TERMINAL_MODE: u32 = 0o020_620;
const TERMINAL_DEVICE: u64 = 136 << 8;

/// What happens to a call.
pub(super) enum Answer {
    Result(i64),
    /// The called function cannot go on.
    Stop(Stop),
}

/// Answers a call of the stopped process.
pub(super) fn answer(
    diversion: &mut Diversion,
    number: u64,
    arguments: [u64; 5],
) -> Result<Answer> {
    let [first, second, third, fourth, _] = arguments;
    let number = i64::from(number as u32);
    let result = match number {
        libc::SYS_write => diversion.output(first, &[(second, third)]),
        libc::SYS_writev => diversion.output(first, &pieces(diversion, second, third)),
        libc::SYS_mmap if fourth & MAP_ANONYMOUS != 0 && fourth & MAP_SHARED_TYPES == 0 => {
            return execute(diversion, number, arguments);
        }
        _ if is_of_the_copy(number) => return execute(diversion, number, arguments),
        libc::SYS_getpid | libc::SYS_gettid => number_of(diversion, number),
        libc::SYS_fstat if first <= 2 => terminal(diversion, second),
        libc::SYS_newfstatat if first <= 2 && is_empty(diversion, second) => {
            terminal(diversion, third)
        }
        libc::SYS_ioctl if first <= 2 && second == libc::TCGETS => 0,
        libc::SYS_futex if FUTEX_WAKES.contains(&(second & FUTEX_COMMAND)) => 0,
        libc::SYS_futex | libc::SYS_pause | libc::SYS_rt_sigsuspend | libc::SYS_wait4 => {
            return Ok(stuck(
                diversion,
                number,
                "waits for something that cannot happen here",
                Stop::Interrupted,
            ));
        }
        libc::SYS_exit | libc::SYS_exit_group => {
            return Ok(stuck(diversion, number, "would end the program", Stop::Interrupted));
        }
        libc::SYS_tgkill => {
            return Ok(stuck(diversion, number, "would send a signal", Stop::Signal(third as i32)));
        }
        libc::SYS_kill | libc::SYS_tkill => {
            return Ok(stuck(
                diversion,
                number,
                "would send a signal",
                Stop::Signal(second as i32),
            ));
        }
        libc::SYS_rt_sigprocmask => old_mask(diversion, third),
        _ if is_harmless(number) => 0,
        _ => diversion.refuse(number),
    };
    Ok(Answer::Result(result))
}

/// Whether a call reads clocks, limits and the like, or changes only the copy's own memory.
fn is_of_the_copy(number: i64) -> bool {
    const CALLS: [i64; 25] = [
        libc::SYS_munmap,
        libc::SYS_mprotect,
        libc::SYS_mremap,
        libc::SYS_madvise,
        libc::SYS_clock_gettime,
        libc::SYS_clock_getres,
        libc::SYS_gettimeofday,
        libc::SYS_time,
        libc::SYS_times,
        libc::SYS_getrusage,
        libc::SYS_getrandom,
        libc::SYS_uname,
        libc::SYS_sysinfo,
        libc::SYS_getrlimit,
        libc::SYS_getuid,
        libc::SYS_geteuid,
        libc::SYS_getgid,
        libc::SYS_getegid,
        libc::SYS_getcpu,
        libc::SYS_sched_getaffinity,
        libc::SYS_sched_yield,
        libc::SYS_sched_getparam,
        libc::SYS_sched_getscheduler,
        libc::SYS_mincore,
        libc::SYS_membarrier,
    ];
    CALLS.contains(&number)
}

/// Whether a call has no effect that anything sees before the diversion ends. The program break
/// cannot be moved; allocators map memory then.
fn is_harmless(number: i64) -> bool {
    const CALLS: [i64; 15] = [
        libc::SYS_brk,
        libc::SYS_rt_sigaction,
        libc::SYS_sigaltstack,
        libc::SYS_nanosleep,
        libc::SYS_clock_nanosleep,
        libc::SYS_fsync,
        libc::SYS_fdatasync,
        libc::SYS_sync,
        libc::SYS_set_robust_list,
        libc::SYS_alarm,
        libc::SYS_setitimer,
        libc::SYS_poll,
        libc::SYS_ppoll,
        libc::SYS_select,
        libc::SYS_pselect6,
    ];
    CALLS.contains(&number)
}

fn execute(diversion: &Diversion, number: i64, arguments: [u64; 5]) -> Result<Answer> {
    Ok(Answer::Result(remote::call(diversion.process.pid, number, arguments)?.0))
}

fn stuck(diversion: &mut Diversion, number: i64, why: &str, stop: Stop) -> Answer {
    let line = format!(
        "retake: {} {why}; the called function cannot go on. The program continues from the \
        recording.\n",
        name(number)
    );
    diversion.console.push_str(&line);
    Answer::Stop(stop)
}

fn name(number: i64) -> &'static str {
    let row = u16::try_from(number).ok().and_then(table::call);
    row.map_or("an unknown system call", |row| row.name)
}

fn pieces(diversion: &Diversion, vector: u64, count: u64) -> Vec<(u64, u64)> {
    let word = |at: u64| diversion.process.memory.word(at).unwrap_or(0);
    (0..count.min(MOST_PIECES))
        .map(|index| vector.wrapping_add(16 * index))
        .map(|at| (word(at), word(at.wrapping_add(8))))
        .collect()
}

fn is_empty(diversion: &Diversion, name: u64) -> bool {
    let mut byte = [1];
    diversion.process.memory.read(name, &mut byte) == 1 && byte[0] == 0
}

/// The ID of the process or thread as the program knows it.
fn number_of(diversion: &Diversion, number: i64) -> i64 {
    let context = diversion.process.context(diversion.process.pid).unwrap_or_default();
    i64::from(if number == libc::SYS_getpid { context.pid } else { context.tid })
}

fn old_mask(diversion: &Diversion, address: u64) -> i64 {
    let mask = diversion.process.context(diversion.process.pid).unwrap_or_default().signal_mask;
    put(diversion, address, &mask.to_le_bytes())
}

/// Answers the question of a C library before it prints: standard output is a terminal for users.
fn terminal(diversion: &Diversion, address: u64) -> i64 {
    let mut bytes = [0; STAT_BYTES];
    bytes[STAT_MODE_OFFSET..STAT_MODE_OFFSET + 4].copy_from_slice(&TERMINAL_MODE.to_le_bytes());
    bytes[STAT_DEVICE_OFFSET..STAT_DEVICE_OFFSET + 8]
        .copy_from_slice(&TERMINAL_DEVICE.to_le_bytes());
    put(diversion, address, &bytes)
}

fn put(diversion: &Diversion, address: u64, bytes: &[u8]) -> i64 {
    if address != 0 && diversion.process.memory.write(address, bytes).is_err() {
        return -i64::from(libc::EFAULT);
    }
    0
}

impl Diversion {
    fn output(&mut self, descriptor: u64, pieces: &[(u64, u64)]) -> i64 {
        if !(1..=2).contains(&descriptor) {
            return self.refuse(libc::SYS_write);
        }
        let mut total = 0;
        for &(address, count) in pieces {
            let mut bytes = vec![0; count.min(MOST_OUTPUT_BYTES) as usize];
            let there = self.process.memory.read(address, &mut bytes);
            self.console.push_str(&String::from_utf8_lossy(&bytes[..there]));
            total += count as i64;
        }
        total
    }

    /// Refuses a call that would act on something outside of this copy.
    fn refuse(&mut self, number: i64) -> i64 {
        if self.refused.insert(number as u64) {
            let line = format!(
                "retake: {} is not executed here: it would act outside of the copy of the program, \
                in which called functions run\n",
                name(number)
            );
            self.console.push_str(&line);
        }
        -i64::from(libc::EPERM)
    }
}
