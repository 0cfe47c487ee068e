//! Tells which stretches certainly have no stop, so that going backwards skips them.

use crate::checkpoint::Checkpoint;
use crate::inferior::Inferior;
use crate::stretch::Past;
use crate::text::Text;
use crate::watchpoints::Watchpoint;
use retake_kernel::memory;

/// The address where the dynamic linker stops for debuggers, and the address of the state that it
/// writes before.
pub(super) type LinkerStop = Option<(u64, u64)>;

/// Whether something may stop the program in a stretch, or where it begins. `past` is what is known
/// about the stretch. Debuggers always have a breakpoint where the dynamic linker stops for them.
/// The linker stops there only after it has written its state, whose address is known.
pub(super) fn can_stop(
    inferior: &Inferior,
    start: &Checkpoint,
    end: &Checkpoint,
    past: &Past,
    linker: LinkerStop,
) -> bool {
    const STATE_BYTES: u64 = 32;
    let Some(writes) = past.writes.as_ref().filter(|_| past.signals.are_in(inferior.passed)) else {
        return true;
    };
    if start.announced.is_some_and(|stop| inferior.wants(stop)) {
        return true;
    }
    let stops = &inferior.stops;
    if start.has_events_before(end) && !stops.catches.is_empty() {
        return true;
    }
    let stands_at = inferior.text.shown(start.place.address());
    let is_unhit = |address: u64| {
        address != stands_at
            && (past.unhit.has(address, stops.conditions_at(address))
                || is_unexecuted(&inferior.text, address, past))
    };
    let is_passed = |address: u64| {
        linker.is_some_and(|(stop, state)| address == stop && !writes.touch(state, STATE_BYTES))
            || is_unhit(address)
    };
    stops.breakpoints.iter().any(|&address| !is_passed(address))
        || stops.watchpoints.iter().any(|watchpoint| {
            !watchpoint.is_for_writing()
                || writes.touch(watchpoint.address, watchpoint.bytes)
                || is_other_memory(start, end, watchpoint)
        })
}

/// Whether watched memory differs at the end of a stretch that did not write to it, because the
/// program has mapped or unmapped it.
fn is_other_memory(start: &Checkpoint, end: &Checkpoint, watchpoint: &Watchpoint) -> bool {
    let contents = |one: &Checkpoint| {
        let mut bytes = vec![0; watchpoint.bytes as usize];
        memory::peek(one.snapshot.pid, watchpoint.address, &mut bytes).ok().map(|()| bytes)
    };
    contents(start) != contents(end)
}

/// Whether a stretch certainly did not reach an address.
fn is_unexecuted(text: &Text, address: u64, past: &Past) -> bool {
    let places = text.places(address);
    let is_excluded = |place: &u64| {
        text.mapping(*place).is_some_and(|mapping| past.executed.excludes(*place, mapping))
    };
    !places.is_empty() && places.iter().all(is_excluded)
}
