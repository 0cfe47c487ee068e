//! Clocks: those of the system, which the runtime uses too, and the time-stamp counter as a clock.

use crate::{check, cpuid};
use std::arch::x86_64::{__cpuid, _rdtsc};
use std::io;
use std::time::{Duration, SystemTime};

/// Converts the counter to time: `ns + (counter_now - counter) * scale / 2^32`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CounterClock {
    /// The counter at the time `ns`.
    pub counter: u64,
    /// A time in nanoseconds since 1970.
    pub ns: u64,
    /// The nanoseconds of a tick, with 32 fractional bits.
    pub scale: u64,
}

/// The time for measuring the rate: long enough for an error of a few millionths.
const MEASURED: Duration = Duration::from_millis(10);
const ATTEMPTS: usize = 5;

/// Returns the time in nanoseconds since 1970.
///
/// # Errors
/// None on Linux.
pub fn real_time_ns() -> io::Result<u64> {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one structure of that type.
    check(i64::from(unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &mut now) }))?;
    Ok(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

/// Returns the monotonic clock in nanoseconds.
pub fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is valid for the call, which cannot fail for this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Whether the counter runs at one constant rate, on all processors and while they sleep.
pub fn counter_is_steady() -> bool {
    __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & 1 << 8 != 0
}

/// Returns the rate of a steady counter, as precisely as CPUID knows it.
pub fn steady_ticks_per_second() -> Option<u64> {
    counter_is_steady().then(cpuid::ticks_per_second)
}

/// Measures the counter, which takes 10 milliseconds. Returns `None` if the counter is not steady
/// or there is no RDTSCP.
pub fn measure() -> Option<CounterClock> {
    let highest = __cpuid(0x8000_0000).eax;
    let rdtscp = highest >= 0x8000_0001 && __cpuid(0x8000_0001).edx & 1 << 27 != 0;
    if !counter_is_steady() || !rdtscp {
        return None;
    }
    let (first_counter, first_ns) = pair().ok()?;
    std::thread::sleep(MEASURED);
    let (counter, ns) = pair().ok()?;
    let (ticks, elapsed) = (counter.checked_sub(first_counter)?, ns.checked_sub(first_ns)?);
    let scale = (u128::from(elapsed) << 32).checked_div(u128::from(ticks))?;
    // A rate below 100 MHz or above 100 GHz does not belong to a time-stamp counter.
    (scale > 1 << 25 && scale < 10 << 32).then_some(CounterClock {
        counter,
        ns,
        scale: scale as u64,
    })
}

/// Reads the counter and the time at the same moment, as nearly as possible.
fn pair() -> io::Result<(u64, u64)> {
    let (counter, ns) = at_once(real_time_ns);
    Ok((counter, ns?))
}

/// Returns milliseconds since 1970; 0 if the clock is before 1970.
pub fn unix_ms() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as u64)
}

/// Returns the time-stamp counter.
pub fn counter() -> u64 {
    // SAFETY: reads a register; this process has not asked for it to fault.
    unsafe { _rdtsc() }
}

/// Reads three clocks at the same moment, as nearly as possible: the counter in ticks, the time in
/// nanoseconds since 1970, and the monotonic clock in nanoseconds.
pub fn moment() -> [u64; 3] {
    let (counter, (unix_ns, monotonic_ns)) =
        at_once(|| (real_time_ns().unwrap_or(0), monotonic_ns()));
    [counter, unix_ns, monotonic_ns]
}

/// Returns the counter and the value that was read at the same time.
fn at_once<T>(read: impl Fn() -> T) -> (u64, T) {
    let attempt = |_| {
        let before = counter();
        let value = read();
        let width = counter().wrapping_sub(before);
        (width, before.wrapping_add(width / 2), value)
    };
    let best = (0..ATTEMPTS).map(attempt).min_by_key(|attempt| attempt.0);
    let (_, counter, value) = best.expect("there are some attempts");
    (counter, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_tells_the_time() {
        let Some(clock) = measure() else {
            eprintln!("skipped: this processor's counter is no clock");
            return;
        };
        std::thread::sleep(Duration::from_millis(20));
        let (counter, ns) = pair().unwrap();
        let told = clock.ns
            + ((u128::from(counter - clock.counter) * u128::from(clock.scale)) >> 32) as u64;
        assert!(told.abs_diff(ns) < 1_000_000, "{told} instead of {ns}");
    }
}
