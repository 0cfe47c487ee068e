//! Keeping checkpoints: because somebody asks for it, or because it took long to get somewhere.

use super::image::Summary;
use super::past::Twin;
use super::write::Image;
use crate::checkpoint::shares_memory;
use crate::debuggee::{Fate, Stop};
use crate::destination::Destination;
use crate::error::{DebugError, Result};
use crate::session::Session;
use crate::timeline::{Checkpoint, ran_to};
use retake_kernel::context::{self, Context};
use retake_kernel::memory;
use retake_recording::{KeptCheckpoint, StreamId};
use std::time::{Duration, Instant, SystemTime};

/// Of those that nobody asked for, so many stay, with so many bytes in all. Those that were of use
/// last stay longest.
const MOST_AUTOMATIC: usize = 64;
const MOST_AUTOMATIC_BYTES: u64 = 2 << 30;
/// Nobody waits longer for them to be written than a part of what it took to get there: so much
/// memory a second.
const BYTES_A_SECOND: u64 = 64 << 20;
/// Further ones are left on the way, as parts of it: whoever goes back from the end is soon behind
/// the first. The last is where the time line ends, so that next to nothing lies between that and
/// the end, of which nothing is known.
const PARTS_OF_WAY: [f64; 3] = [0.5, 0.8, 1.0];
/// One of no more bytes is read as soon as another one is copied.
pub(super) const SMALL_BYTES: u64 = 8 << 20;
/// Of processes that take no more bytes there are so many, at equal distances: so what is not known
/// of some costs little.
const MORE_PARTS_OF_WAY: [(u64, u32); 2] = [(1 << 20, 24), (SMALL_BYTES, 10)];
/// What was executed on the way is found out while the process goes it; when the session ends, for
/// this part of that time longer.
const PART_TO_FOLLOW: u32 = 100;

/// Why a checkpoint is kept.
struct Reason {
    is_automatic: bool,
    arrival: Option<String>,
    after: Duration,
}

impl Session {
    /// Keeps a checkpoint where the process is, because the user wishes so; `after`: how long
    /// replay took to come here. If there is one for that very place already, it is that.
    ///
    /// # Errors
    /// `CannotKeep`: no copy can be made here, or another session could not make the same of it. No
    /// space.
    pub fn keep_here(
        &mut self,
        destination: Option<Destination>,
        after: Duration,
    ) -> Result<(KeptCheckpoint, Summary)> {
        let destination = destination.map(|destination| self.exact(destination)).transpose()?;
        let arrival = destination.and_then(|destination| self.arrival(destination));
        if let Some(known) = self.kept_at(arrival.as_deref()) {
            return Ok(known);
        }
        let Some(checkpoint) = self.checkpoint()? else {
            return Err(DebugError::CannotKeep(self.why_no_copy()?));
        };
        let reason = Reason { is_automatic: false, arrival, after: after + self.kept.spared };
        self.write(&checkpoint, reason, u64::MAX)
    }

    fn why_no_copy(&self) -> Result<String> {
        Ok(if shares_memory(&self.debuggee.process)? {
            "the process shares writable memory with others, so that no copy of it can be made"
                .to_owned()
        } else {
            "one of its threads does not come to rest".to_owned()
        })
    }

    /// Leaves checkpoints behind if it took so long to get here that the next session should not.
    pub(crate) fn leave_kept(&mut self, destination: Destination, took: Duration) -> Result<()> {
        if self.kept.keeping.after.is_none_or(|after| took < after) {
            return Ok(());
        }
        let since = Instant::now();
        self.kept.patience = took / PART_TO_FOLLOW;
        let Some(arrival) = self.arrival(destination) else { return Ok(()) };
        let Some(checkpoint) = self.checkpoint()? else { return Ok(()) };
        let most = BYTES_A_SECOND.saturating_mul(took.as_secs().max(1));
        let reason =
            Reason { is_automatic: true, arrival: Some(arrival), after: took + self.kept.spared };
        let bytes = match self.write(&checkpoint, reason, most) {
            Ok((kept, _)) => {
                self.remarks += &format!(
                    "retake: kept a checkpoint here ({} MB): the next session begins here at once \
                    (retake checkpoint --list)\n",
                    kept.bytes.div_ceil(1_000_000)
                );
                kept.bytes
            }
            Err(error) => {
                self.remarks +=
                    &format!("retake: no checkpoint was kept for the next session: {error}\n");
                return Ok(());
            }
        };
        self.leave_on_the_way(&parts_of_way(bytes), most, took / 4, since)?;
        self.make_room()
    }

    /// A few of the time line's.
    fn leave_on_the_way(
        &mut self,
        parts: &[f64],
        most: u64,
        patience: Duration,
        since: Instant,
    ) -> Result<()> {
        let whole = ran_to(&self.timeline.checkpoints);
        for &part in parts {
            let mut ran = Duration::ZERO;
            let found = self.timeline.checkpoints.iter().skip(1).find_map(|one| {
                ran += one.since.ran;
                (ran >= whole.mul_f64(part)).then(|| (one.clone(), ran))
            });
            let is_left = |pid: i32| self.kept.left.iter().any(|twin| twin.pid == pid);
            let is_fit = |(one, _): &(Checkpoint, Duration)| {
                since.elapsed() < patience && !is_left(one.snapshot.pid)
            };
            let Some((checkpoint, after)) = found.filter(is_fit) else { continue };
            let reason = Reason { is_automatic: true, arrival: None, after };
            // They make something faster; nothing needs them.
            if let Ok((kept, summary)) = self.write(&checkpoint, reason, most) {
                self.kept.left.push(Twin { kept, summary, pid: checkpoint.snapshot.pid });
            }
        }
        Ok(())
    }

    fn write(
        &mut self,
        checkpoint: &Checkpoint,
        reason: Reason,
        most: u64,
    ) -> Result<(KeptCheckpoint, Summary)> {
        let Some(running) = &self.running else {
            return Err(DebugError::CannotKeep("the replay has ended".to_owned()));
        };
        let image = Image::of(checkpoint, running)?;
        if image.bytes() > most {
            let [bytes, most] = [image.bytes(), most].map(|bytes| bytes >> 20);
            return Err(DebugError::CannotKeep(format!(
                "the process has {bytes} MB of memory, and writing more than {most} MB would take \
                longer than it spares"
            )));
        }
        self.console.collect()?;
        let (living, printing) = living_at(checkpoint)?;
        let last = self.last_output(&living, checkpoint.place.mark.turn)?;
        let under_way = self.outputs_under_way(&printing)?;
        let is_printed =
            |number: u64| last.is_some_and(|last| number <= last) || under_way.contains(&number);
        let summary = self.summary_of(checkpoint, reason);
        let mut writer = self.kept.places.create()?;
        image.write(&summary, &self.console, &is_printed, &mut writer)?;
        let kept = self.kept.places.finish(writer)?;
        // It is where the process was: nobody need go there by it in this session.
        self.kept.done.insert(kept.number);
        self.kept.known.iter_mut().for_each(|known| known.push((kept.clone(), summary.clone())));
        Ok((kept, summary))
    }

    fn summary_of(&self, checkpoint: &Checkpoint, reason: Reason) -> Summary {
        let place = &checkpoint.place;
        Summary {
            is_automatic: reason.is_automatic,
            made_unix_ms: super::now_unix_ms(),
            session: (self.kept.began_unix_ms, std::process::id()),
            pid: self.target.pid,
            program: (self.target.stream.0, self.target.first_event),
            thread: place.thread,
            events: place.mark.events,
            turn: place.mark.turn,
            address: place.address(),
            counts: checkpoint.counts.clone(),
            arrival: reason.arrival,
            fate: checkpoint.fate(),
            after_ms: u64::try_from(reason.after.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Of those that nobody asked for, the ones go that were of no use for longest.
    fn make_room(&mut self) -> Result<()> {
        let all = super::list(&self.kept.places)?.into_iter();
        let is_automatic =
            |one: &super::Listed| one.1.as_ref().is_ok_and(|summary| summary.is_automatic);
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
                self.kept.places.remove(kept)?;
            }
        }
        Ok(())
    }

    /// Goes on for about so long, unless the program ends before; whether it does.
    ///
    /// # Errors
    /// The replay diverged, or the process cannot be controlled.
    pub fn go_on_for(&mut self, time: Duration) -> Result<bool> {
        let since = Instant::now();
        self.quietly(|session| {
            loop {
                let stop = session.forward(&mut || since.elapsed() >= time)?;
                if session.debuggee.fate != Fate::Open {
                    return Ok(false);
                }
                if stop.if_announced().is_none() {
                    return Ok(matches!(stop, Stop::Interrupted));
                }
            }
        })
    }
}

/// Where on the way checkpoints are left of a process that takes so many bytes.
fn parts_of_way(bytes: u64) -> Vec<f64> {
    let count = MORE_PARTS_OF_WAY.iter().find(|(most, _)| bytes < *most).map(|(_, count)| *count);
    count.map_or(PARTS_OF_WAY.to_vec(), |count| {
        (0..=count).map(|number| f64::from(number) / f64::from(count)).collect()
    })
}

/// Threads, and how many events each has consumed.
type Consumed = Vec<(StreamId, u64)>;

/// The threads that lived at a checkpoint, and those among them that had printed what their next
/// call prints.
fn living_at(checkpoint: &Checkpoint) -> Result<(Consumed, Consumed)> {
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
