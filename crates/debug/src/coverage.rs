//! Finds out which instructions each stretch executed. While the process goes forwards on one core,
//! a copy goes through the stretches behind it on another core. Going backwards can then skip
//! stretches that did not reach a breakpoint.
//!
//! The copy has traps in place of its text. Its result counts only if it ends exactly where the
//! process did, with the same memory.

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

/// Filling more text than this with traps takes too long.
const MOST_TEXT_BYTES: u64 = 64 << 20;
/// The number of consecutive failed stretches after which no more copies are sent. A program that
/// reads its text as data causes such failures, for example.
const MOST_FAILURES: u32 = 3;
/// How long to wait for the next trap after one, because traps often follow each other.
/// `LONGEST_TURN` limits the whole wait.
const EAGER: Duration = Duration::from_micros(50);
const LONGEST_TURN: Duration = Duration::from_millis(2);
const NAP: Duration = Duration::from_micros(300);
/// In hundredths of a stretch: how much earlier the next copy looks for the end if this one missed
/// it, and how much later, up to `MOST_BLIND`, if this one found it.
const EARLIER: u32 = 15;
const LATER: u32 = 4;
const MOST_BLIND: u32 = 60;
/// The most time that a copy goes through at once: this, or 1/`SPANS` of the whole if that is more.
const SHORTEST_SPAN: Duration = Duration::from_millis(200);
const SPANS: u32 = 16;
/// The copy gets only CPU time that nothing else uses.
const NICENESS: i32 = 19;

/// The search for executed instructions, with the copy if one is under way.
pub(crate) struct Coverage {
    away: Option<Away>,
    /// The processes of checkpoints whose stretches no copy got through.
    refused: HashSet<i32>,
    failures: u32,
    /// The hundredths of a stretch through which a copy goes before it looks for the end.
    blind: u32,
}

struct Away {
    scout: Scout,
    text: Vec<Part>,
    /// The process that has the original text, until the copy is sent off.
    original: Option<i32>,
    said: Word,
}

impl Away {
    /// Fills the copy's text with traps and sends it off. This takes milliseconds, so it happens
    /// while the process goes forwards.
    fn set_off(&mut self, original: i32) -> Result<()> {
        let process = &mut self.scout.inferior().process;
        let text = self.text.iter().map(|part| part.start..part.end).collect();
        process.closed = Some(ClosedText::close(&process.memory, text, original)?);
        for tid in process.threads() {
            // Without the lower priority it still works.
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
    /// Handles the copy's traps for a moment. Returns early if `is_wanted_elsewhere` returns true.
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
                // Another trap is likely to follow soon.
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

    /// Whether a copy goes through a stretch that begins or ends at this checkpoint.
    pub fn needs(&self, checkpoint: &Checkpoint) -> bool {
        self.away.as_ref().is_some_and(|away| away.scout.needs(checkpoint))
    }

    /// Sends no more copies through the stretches before these checkpoints.
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

    /// Takes the copy's result, and sends a copy through the first unknown stretch. Returns whether
    /// one is under way.
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
            // A failure to make a copy leaves the stretch unknown.
            self.away = self.send(replay, checkpoints, start, end).unwrap_or_default();
            if self.is_away() {
                return true;
            }
            self.refuse(&checkpoints[start + 1..=end]);
        }
        false
    }

    /// As `go_on`, and handles the copy's traps for a moment.
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

    /// Returns the checkpoints around the first unknown stretches, as many as one copy may go
    /// through. A longer way is cheaper. But then more must be run again to find out what was
    /// executed in one of its stretches.
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

/// Whether a process may run on several cores. False if it has ended.
fn has_cores(pid: i32) -> bool {
    Processors::of(pid).is_ok_and(|own| own.count() > 1)
}

/// The text of files that the program cannot change and that is not Retake's.
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
