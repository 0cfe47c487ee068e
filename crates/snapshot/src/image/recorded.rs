//! Images of recorded processes. The runtime has made a copy of the process whose memory is what a
//! replay needs (runtime/calls/image.c). This module describes and writes that copy.
//!
//! A process that shares memory with the copied one is read itself. It does not run meanwhile, as
//! another thread has the baton. Its memory stays that of a recorded process; a replay converts it.

use super::write::{Files, Image, Known};
use super::{ImageError, Result};
use crate::slots::{SlotState, address_of_shared_domain, slot_at};
use crate::threads::{Recorded, Threads};
use retake_contract::context::{GOES_ON_NOT, IN_IMAGE_YES, PROCESS_DOMAIN, PROCESS_SEEN, seen};
use retake_contract::events::STAMP_WHOLE;
use retake_kernel::context::{self, Context, IN_IMAGE_NOT, IN_IMAGE_READY, IN_IMAGE_TAKER};
use retake_kernel::shared::{
    self, FORCE_PLACES, Header, REGION_CONTEXT, REGION_EXTENDED, REGION_STACK_LOW, REGION_STRIDE,
    REGIONS, RUNTIME_DATA,
};
use retake_kernel::{maps, memory, process};
use retake_recording::Place;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
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

/// An image of one process, and where the process was.
pub struct ProcessImage {
    pub image: Image,
    pub here: Whereabouts,
    /// Where its program began: a stream, and the number of events before that point.
    pub program: (u32, u64),
}

/// A thread of the image.
struct Found {
    address: u64,
    context: Context,
    stream: u32,
    filter: u32,
    /// Its place in the stream, in bytes.
    log_offset: u64,
    /// Whether it has the baton.
    has_turn: bool,
}

/// Returns an image of the copy with this process ID. `program` is where its program began.
///
/// # Errors
/// `Refused` if no replay could begin there. The copy is gone.
pub fn image(
    pid: i32,
    header: &Header,
    known: &Known<'_>,
    program: (u32, u64),
) -> Result<ProcessImage> {
    let memory = memory::of_process(pid)?;
    let found = wait_until_ready(pid, &memory)?;
    let taker = &found[0];
    let shares_turns =
        word(&memory, taker.address + context::DOMAIN)? == address_of_shared_domain();
    let (turn, console) =
        (taker.context.turn, word(&memory, taker.address + context::IMAGE_CONSOLE)?);
    let here = whereabouts(&found, turn, console, shares_turns);
    let image = with_threads(pid, &memory, header, known, &found, &here)?;
    Ok(ProcessImage { image, here, program })
}

/// Returns an image of a process that goes on afterwards, and that shares memory with the one whose
/// thread has the baton; `None` if one of its threads is not at rest.
///
/// # Errors
/// `Refused` if no replay could begin there. The process is gone.
pub fn image_of_sharer(
    pid: i32,
    header: &Header,
    known: &Known<'_>,
) -> Result<Option<ProcessImage>> {
    let memory = memory::of_process(pid)?;
    let seen = |field: u64| word(&memory, RUNTIME_DATA + PROCESS_SEEN + field);
    if seen(seen::HIDES_MEMORY)? as u32 != 0 || seen(seen::PACKET_RINGS_SHOWN)? as u32 != 0 {
        let why = format!("process {pid} has memory that other processes do not get");
        return Err(ImageError::Refused(why));
    }
    let is_ending = seen(seen::ALONE)? as u32 != 0 || seen(seen::CLOSING)? as u32 != 0;
    let is_ours = word(&memory, RUNTIME_DATA + PROCESS_DOMAIN)? == address_of_shared_domain();
    if is_ending || !is_ours {
        return Ok(None);
    }
    let Some(mut found) = threads_at_rest(pid, &memory, header)? else { return Ok(None) };
    found.sort_by_key(|one| (one.context.tid != one.context.pid, one.stream));
    let turn = header.shared_domain.turn.load(Relaxed);
    let here = whereabouts(&found, turn, header.console_sequence.load(Relaxed), true);
    let changes: Vec<(u64, Vec<u8>)> = found.iter().enumerate().flat_map(as_noted).collect();
    let image = with_threads(pid, &memory, header, known, &found, &here)?.spool(&changes)?;
    let program = (seen(seen::PROGRAM_STREAM)? as u32, seen(seen::PROGRAM_EVENTS)?);
    Ok(Some(ProcessImage { image, here, program }))
}

/// What a thread that takes an image would have noted in the context of another.
fn as_noted((index, one): (usize, &Found)) -> [(u64, Vec<u8>); 2] {
    let is_first = index == 0;
    let state = if is_first { IN_IMAGE_READY } else { IN_IMAGE_YES };
    [
        (one.address + context::IN_IMAGE, state.to_le_bytes().to_vec()),
        (one.address + context::LOG_OFFSET, one.log_offset.to_le_bytes().to_vec()),
    ]
}

/// The threads of a process that goes on; `None` if one is not where it could go on from an image.
/// The same rules as in `is_in_the_way` in runtime/calls/image.c.
fn threads_at_rest(pid: i32, memory: &File, header: &Header) -> Result<Option<Vec<Found>>> {
    let mut found = Vec::new();
    for (address, _) in contexts(pid, memory)? {
        let half = |field: u64| Ok::<u32, io::Error>(word(memory, address + field)? as u32);
        let Some(index) = slot_at(word(memory, address + context::SLOT)?) else { continue };
        if word(memory, address + context::SELF)? != address {
            continue;
        }
        let slot = &header.slots[index];
        let (state, owner) = (slot.state.load(Acquire), slot.pid.load(Relaxed));
        let is_guest = half(context::IS_GUEST)? != 0;
        let is_new_or_old = matches!(state, shared::SLOT_CLAIMED | shared::SLOT_DYING);
        if is_guest && state == shared::SLOT_LIVE && slot.memory_of.load(Relaxed) == pid as u32
            || is_new_or_old && (is_guest || half(context::THREAD_ALIVE)? != 0)
        {
            return Ok(None);
        }
        let tid = half(context::TID)?;
        if state != shared::SLOT_LIVE || owner != pid as u32 || slot.tid.load(Relaxed) != tid {
            continue;
        }
        if half(context::GOES_ON)? == GOES_ON_NOT || half(context::EXITING)? != 0 {
            return Ok(None);
        }
        let log_offset =
            slot.producer.head.load(Acquire).wrapping_sub(slot.consumer.base.load(Relaxed));
        // The next stamp counts from 0.
        slot.producer.stamped.store(STAMP_WHOLE.wrapping_neg(), Relaxed);
        found.push(Found {
            address,
            context: Context::read(pid, address)?,
            stream: slot.stream.load(Relaxed),
            filter: slot.filter.load(Relaxed),
            log_offset,
            has_turn: false,
        });
    }
    let is_theirs = |slot: &&shared::Slot| {
        slot.pid.load(Relaxed) == pid as u32 && slot.state.load(Acquire) == shared::SLOT_LIVE
    };
    let are_all = header.used_slots().iter().filter(is_theirs).count() == found.len();
    Ok((are_all && !found.is_empty()).then_some(found))
}

fn with_threads(
    pid: i32,
    memory: &File,
    header: &Header,
    known: &Known<'_>,
    found: &[Found],
    here: &Whereabouts,
) -> Result<Image> {
    let threads =
        found.iter().map(|one| recorded(memory, header, one)).collect::<Result<Vec<_>>>()?;
    let turns = here.shares_turns.then(|| here.turn.saturating_sub(1));
    let threads = Threads::recorded(threads.into_iter(), turns);
    Image::with(pid, &threads, header, &Files::Recorded(known))
}

fn whereabouts(found: &[Found], turn: u64, console: u64, shares_turns: bool) -> Whereabouts {
    let first = &found[0].context;
    let place = |one: &Found| Place { bytes: one.log_offset, events: one.context.event_count };
    Whereabouts {
        pid: first.pid as i32,
        thread: first.tid,
        events: first.event_count,
        turn,
        counts: found.iter().map(|one| (one.context.tid, one.context.event_count)).collect(),
        streams: found.iter().map(|one| (one.stream, place(one))).collect(),
        console,
        shares_turns,
    }
}

/// Waits for the copy. Returns the threads of the image; the one that took it comes first.
fn wait_until_ready(pid: i32, memory: &File) -> Result<Vec<Found>> {
    let since = Instant::now();
    let taker = loop {
        let all = contexts(pid, memory)?;
        if let Some(taker) = all.iter().find(|(_, state)| *state == IN_IMAGE_READY) {
            break *taker;
        }
        let is_there = all.iter().any(|(_, state)| *state == IN_IMAGE_TAKER);
        if !is_there || process::is_gone(pid) || since.elapsed() > PATIENCE {
            return Err(ImageError::System(io::Error::other("the copy of the process is gone")));
        }
        std::thread::sleep(NAP);
    };
    let others =
        contexts(pid, memory)?.into_iter().filter(|one| one.0 != taker.0 && one.1 != IN_IMAGE_NOT);
    let read = |(address, _): (u64, u32)| {
        let context = Context::read(pid, address)?;
        Ok(Found {
            address,
            context,
            stream: word(memory, address + context::IMAGE_STREAM)? as u32,
            filter: word(memory, address + context::IMAGE_FILTER)? as u32,
            log_offset: word(memory, address + context::LOG_OFFSET)?,
            has_turn: context.turn != 0,
        })
    };
    [taker].into_iter().chain(others).map(read).collect()
}

/// The address of the context in each region, and whether the thread is in the image.
fn contexts(pid: i32, memory: &File) -> Result<Vec<(u64, u32)>> {
    let mappings = maps::of_process(pid)?.into_iter();
    let regions = mappings
        .filter(|one| one.start >= REGIONS && one.end <= FORCE_PLACES && one.inode == 0)
        .flat_map(|one| (one.start..one.end).step_by(REGION_STRIDE as usize));
    let state = |region: u64| {
        let address = region + REGION_CONTEXT;
        Ok((address, word(memory, address + context::IN_IMAGE)? as u32))
    };
    regions.map(state).collect()
}

fn word(memory: &File, address: u64) -> io::Result<u64> {
    let mut bytes = [0; 8];
    memory.read_exact_at(&mut bytes, address)?;
    Ok(u64::from_le_bytes(bytes))
}

fn recorded(memory: &File, header: &Header, one: &Found) -> Result<Recorded> {
    let Found { address, context, stream, filter, has_turn, .. } = one;
    let bytes = header.extended_bytes.load(Relaxed) as usize;
    let index = slot_at(context.slot)
        .ok_or_else(|| ImageError::Refused("one of its threads has no slot".to_owned()))?;
    if bytes > (REGION_STACK_LOW - REGION_EXTENDED) as usize {
        return Err(ImageError::Refused(format!("{bytes} bytes of registers have no room")));
    }
    let area = address - REGION_CONTEXT + REGION_EXTENDED;
    let mut extended = vec![0; bytes];
    memory.read_exact_at(&mut extended, area)?;
    extended[COMPACTED..COMPACTED + 8].fill(0);
    Ok(Recorded {
        context: *address,
        stack_top: word(memory, address + context::STACK_TOP)?,
        thread_base: word(memory, address + context::THREAD_BASE)?,
        extended,
        slot: SlotState {
            index,
            state: shared::SLOT_LIVE,
            stream: *stream,
            baton_state: if *has_turn { shared::BATON_HOLDING } else { shared::BATON_NONE },
            event_count: context.event_count,
            recorded: (context.pid, context.tid),
            filter: *filter,
        },
    })
}
