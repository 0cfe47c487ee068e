//! While the process goes forwards on one core, a copy goes through each stretch behind it on
//! another, to find which instructions that executed: so whoever goes backwards need not go through
//! what did not come to his breakpoints.
//!
//! The copy has traps for text. What it says counts only if it ends where the process did, to the
//! last byte of memory.

use crate::catches::Signals;
use crate::debuggee::GiveUp;
use crate::error::Result;
use crate::executed::{Executed, Part};
use crate::gauge::Gauge;
use crate::scout::{BLIND, LESS_BLIND, Scout, Way, Word};
use crate::session::Session;
use crate::timeline::{Checkpoint, ran_to};
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

/// The copy, if one is on its way.
pub(crate) struct Follower {
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
        let process = &mut self.scout.debuggee().process;
        let text = self.text.iter().map(|part| part.start..part.end).collect();
        process.closed = Some(ClosedText::close(&process.memory, text, original)?);
        for tid in process.threads() {
            // It may run as it does.
            let _ = setpriority_process(Pid::from_raw(tid), NICENESS);
        }
        self.scout.set_off()
    }
}

impl Default for Follower {
    fn default() -> Self {
        Self { away: None, refused: HashSet::new(), failures: 0, blind: BLIND }
    }
}

impl Follower {
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
}

impl Session {
    /// Takes what the copy has found out, and sends one through the first stretch of which nothing
    /// is known. Whether one is on its way.
    pub(crate) fn go_after(&mut self) -> bool {
        if self.timeline.follower.is_away() {
            return true;
        }
        if let Some(away) = self.timeline.follower.away.take() {
            self.learn(away);
        }
        if self.timeline.follower.failures >= MOST_FAILURES || !self.has_cores() {
            return false;
        }
        while let Some((start, end)) = self.first_unknown() {
            // A copy that cannot be made tells nothing.
            self.timeline.follower.away = self.send_follower(start, end).unwrap_or_default();
            if self.timeline.follower.is_away() {
                return true;
            }
            self.timeline.follower.refuse(&self.timeline.checkpoints[start + 1..=end]);
        }
        false
    }

    /// The same, and serves the copy while there is nothing else to do.
    pub(crate) fn follow_for_a_moment(&mut self, is_wanted_elsewhere: GiveUp) -> bool {
        let is_away = self.go_after();
        if is_away {
            self.timeline.follower.tend(is_wanted_elsewhere);
            if !is_wanted_elsewhere() {
                std::thread::sleep(NAP);
            }
        }
        is_away
    }

    /// Of how many stretches it is known what they executed, in words.
    pub(crate) fn followed(&self) -> String {
        let stretches = self.timeline.checkpoints.iter().skip(1);
        let known = stretches.clone().filter(|one| one.since.executed.is_known()).count();
        format!("{known} of {} stretches between checkpoints", stretches.count())
    }

    /// Whether the process, if it has not ended, may run on several.
    fn has_cores(&self) -> bool {
        Processors::of(self.debuggee.process.pid).is_ok_and(|own| own.count() > 1)
    }

    /// The checkpoints between which the first stretches are that a copy could tell something of:
    /// as many as it may go through at once. The longer it goes, the less it costs; and the more is
    /// gone through again by whoever looks for what was executed in one of them.
    fn first_unknown(&self) -> Option<(usize, usize)> {
        let all = &self.timeline.checkpoints;
        let whole = ran_to(all);
        let most = SHORTEST_SPAN.max(whole / SPANS);
        let is_unknown = |end: &usize| {
            !all[*end].since.executed.is_known()
                && !self.timeline.follower.refused.contains(&all[*end].snapshot.pid)
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

    fn learn(&mut self, away: Away) {
        let Away { scout, text, said, .. } = away;
        let checkpoints = &mut self.timeline.checkpoints;
        let Some((start, end)) = scout.ends(checkpoints) else { return };
        let stretches = &mut checkpoints[start + 1..=end];
        let follower = &mut self.timeline.follower;
        let opened = (said == Word::Through).then(|| scout.opened()).flatten();
        match (said, opened) {
            (_, Some(opened)) => {
                let executed = Executed::of(text, opened);
                stretches.iter_mut().for_each(|one| one.since.executed = executed.clone());
                follower.failures = 0;
                follower.blind = (follower.blind + LATER).min(MOST_BLIND);
            }
            (Word::Lost, _) if follower.blind > LESS_BLIND => {
                follower.blind = follower.blind.saturating_sub(EARLIER).max(LESS_BLIND)
            }
            _ => {
                follower.failures += 1;
                follower.refuse(stretches);
            }
        }
    }

    fn send_follower(&mut self, start: usize, end: usize) -> Result<Option<Away>> {
        let ran = ran_to(&self.timeline.checkpoints[start + 1..=end]);
        let Checkpoint { place, is_at_event, .. } = self.timeline.checkpoints[end].clone();
        let gauge = Gauge::to(&self.timeline.checkpoints, end);
        let way = Way { place, is_at_event, ran, blind: self.timeline.follower.blind, gauge };
        let Some(mut scout) = self.quietly(|session| session.scout_between(start, end, way))?
        else {
            return Ok(None);
        };
        let debuggee = scout.debuggee();
        debuggee.passed = Signals::ALL;
        debuggee.text.refresh(debuggee.process.pid);
        let text: Vec<Part> =
            self.closable(scout.debuggee().text.mappings()).map(Part::of).collect();
        if text.is_empty()
            || text.iter().map(|part| part.end - part.start).sum::<u64>() > MOST_TEXT_BYTES
        {
            return Ok(None);
        }
        let original = Some(self.timeline.checkpoints[start].snapshot.pid);
        Ok(Some(Away { scout, text, original, said: Word::NotYet }))
    }

    /// Text of files, as far as the program cannot change it and it is not ours.
    fn closable<'a>(&'a self, mappings: &'a [Mapping]) -> impl Iterator<Item = &'a Mapping> {
        let is_files = |mapping: &&Mapping| {
            mapping.executable
                && !mapping.writable
                && !mapping.shared
                && mapping.name.starts_with('/')
        };
        mappings.iter().filter(is_files).filter(|mapping| {
            !in_runtime(mapping.start) && !self.debuggee.text.is_stub(mapping.start)
        })
    }
}
