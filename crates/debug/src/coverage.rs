//! While the process goes forwards on one core, a copy goes through each stretch behind it on
//! another, to find which instructions that executed. So going backwards need not go through
//! stretches that did not come to a breakpoint.
//!
//! The copy has traps for text. What it says counts only if it ends where the process did, to the
//! last byte of memory.

use crate::catches::Signals;
use crate::checkpoint::{Checkpoint, ran_to};
use crate::error::Result;
use crate::executed::{Executed, Part};
use crate::inferior::{GiveUp, Inferior};
use crate::progress::Progress;
use crate::replay::{Replay, Runs};
use crate::scout::{self, BLIND, LESS_BLIND, Scout, Way, Word};
use retake_kernel::call_tracer::Processors;
use retake_kernel::maps::Mapping;
use retake_snapshot::{ClosedText, in_runtime};
use rustix::process::{Pid, setpriority_process};
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// To fill more text with traps takes too long.
const MOST_TEXT_BYTES: u64 = 64 << 20;
/// After so many stretches in a row that it did not get through it gives up: of a program that
/// reads its text as data, say.
const MOST_FAILURES: u32 = 3;
/// While traps come one upon the other they are waited for: for so long each, and so long in all.
const EAGER: Duration = Duration::from_micros(50);
const LONGEST_TURN: Duration = Duration::from_millis(2);
const NAP: Duration = Duration::from_micros(300);
/// In hundredths of a stretch: one that missed the end makes the next look earlier, one that found
/// it later, up to this.
const EARLIER: u32 = 15;
const LATER: u32 = 4;
const MOST_BLIND: u32 = 60;
/// It goes through no less at once, if there is so much; and no more than this part of all.
const SHORTEST_SPAN: Duration = Duration::from_millis(200);
const SPANS: u32 = 16;
/// It takes what nobody else needs.
const NICENESS: i32 = 19;

/// What finds it out: the copy, if one is on its way.
pub(crate) struct Coverage {
    away: Option<Away>,
    /// Copies at which stretches end that none got through, by number of process.
    refused: HashSet<i32>,
    failures: u32,
    /// In hundredths: before which part of a stretch it does not look for the end.
    blind: u32,
}

struct Away {
    scout: Scout,
    text: Vec<Part>,
    /// While it is not ready to go: the number of a process that has the text as it is.
    original: Option<i32>,
    said: Word,
}

impl Away {
    /// Fills its text with traps and sends it on: while the process goes forwards, for that takes
    /// milliseconds.
    fn set_off(&mut self, original: i32) -> Result<()> {
        let process = &mut self.scout.inferior().process;
        let text = self.text.iter().map(|part| part.start..part.end).collect();
        process.closed = Some(ClosedText::close(&process.memory, text, original)?);
        for tid in process.threads() {
            // It may run as it does.
            let _ = setpriority_process(Pid::from_raw(tid), NICENESS);
        }
        self.scout.set_off()
    }
}

impl Default for Coverage {
    fn default() -> Self {
        Self { away: None, refused: HashSet::new(), failures: 0, blind: BLIND }
    }
}

impl Coverage {
    /// Serves the copy for a moment, unless it is known before that somebody waits for something
    /// else.
    pub fn tend(&mut self, is_wanted_elsewhere: GiveUp) {
        let Some(away) = self.away.as_mut().filter(|away| away.said == Word::NotYet) else {
            return;
        };
        if let Some(original) = away.original.take() {
            away.said = away.set_off(original).map_or(Word::Stopped, |()| Word::NotYet);
            return;
        }
        let Away { scout, said, .. } = away;
        let begun = Instant::now();
        let (mut traps, mut last, mut patience) = (scout.traps(), begun, Duration::ZERO);
        loop {
            *said = scout.listen().unwrap_or(Word::Lost);
            if scout.traps() != traps {
                // One trap is soon followed by another.
                (traps, last, patience) = (scout.traps(), Instant::now(), EAGER);
            }
            if *said != Word::NotYet
                || last.elapsed() > patience
                || begun.elapsed() > LONGEST_TURN
                || is_wanted_elsewhere()
            {
                return;
            }
            std::thread::yield_now();
        }
    }

    /// Whether a copy is on its way between this checkpoint and another one.
    pub fn needs(&self, checkpoint: &Checkpoint) -> bool {
        self.away.as_ref().is_some_and(|away| away.scout.needs(checkpoint))
    }

    /// Sends no copy again through the stretches before these checkpoints.
    fn refuse(&mut self, ends: &[Checkpoint]) {
        self.refused.extend(ends.iter().map(|one| one.snapshot.pid));
    }

    fn is_away(&self) -> bool {
        self.away.as_ref().is_some_and(|away| away.said == Word::NotYet)
    }

    /// Whether the copy has come to the end of its way.
    pub fn is_back(&self) -> bool {
        self.away.as_ref().is_some_and(|away| away.said != Word::NotYet)
    }

    /// Takes what the copy has found out, and sends one through the first stretch of which nothing
    /// is known. Whether one is on its way.
    pub fn go_on(&mut self, replay: &mut Replay, checkpoints: &mut [Checkpoint]) -> bool {
        if self.is_away() {
            return true;
        }
        if let Some(away) = self.away.take() {
            self.learn(away, checkpoints);
        }
        if self.failures >= MOST_FAILURES || !has_cores(replay.inferior.process.pid) {
            return false;
        }
        while let Some((start, end)) = self.first_unknown(checkpoints) {
            // A copy that cannot be made tells nothing.
            self.away = self.send(replay, checkpoints, start, end).unwrap_or_default();
            if self.is_away() {
                return true;
            }
            self.refuse(&checkpoints[start + 1..=end]);
        }
        false
    }

    /// The same, and serves the copy while there is nothing else to do.
    pub fn go_on_for_a_moment(
        &mut self,
        replay: &mut Replay,
        checkpoints: &mut [Checkpoint],
        is_wanted_elsewhere: GiveUp,
    ) -> bool {
        let is_away = self.go_on(replay, checkpoints);
        if is_away {
            self.tend(is_wanted_elsewhere);
            if !is_wanted_elsewhere() {
                std::thread::sleep(NAP);
            }
        }
        is_away
    }

    /// The checkpoints between which the first stretches are that a copy could tell something of:
    /// as many as it may go through at once. The longer it goes, the less it costs; and the more
    /// has to be gone through again to find what was executed in one of them.
    fn first_unknown(&self, all: &[Checkpoint]) -> Option<(usize, usize)> {
        let most = SHORTEST_SPAN.max(ran_to(all) / SPANS);
        let is_unknown = |end: &usize| {
            !all[*end].since.executed.is_known() && !self.refused.contains(&all[*end].snapshot.pid)
        };
        let first = (1..all.len()).find(is_unknown)?;
        let mut ran = Duration::ZERO;
        let is_fit = |end: &usize| {
            ran += all[*end].since.ran;
            is_unknown(end) && (ran <= most || *end == first)
        };
        let last = (first..all.len()).take_while(is_fit).last()?;
        Some((first - 1, last))
    }

    fn learn(&mut self, away: Away, checkpoints: &mut [Checkpoint]) {
        let Away { scout, text, said, .. } = away;
        let Some((start, end)) = scout.ends(checkpoints) else { return };
        let stretches = &mut checkpoints[start + 1..=end];
        let opened = (said == Word::Through).then(|| scout.opened()).flatten();
        match (said, opened) {
            (_, Some(opened)) => {
                let executed = Executed::of(text, opened);
                stretches.iter_mut().for_each(|one| one.since.executed = executed.clone());
                self.failures = 0;
                self.blind = (self.blind + LATER).min(MOST_BLIND);
            }
            (Word::Lost, _) if self.blind > LESS_BLIND => {
                self.blind = self.blind.saturating_sub(EARLIER).max(LESS_BLIND)
            }
            _ => {
                self.failures += 1;
                self.refuse(stretches);
            }
        }
    }

    fn send(
        &self,
        replay: &mut Replay,
        all: &[Checkpoint],
        start: usize,
        end: usize,
    ) -> Result<Option<Away>> {
        let ran = ran_to(&all[start + 1..=end]);
        let progress = Progress::to(all, end);
        let way = Way {
            place: all[end].place.clone(),
            is_at_event: all[end].is_at_event,
            ran,
            blind: self.blind,
            progress,
        };
        let Some(mut scout) =
            replay.quietly(|replay| scout::between(replay, &all[start], &all[end], way))?
        else {
            return Ok(None);
        };
        let inferior = scout.inferior();
        inferior.passed = Signals::ALL;
        inferior.text.refresh(inferior.process.pid);
        let text: Vec<Part> =
            closable(&replay.inferior, scout.inferior().text.mappings()).map(Part::of).collect();
        if text.is_empty()
            || text.iter().map(|part| part.end - part.start).sum::<u64>() > MOST_TEXT_BYTES
        {
            return Ok(None);
        }
        let original = Some(all[start].snapshot.pid);
        Ok(Some(Away { scout, text, original, said: Word::NotYet }))
    }
}

/// Whether a process, if it has not ended, may run on several.
fn has_cores(pid: i32) -> bool {
    Processors::of(pid).is_ok_and(|own| own.count() > 1)
}

/// Text of files, as far as the program cannot change it and it is not ours.
fn closable<'a>(
    inferior: &'a Inferior,
    mappings: &'a [Mapping],
) -> impl Iterator<Item = &'a Mapping> {
    let is_files = |mapping: &&Mapping| {
        mapping.executable && !mapping.writable && !mapping.shared && mapping.name.starts_with('/')
    };
    mappings
        .iter()
        .filter(is_files)
        .filter(|mapping| !in_runtime(mapping.start) && !inferior.text.is_stub(mapping.start))
}
