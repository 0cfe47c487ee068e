//! Puts the tracer and a traced thread on one processor. They take turns, and waking a thread on
//! another processor takes longer than everything else in a stop.

use retake_kernel::call_tracer::{Processors, current_processor};

/// A thread with so many stops in a row runs alone for now: the others sleep, or compute.
const ALONE: u32 = 8;

/// The thread that shares a processor with the tracer.
#[derive(Default)]
pub(crate) struct Turns {
    /// The affinity of the tracer's thread. `None` if affinities may not be changed.
    own: Option<Processors>,
    /// The thread that shares our processor, and its own affinity.
    shared: Option<(i32, Processors)>,
    /// The thread that stopped last. `streak` is its number of stops in a row.
    last: i32,
    streak: u32,
}

impl Turns {
    /// Allows changes of affinities. Only for programs that we start and trace to their end.
    pub fn allow(&mut self) {
        self.own = Processors::of(0).ok();
    }

    /// Notes that a thread has stopped at a call. It shares our processor if it alone keeps
    /// stopping.
    pub fn stopped(&mut self, tid: i32) {
        self.streak = if self.last == tid { self.streak.saturating_add(1) } else { 1 };
        self.last = tid;
        if self.streak == ALONE && self.shared.as_ref().is_none_or(|(shared, _)| *shared != tid) {
            self.end();
            self.share(tid);
        }
    }

    fn share(&mut self, tid: i32) {
        if self.own.is_none() {
            return;
        }
        let Ok(its) = Processors::of(tid) else { return };
        let Some(one) = its.only(current_processor()).or_else(|| its.first()) else { return };
        if one.give(0).is_ok() && one.give(tid).is_ok() {
            self.shared = Some((tid, its));
        } else {
            self.end();
        }
    }

    /// Gives a thread its processors back. It asks for them, passes them on, or is gone.
    pub fn end_for(&mut self, tid: i32) {
        if self.shared.as_ref().is_some_and(|(shared, _)| *shared == tid) {
            self.end();
        }
    }

    /// Gives all threads their processors back.
    pub fn end(&mut self) {
        self.streak = 0;
        let Some(own) = &self.own else { return };
        // This cannot fail: it is the old affinity of this thread.
        let _ = own.give(0);
        if let Some((tid, its)) = self.shared.take() {
            // The thread may be gone.
            let _ = its.give(tid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    fn processors(tid: i32) -> String {
        let status = std::fs::read_to_string(format!("/proc/{tid}/status")).unwrap();
        status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
            .unwrap()
            .trim()
            .to_owned()
    }

    fn sleeper() -> (Child, i32) {
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        let tid = child.id() as i32;
        (child, tid)
    }

    #[test]
    fn whoever_stops_alone_shares_the_processor_until_it_asks_for_others() {
        let [(mut first, one), (mut second, other)] = [sleeper(), sleeper()];
        let mut turns = Turns::default();
        (0..2 * ALONE).for_each(|_| turns.stopped(one));
        assert!(turns.shared.is_none(), "processors are left as they are unless that is allowed");
        turns.end();
        turns.allow();
        let all = processors(one);
        (0..4 * ALONE).for_each(|turn| turns.stopped(if turn % 2 == 0 { one } else { other }));
        assert_eq!(
            (processors(one), processors(other)),
            (all.clone(), all.clone()),
            "two that take turns are not alone"
        );
        (0..ALONE).for_each(|_| turns.stopped(one));
        assert!(processors(one).parse::<u32>().is_ok() && processors(other) == all);
        // Single stops of another thread change nothing. Many in a row do.
        turns.stopped(other);
        turns.end_for(other);
        assert!(processors(one).parse::<u32>().is_ok());
        (0..ALONE).for_each(|_| turns.stopped(other));
        assert!(processors(one) == all && processors(other).parse::<u32>().is_ok());
        turns.end_for(other);
        assert_eq!((processors(one), processors(other)), (all.clone(), all));
        first.kill().and_then(|()| first.wait()).unwrap();
        second.kill().and_then(|()| second.wait()).unwrap();
    }
}
