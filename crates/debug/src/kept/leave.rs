//! Keeps checkpoints: on request, or because it took long to get somewhere.

use super::choose::arrival;
use super::past::Twin;
use super::printed;
use super::{Kept, Listed, SMALL_BYTES, Summary, read_all};
use crate::checkpoint::{Checkpoint, ran_to};
use crate::destination::Destination;
use crate::error::{DebugError, Result};
use crate::history::Consumed;
use crate::inferior::Stop;
use crate::replay::Replay;
use crate::timeline::Timeline;
use retake_kernel::context::{self, Context};
use retake_kernel::{clock, memory};
use retake_recording::{KeptCheckpoint, StreamId};
use retake_snapshot::image::{Image, summary};
use retake_snapshot::shares_memory;
use std::time::{Duration, Instant, SystemTime};

/// The most automatic checkpoints, and their total size. Those used most recently stay.
const MOST_AUTOMATIC: usize = 64;
const MOST_AUTOMATIC_BYTES: u64 = 2 << 30;
/// The amount of memory that is written for each second that it took to get there. So writing takes
/// only a part of that time.
const BYTES_A_SECOND: u64 = 64 << 20;
/// The parts of the way at which further checkpoints are left. Going back from the end soon comes
/// to the first of them. The last is where the time line ends. Next to nothing lies between that
/// and the end, so it does not matter that nothing is known about it.
const PARTS_OF_WAY: [f64; 3] = [0.5, 0.8, 1.0];
/// The number of further checkpoints, at equal distances, for processes of at most this size.
/// Stretches about which nothing is known are then short.
const MORE_PARTS_OF_WAY: [(u64, u32); 2] = [(1 << 20, 24), (SMALL_BYTES, 10)];
/// How much longer the session may go on finding out which instructions were executed when it ends:
/// this part of the time of the way. Otherwise it does so while the process goes the way.
const PART_TO_FOLLOW: u32 = 100;

/// Why a checkpoint is kept.
struct Reason {
    is_automatic: bool,
    arrival: Option<String>,
    after: Duration,
}

impl Kept {
    /// Keeps a checkpoint where the process is, for the user. `after` is how long replay took to
    /// come here. If the user has kept one for this very place before, returns that one.
    ///
    /// # Errors
    /// `CannotKeep` if no copy can be made here, or if another session could not restore it. There
    /// is no space.
    pub fn keep_here(
        &mut self,
        replay: &mut Replay,
        destination: Option<Destination>,
        after: Duration,
    ) -> Result<(KeptCheckpoint, Summary)> {
        let arrival = destination.and_then(|destination| arrival(replay, destination));
        if let Some(known) = self.at(replay, arrival.as_deref()) {
            return Ok(known);
        }
        let Some(checkpoint) = replay.checkpoint()? else {
            return Err(DebugError::CannotKeep(why_no_copy(replay)?));
        };
        let reason = Reason { is_automatic: false, arrival, after: after + self.spared };
        self.write(replay, &checkpoint, reason, u64::MAX)
    }

    /// Leaves checkpoints for later sessions if it took long to get here.
    ///
    /// # Errors
    /// The process cannot be controlled.
    pub fn leave(
        &mut self,
        timeline: &mut Timeline,
        destination: Destination,
        took: Duration,
    ) -> Result<()> {
        if self.keeping.after.is_none_or(|after| took < after) {
            return Ok(());
        }
        let since = Instant::now();
        self.patience = took / PART_TO_FOLLOW;
        let replay = &mut timeline.replay;
        let Some(arrival) = arrival(replay, destination) else { return Ok(()) };
        let Some(checkpoint) = replay.checkpoint()? else { return Ok(()) };
        let most = BYTES_A_SECOND.saturating_mul(took.as_secs().max(1));
        let reason =
            Reason { is_automatic: true, arrival: Some(arrival), after: took + self.spared };
        let bytes = match self.write(replay, &checkpoint, reason, most) {
            Ok((kept, _)) => {
                replay.remarks += &format!(
                    "retake: kept a checkpoint here ({} MB): the next session begins here at once \
                    (retake checkpoint --list)\n",
                    kept.bytes.div_ceil(1_000_000)
                );
                kept.bytes
            }
            Err(error) => {
                replay.remarks +=
                    &format!("retake: no checkpoint was kept for the next session: {error}\n");
                return Ok(());
            }
        };
        let is_late = || since.elapsed() >= took / 4;
        self.leave_on_the_way(timeline, &parts_of_way(bytes), most, is_late);
        self.make_room()
    }

    /// Keeps a few of the time line's checkpoints.
    fn leave_on_the_way(
        &mut self,
        timeline: &mut Timeline,
        parts: &[f64],
        most: u64,
        is_late: impl Fn() -> bool,
    ) {
        let whole = ran_to(&timeline.checkpoints);
        for &part in parts {
            let mut ran = Duration::ZERO;
            let found = timeline.checkpoints.iter().skip(1).find_map(|one| {
                ran += one.since.ran;
                (ran >= whole.mul_f64(part)).then_some((one, ran))
            });
            let is_left = |pid: i32| self.left.iter().any(|twin| twin.pid == pid);
            let is_fit =
                |(one, _): &(&Checkpoint, Duration)| !is_late() && !is_left(one.snapshot.pid);
            let Some((checkpoint, after)) = found.filter(is_fit) else { continue };
            let reason = Reason { is_automatic: true, arrival: None, after };
            // These checkpoints make things faster, but nothing needs them.
            if let Ok((kept, summary)) = self.write(&mut timeline.replay, checkpoint, reason, most)
            {
                self.left.push(Twin { kept, summary, pid: checkpoint.snapshot.pid });
            }
        }
    }

    fn write(
        &mut self,
        replay: &mut Replay,
        checkpoint: &Checkpoint,
        reason: Reason,
        most: u64,
    ) -> Result<(KeptCheckpoint, Summary)> {
        let Some(running) = &replay.running else {
            return Err(DebugError::CannotKeep("the replay has ended".to_owned()));
        };
        let image = Image::of(
            &checkpoint.snapshot,
            announced(checkpoint)?,
            running.header(),
            running.scratch(),
        )?;
        if image.bytes() > most {
            let [bytes, most] = [image.bytes(), most].map(|bytes| bytes >> 20);
            return Err(DebugError::CannotKeep(format!(
                "the process has {bytes} MB of memory, and writing more than {most} MB would take \
                longer than it saves"
            )));
        }
        replay.console.collect()?;
        let (living, printing) = living_at(checkpoint)?;
        let last = replay.history.last_output(&living, checkpoint.place.mark.turn)?;
        let under_way = replay.history.outputs_under_way(&printing)?;
        let is_printed =
            |number: u64| last.is_some_and(|last| number <= last) || under_way.contains(&number);
        let about = self.summary_of(replay, checkpoint, reason);
        let mut writer = self.places.create()?;
        summary::write(&mut writer, &about)?;
        image.write(&mut writer)?;
        printed::put(&mut writer, &replay.console, &is_printed)?;
        let kept = self.places.finish(writer)?;
        // The process was at this checkpoint, so this session never needs to go there with it.
        self.done.insert(kept.number);
        self.known.iter_mut().for_each(|known| known.push((kept.clone(), about.clone())));
        Ok((kept, about))
    }

    fn summary_of(&self, replay: &Replay, checkpoint: &Checkpoint, reason: Reason) -> Summary {
        let (place, target) = (&checkpoint.place, &replay.history.target);
        Summary {
            is_automatic: reason.is_automatic,
            made_unix_ms: clock::unix_ms(),
            session: (self.began_unix_ms, std::process::id()),
            pid: target.pid,
            program: (target.stream.0, target.first_event),
            thread: place.thread,
            events: place.mark.events,
            turn: place.mark.turn,
            address: place.address(),
            counts: checkpoint.counts.clone(),
            arrival: reason.arrival,
            fate: checkpoint.fate,
            after_ms: u64::try_from(reason.after.as_millis()).unwrap_or(u64::MAX),
            console: None,
            shares_turns: false,
            group: None,
        }
    }

    /// Removes the automatic checkpoints that were not used for longest.
    fn make_room(&mut self) -> Result<()> {
        let all = read_all(&self.places)?.into_iter();
        let is_automatic = |one: &Listed| one.1.as_ref().is_ok_and(|summary| summary.is_automatic);
        let used = |kept: &KeptCheckpoint| {
            std::fs::metadata(&kept.path)
                .and_then(|metadata| metadata.modified())
                .unwrap_or(SystemTime::UNIX_EPOCH)
        };
        let mut automatic: Vec<(SystemTime, KeptCheckpoint)> =
            all.filter(is_automatic).map(|(kept, _)| (used(&kept), kept)).collect();
        automatic.sort_unstable_by_key(|(used, kept)| {
            (std::cmp::Reverse(*used), std::cmp::Reverse(kept.number))
        });
        let mut bytes = 0;
        for (index, (_, kept)) in automatic.iter().enumerate() {
            bytes += kept.bytes;
            if index >= MOST_AUTOMATIC || (index > 0 && bytes > MOST_AUTOMATIC_BYTES) {
                self.places.remove(kept)?;
            }
        }
        Ok(())
    }
}

fn why_no_copy(replay: &Replay) -> Result<String> {
    Ok(if shares_memory(&replay.inferior.process)? {
        "the process shares writable memory with others, so it cannot be copied".to_owned()
    } else {
        "one of its threads does not come to rest".to_owned()
    })
}

/// The signal that was announced at a checkpoint.
///
/// # Errors
/// `CannotKeep` if something else was announced.
fn announced(checkpoint: &Checkpoint) -> Result<Option<i32>> {
    match checkpoint.announced {
        None => Ok(None),
        Some(Stop::Signal(number)) => Ok(Some(number)),
        Some(_) => Err(DebugError::CannotKeep(
            "the program is inside a caught system call: step one instruction first".to_owned(),
        )),
    }
}

/// The parts of the way at which checkpoints are left for a process of this size.
fn parts_of_way(bytes: u64) -> Vec<f64> {
    let count = MORE_PARTS_OF_WAY.iter().find(|(most, _)| bytes < *most).map(|(_, count)| *count);
    count.map_or(PARTS_OF_WAY.to_vec(), |count| {
        (0..=count).map(|number| f64::from(number) / f64::from(count)).collect()
    })
}

/// Returns the threads that lived at a checkpoint, and those among them that had already printed
/// the output of their next call.
fn living_at(checkpoint: &Checkpoint) -> Result<(Vec<Consumed>, Vec<Consumed>)> {
    let pid = checkpoint.snapshot.pid;
    let (mut living, mut printing) = (Vec::new(), Vec::new());
    for (stream, context) in checkpoint.snapshot.threads.streams() {
        let thread = (StreamId(stream), Context::read(pid, context)?.event_count);
        living.push(thread);
        let mut printed = [0; 4];
        memory::peek(pid, context + context::PRINTED, &mut printed)?;
        if printed != [0; 4] {
            printing.push(thread);
        }
    }
    Ok((living, printing))
}
