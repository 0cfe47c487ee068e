//! Going through a range of code, such as a line's, at the program's speed while it stays in the
//! range.

use crate::error::Result;
use crate::inferior::{GiveUp, Inferior, Stop};
use crate::travel::Travel;
use retake_patch::range::ways_out;
use std::collections::BTreeSet;
use std::ops::Range;

/// The number of steps before running. Most lines are left after fewer instructions.
const STEPS: usize = 32;
/// The most code that is run through at once; larger ranges are stepped through. No line has more.
const LONGEST: u64 = 64 << 10;

/// Goes on until a thread leaves a range of addresses, or something else stops it.
pub(crate) fn forward_through(
    travel: &mut Travel,
    tid: Option<i32>,
    range: &Range<u64>,
    give_up: GiveUp,
) -> Result<Stop> {
    for _ in 0..STEPS {
        if let Some(stop) = step_in(travel, tid, range, give_up)? {
            return Ok(stop);
        }
    }
    // The debugger asks for the range again if the program is still in it.
    let Some(ways) = ways_out_of(&travel.timeline.replay.inferior, range) else {
        return Ok(Stop::Step);
    };
    let before = travel.timeline.replay.inferior.planting.private_places.clone();
    travel.timeline.replay.inferior.planting.private_places.extend(ways);
    let stop = run_in(travel, range, give_up);
    travel.timeline.replay.inferior.planting.private_places = before;
    stop
}

/// Executes one instruction. Returns `None` if the thread is still in the range and nothing stopped
/// it.
fn step_in(
    travel: &mut Travel,
    tid: Option<i32>,
    range: &Range<u64>,
    give_up: GiveUp,
) -> Result<Option<Stop>> {
    let stop = travel.forward_step(tid, give_up)?;
    let address = travel.timeline.replay.inferior.program_counter()?;
    let is_over = stop != Stop::Step
        || !range.contains(&address)
        || travel.timeline.replay.inferior.stops.breakpoints.contains(&address);
    Ok(is_over.then_some(stop))
}

fn run_in(travel: &mut Travel, range: &Range<u64>, give_up: GiveUp) -> Result<Stop> {
    let tid = travel.timeline.replay.inferior.current;
    loop {
        let stop = travel.timeline.forward(give_up)?;
        let address = travel.timeline.replay.inferior.program_counter()?;
        if stop != Stop::Breakpoint
            || travel.timeline.replay.inferior.stops.breakpoints.contains(&address)
        {
            return Ok(stop);
        }
        if travel.timeline.replay.inferior.current != tid {
            // Another thread goes the same way.
            continue;
        }
        if !range.contains(&address) {
            return Ok(Stop::Step);
        }
        if let Some(stop) = step_in(travel, Some(tid), range, give_up)? {
            return Ok(stop);
        }
    }
}

fn ways_out_of(inferior: &Inferior, range: &Range<u64>) -> Option<BTreeSet<u64>> {
    let bytes = range.end.checked_sub(range.start).filter(|bytes| *bytes <= LONGEST)?;
    let mut code = vec![0; bytes as usize];
    if inferior.read(range.start, &mut code) != code.len() {
        return None;
    }
    let ways = ways_out(range.start, &code)?;
    Some(ways.into_iter().flat_map(|address| inferior.text.places(address)).collect())
}
