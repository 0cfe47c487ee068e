//! Images of recorded processes. The runtime has made a copy of the process whose memory is what a
//! replay needs (runtime/calls/image.c). This module describes and writes that copy.

use super::shared::SharedMemory;
use super::write::{Files, Image};
use super::{ImageError, Result};
use crate::slots::{SlotState, address_of_shared_domain, slot_at};
use crate::threads::{Recorded, Threads};
use retake_kernel::context::{self, Context, IN_IMAGE_NOT, IN_IMAGE_READY, IN_IMAGE_TAKER};
use retake_kernel::maps::{self, Mapping};
use retake_kernel::shared::{
    self, FORCE_PLACES, Header, REGION_CONTEXT, REGION_EXTENDED, REGION_STACK_LOW, REGION_STRIDE,
    REGIONS,
};
use retake_kernel::{memory, process};
use retake_recording::{ContentId, Place};
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// How long a copy may take to be ready. Even on a busy machine it is ready soon.
const PATIENCE: Duration = Duration::from_secs(20);
const NAP: Duration = Duration::from_millis(1);
/// The offset of `XCOMP_BV` in the output of XSAVE, in the header after the legacy part.
const COMPACTED: usize = 520;

/// Where the process was when its image was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whereabouts {
    /// The process ID that the program sees.
    pub pid: i32,
    /// The ID of the thread that took the image.
    pub thread: u32,
    /// The events of that thread so far, and the turn that it holds.
    pub events: u64,
    pub turn: u64,
    /// The ID of each thread, and the number of its events so far.
    pub counts: Vec<(u32, u64)>,
    /// The stream of each thread, and where the thread is in it.
    pub streams: Vec<(u32, Place)>,
    /// The number of the last output on the console.
    pub console: u64,
    /// Whether it takes turns with the processes that share memory with it.
    pub shares_turns: bool,
}

/// A thread of the copy.
struct Found {
    address: u64,
    context: Context,
}

/// Returns an image of the copy with this process ID. `content` returns the content that a mapping
/// shows, if the recording has it; `shared` is the memory that the process shares.
///
/// # Errors
/// `Refused` if no replay could begin there. The copy is gone.
pub fn image(
    pid: i32,
    header: &Header,
    content: &dyn Fn(&Mapping) -> Option<ContentId>,
    shared: &SharedMemory,
) -> Result<(Image, Whereabouts)> {
    let found = wait_until_ready(pid)?;
    let threads = found.iter().map(|one| recorded(pid, header, one)).collect::<Result<Vec<_>>>()?;
    let taker = &found[0];
    let shares_turns = word(pid, taker.address + context::DOMAIN)? == address_of_shared_domain();
    let turns = shares_turns.then(|| taker.context.turn.saturating_sub(1));
    let image = Image::with(
        pid,
        &Threads::recorded(threads.into_iter(), turns),
        header,
        &Files::Recorded(content, shared),
    )?;
    let here = Whereabouts {
        pid: taker.context.pid as i32,
        thread: taker.context.tid,
        events: taker.context.event_count,
        turn: taker.context.turn,
        counts: found.iter().map(|one| (one.context.tid, one.context.event_count)).collect(),
        streams: found.iter().map(|one| stream(pid, one)).collect::<io::Result<_>>()?,
        console: word(pid, taker.address + context::IMAGE_CONSOLE)?,
        shares_turns,
    };
    Ok((image, here))
}

/// Waits for the copy. Returns the threads of the image; the one that took it comes first.
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

/// The address of the context in each region, and whether the thread is in the image.
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

/// The thread's stream, and where the thread is in it.
fn stream(pid: i32, one: &Found) -> io::Result<(u32, Place)> {
    let number = word(pid, one.address + context::IMAGE_STREAM)? as u32;
    let bytes = word(pid, one.address + context::LOG_OFFSET)?;
    Ok((number, Place { bytes, events: one.context.event_count }))
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
        .ok_or_else(|| ImageError::Refused("one of its threads has no slot".to_owned()))?;
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
