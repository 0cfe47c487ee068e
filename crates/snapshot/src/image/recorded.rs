//! Images of recorded processes. The runtime has made a copy, and of the copy's memory what a
//! replay needs (runtime/calls/image.c); here it is written down.

use super::write::{Files, Image};
use super::{ImageError, Result};
use crate::slots::{SlotState, slot_at};
use crate::threads::{Recorded, Threads};
use retake_kernel::context::{self, Context, IN_IMAGE_NOT, IN_IMAGE_READY, IN_IMAGE_TAKER};
use retake_kernel::maps::{self, Mapping};
use retake_kernel::shared::{
    self, FORCE_PLACES, Header, REGION_CONTEXT, REGION_EXTENDED, REGION_STACK_LOW, REGION_STRIDE,
    REGIONS,
};
use retake_kernel::{memory, process};
use retake_recording::ContentId;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// A copy is ready soon after it was made, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
const NAP: Duration = Duration::from_millis(1);
/// `XCOMP_BV`, in the header behind the legacy part of what XSAVE writes.
const COMPACTED: usize = 520;

/// Where the process is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whereabouts {
    /// Its number, as the program knows it.
    pub pid: i32,
    /// The thread that took the image.
    pub thread: u32,
    /// Events of that thread so far, and the turn that it has.
    pub events: u64,
    pub turn: u64,
    /// Of each thread: its number, and events so far.
    pub counts: Vec<(u32, u64)>,
    /// The number of the last output on the console.
    pub console: u64,
}

/// A thread of the copy.
struct Found {
    address: u64,
    context: Context,
}

/// An image of the copy with this number. `content`: what of the recording's files a mapping shows.
///
/// # Errors
/// `Refused`: no replay could begin there. The copy is gone.
pub fn image(
    pid: i32,
    header: &Header,
    content: &dyn Fn(&Mapping) -> Option<ContentId>,
) -> Result<(Image, Whereabouts)> {
    let found = wait_until_ready(pid)?;
    let threads = found.iter().map(|one| recorded(pid, header, one)).collect::<Result<Vec<_>>>()?;
    let image = Image::with(
        pid,
        &Threads::recorded(threads.into_iter()),
        header,
        &Files::Recorded(content),
    )?;
    let taker = &found[0];
    let here = Whereabouts {
        pid: taker.context.pid as i32,
        thread: taker.context.tid,
        events: taker.context.event_count,
        turn: taker.context.turn,
        counts: found.iter().map(|one| (one.context.tid, one.context.event_count)).collect(),
        console: word(pid, taker.address + context::IMAGE_CONSOLE)?,
    };
    Ok((image, here))
}

/// The threads that are in the image, who took it first.
fn wait_until_ready(pid: i32) -> Result<Vec<Found>> {
    let since = Instant::now();
    let taker = loop {
        let all = contexts(pid)?;
        if let Some(taker) = all.iter().find(|(_, state)| *state == IN_IMAGE_READY) {
            break *taker;
        }
        let is_there = all.iter().any(|(_, state)| *state == IN_IMAGE_TAKER);
        if !is_there || process::is_gone(pid) || since.elapsed() > PATIENCE {
            return Err(ImageError::System(io::Error::other("the copy of the process is gone")));
        }
        std::thread::sleep(NAP);
    };
    let others = contexts(pid)?.into_iter().filter(|one| one.0 != taker.0 && one.1 != IN_IMAGE_NOT);
    let read =
        |(address, _): (u64, u32)| Ok(Found { address, context: Context::read(pid, address)? });
    [taker].into_iter().chain(others).map(read).collect()
}

/// Of each region: the address of its context, and whether that is in the image.
fn contexts(pid: i32) -> Result<Vec<(u64, u32)>> {
    let mappings = maps::of_process(pid)?.into_iter();
    let regions = mappings
        .filter(|one| one.start >= REGIONS && one.end <= FORCE_PLACES && one.inode == 0)
        .flat_map(|one| (one.start..one.end).step_by(REGION_STRIDE as usize));
    let state = |region: u64| {
        let address = region + REGION_CONTEXT;
        Ok((address, word(pid, address + context::IN_IMAGE)? as u32))
    };
    regions.map(state).collect()
}

fn word(pid: i32, address: u64) -> io::Result<u64> {
    let mut bytes = [0; 8];
    memory::peek(pid, address, &mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

fn recorded(pid: i32, header: &Header, one: &Found) -> Result<Recorded> {
    let Found { address, context } = one;
    let bytes = header.extended_bytes.load(Relaxed) as usize;
    let index = slot_at(context.slot)
        .ok_or_else(|| ImageError::Refused("a thread of it has no slot".to_owned()))?;
    if bytes > (REGION_STACK_LOW - REGION_EXTENDED) as usize {
        return Err(ImageError::Refused(format!("{bytes} bytes of registers have no room")));
    }
    let area = address - REGION_CONTEXT + REGION_EXTENDED;
    let mut extended = memory::peek_vec(pid, area, bytes)?;
    extended[COMPACTED..COMPACTED + 8].fill(0);
    let has_turn = context.turn != 0;
    Ok(Recorded {
        context: *address,
        stack_top: word(pid, address + context::STACK_TOP)?,
        thread_base: word(pid, address + context::THREAD_BASE)?,
        extended,
        slot: SlotState {
            index,
            state: shared::SLOT_LIVE,
            stream: word(pid, address + context::IMAGE_STREAM)? as u32,
            baton_state: if has_turn { shared::BATON_HOLDING } else { shared::BATON_NONE },
            event_count: context.event_count,
            recorded: (context.pid, context.tid),
            filter: word(pid, address + context::IMAGE_FILTER)? as u32,
        },
    })
}
