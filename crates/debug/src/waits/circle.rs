//! Describes threads that wait for each other.
//!
//! A thread is stuck if all threads that could end its wait are stuck themselves. A deadlock is a
//! set of such threads: no other thread can free any of them.

use super::{Helper, Wait};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// A process and one of its threads.
pub type Known = (i32, i32);

/// Describes threads that wait.
pub struct Told<'a> {
    waits: &'a [Wait],
    /// All threads of the examined processes. Those that do not wait run.
    threads: &'a [Known],
    by_thread: BTreeMap<Known, &'a Wait>,
}

impl<'a> Told<'a> {
    /// Takes the waits of these threads.
    pub fn new(waits: &'a [Wait], threads: &'a [Known]) -> Self {
        let by_thread = waits.iter().map(|wait| ((wait.pid, wait.tid), wait)).collect();
        Self { waits, threads, by_thread }
    }

    /// Returns a line for each wait and one for each circle.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.waits.iter().map(|wait| self.wait(wait)).collect();
        lines.extend(self.deadlocks());
        lines
    }

    /// Returns `deadlock: thread 2 waits for ... held by thread 3, which waits for ...` for each
    /// circle, or one line for all stuck threads without a circle.
    pub fn deadlocks(&self) -> Vec<String> {
        let stuck = self.stuck();
        let mut told = BTreeSet::new();
        let mut lines = Vec::new();
        for &thread in &stuck {
            if told.contains(&thread) {
                continue;
            }
            if let Some(circle) = self.circle_from(thread, &stuck)
                && circle.iter().all(|one| told.insert(*one))
            {
                lines.push(self.circle(&circle));
            }
        }
        if lines.is_empty() && !stuck.is_empty() {
            let names: Vec<String> = stuck.iter().map(|thread| self.name(*thread)).collect();
            lines.push(format!(
                "deadlock: {} wait, and no thread is left that could wake one of them",
                names.join(", ")
            ));
        }
        lines
    }

    /// The threads that a helper stands for.
    fn threads_of(&self, helper: &Helper) -> Vec<Known> {
        match helper.tid {
            Some(tid) => vec![(helper.pid, tid)],
            None => self.threads.iter().copied().filter(|(pid, _)| *pid == helper.pid).collect(),
        }
    }

    /// The largest set of waiting threads of which no thread outside of it can free any.
    fn stuck(&self) -> BTreeSet<Known> {
        let mut stuck: BTreeSet<Known> = self
            .by_thread
            .iter()
            .filter(|(_, wait)| !wait.is_bounded && !wait.helpers.is_empty())
            .map(|(thread, _)| *thread)
            .collect();
        loop {
            let is_free = |thread: &Known| {
                self.by_thread[thread].helpers.iter().any(|helper| {
                    let threads = self.threads_of(helper);
                    threads.is_empty() || threads.iter().any(|one| !stuck.contains(one))
                })
            };
            let free: Vec<Known> = stuck.iter().copied().filter(is_free).collect();
            if free.is_empty() {
                return stuck;
            }
            free.iter().for_each(|thread| {
                stuck.remove(thread);
            });
        }
    }

    /// The shortest way from a thread along the threads that it waits for, back to itself.
    fn circle_from(&self, start: Known, stuck: &BTreeSet<Known>) -> Option<Vec<Known>> {
        let mut from = BTreeMap::new();
        let mut pending = std::collections::VecDeque::from([start]);
        while let Some(thread) = pending.pop_front() {
            for helper in &self.by_thread.get(&thread)?.helpers {
                for next in self.threads_of(helper) {
                    if next == start {
                        let mut way = vec![thread];
                        while let Some(before) = from.get(&way[way.len() - 1]) {
                            way.push(*before);
                        }
                        way.reverse();
                        return Some(way);
                    }
                    if stuck.contains(&next) && !from.contains_key(&next) {
                        from.insert(next, thread);
                        pending.push_back(next);
                    }
                }
            }
        }
        None
    }

    fn circle(&self, circle: &[Known]) -> String {
        let mut text = String::from("deadlock: ");
        for (index, thread) in circle.iter().enumerate() {
            let wait = self.by_thread[thread];
            let next = circle[(index + 1) % circle.len()];
            let helper = wait.helpers.iter().find(|helper| self.threads_of(helper).contains(&next));
            let how = helper.map_or("", |helper| helper.how.as_str());
            if index == 0 {
                text += &self.name(*thread);
            }
            // Writing to a string cannot fail.
            let _ = write!(text, " waits for {}, {how} {}", wait.what, self.name(next));
            if index + 1 < circle.len() {
                text += ", which";
            }
        }
        if circle.len() == 1 {
            text += " itself";
        }
        text
    }

    fn wait(&self, wait: &Wait) -> String {
        let mut text = format!("{} waits for {}", self.name((wait.pid, wait.tid)), wait.what);
        let mut how = "";
        for (index, helper) in wait.helpers.iter().enumerate() {
            let name = match helper.tid {
                Some(tid) => self.name((helper.pid, tid)),
                None => format!("process {}", helper.pid),
            };
            if index == 0 || how != helper.how {
                let _ = write!(text, ", {} {name}", helper.how);
            } else {
                let _ = write!(text, " and {name}");
            }
            how = &helper.how;
            if let Some(since) = &helper.since {
                let _ = write!(text, " ({since})");
            }
        }
        if wait.is_bounded {
            text += ", for a limited time";
        }
        text
    }

    /// `thread 3`, with its process if there are several.
    fn name(&self, (pid, tid): Known) -> String {
        let is_several = self.threads.iter().any(|(other, _)| *other != pid);
        let is_alone = self.threads.iter().filter(|(other, _)| *other == pid).count() <= 1;
        match (is_several, is_alone) {
            (true, true) => format!("process {pid}"),
            (true, false) => format!("thread {tid} of process {pid}"),
            (false, _) => format!("thread {tid}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(tid: i32, what: &str, helpers: &[(Option<i32>, &str)]) -> Wait {
        Wait {
            pid: 1,
            tid,
            call: "futex".to_owned(),
            what: what.to_owned(),
            futex: None,
            helpers: helpers
                .iter()
                .map(|(tid, how)| Helper { pid: 1, tid: *tid, how: (*how).to_owned(), since: None })
                .collect(),
            is_bounded: false,
        }
    }

    #[test]
    fn circles_are_named() {
        let waits = [
            wait(1, "the end of thread 2", &[(Some(2), "which is")]),
            wait(2, "mutex a", &[(Some(3), "held by")]),
            wait(3, "mutex b", &[(Some(2), "held by")]),
        ];
        let threads = [(1, 1), (1, 2), (1, 3)];
        assert_eq!(
            Told::new(&waits, &threads).deadlocks(),
            ["deadlock: thread 2 waits for mutex a, held by thread 3, which waits for mutex b, \
              held by thread 2"]
        );
        // Another thread runs that could end the wait.
        let mut open = waits.to_vec();
        open[2].helpers = vec![Helper::process(1, "by")];
        assert_eq!(Told::new(&open, &[(1, 1), (1, 2), (1, 3), (1, 4)]).deadlocks(), [""; 0]);
        open[2] = wait(3, "mutex b", &[(Some(2), "held by")]);
        open[2].is_bounded = true;
        assert_eq!(Told::new(&open, &threads).deadlocks(), [""; 0]);
    }

    #[test]
    fn who_waits_for_itself_is_stuck() {
        let waits = [wait(1, "mutex a", &[(Some(1), "held by")])];
        let told = Told::new(&waits, &[(1, 1)]);
        assert_eq!(
            told.deadlocks(),
            ["deadlock: thread 1 waits for mutex a, held by thread 1 itself"]
        );
    }

    #[test]
    fn all_may_be_stuck_without_a_circle_through_each() {
        let waits = [
            wait(1, "the end of thread 2", &[(Some(2), "which is")]),
            wait(2, "semaphore s", &[(Some(1), "which could be posted by")]),
        ];
        let told = Told::new(&waits, &[(1, 1), (1, 2)]);
        assert_eq!(told.deadlocks().len(), 1);
        assert!(told.lines()[1].contains("semaphore s, which could be posted by thread 1"));
    }
}
