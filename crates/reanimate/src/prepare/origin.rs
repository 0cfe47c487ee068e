//! What a node was before the trace, as far as the trace has not changed it.

use std::ops::Range;
use std::rc::Rc;

use super::Evidence;
use super::ranges::Ranges;

/// Where a node was when the trace began, if it was there, and what calls since did to it.
#[derive(Debug)]
pub struct Origin {
    /// Its path below the root then.
    pub path: Rc<[u8]>,
    /// It was there for certain.
    pub is_proven: bool,
    /// The trace opened it in a way that makes what is not there: only bytes that it did not write
    /// show that it was.
    pub may_be_new: bool,
    /// Mode, owners and times are the trace's own.
    pub attributes_changed: bool,
    /// So is the size.
    pub size_changed: bool,
    /// The least size it must have had.
    pub least_size: u64,
    /// What was proven last: most calls prove what the one before did.
    pub shown: Option<Evidence>,
    /// Where what is known of it is among all facts, once something is.
    pub facts: Option<u32>,
    /// Mode and owners are known.
    pub has_status: bool,
    /// Bytes that the trace wrote, or that are proven already.
    settled: Ranges,
}

impl Origin {
    /// The root directory's.
    pub fn root() -> Self {
        Self { is_proven: true, ..Self::at(Rc::default()) }
    }

    fn at(path: Rc<[u8]>) -> Self {
        let settled = Ranges::default();
        Self {
            path,
            is_proven: false,
            may_be_new: false,
            attributes_changed: false,
            size_changed: false,
            least_size: 0,
            shown: None,
            facts: None,
            has_status: false,
            settled,
        }
    }

    /// That of a name in this directory.
    pub fn child(&self, name: &[u8]) -> Self {
        Self::at(if self.path.is_empty() {
            name.into()
        } else {
            [&*self.path, b"/", name].concat().into()
        })
    }

    /// The trace wrote there.
    pub fn note_written(&mut self, range: Range<u64>) {
        self.size_changed = true;
        self.settled.insert(range);
    }

    /// The trace wrote there without changing the size.
    pub fn note_overwritten(&mut self, range: Range<u64>) {
        self.settled.insert(range);
    }

    /// The trace wrote, nobody knows where: nothing read from now on proves anything.
    pub fn note_changed_somewhere(&mut self) {
        self.note_written(0..u64::MAX);
    }

    /// The trace emptied it.
    pub fn note_truncated(&mut self) {
        self.note_resized(0);
    }

    /// The trace set its size: what is beyond is not of before.
    pub fn note_resized(&mut self, size: u64) {
        self.size_changed = true;
        self.settled.insert(size..u64::MAX);
    }

    /// The trace changed mode, owners or times.
    pub fn note_attributes_changed(&mut self) {
        self.attributes_changed = true;
    }

    /// The parts of what was read that show bytes of before, and are not known yet. From now on
    /// they are.
    pub fn unsettled(&mut self, range: Range<u64>) -> Vec<Range<u64>> {
        let missing = self.settled.missing(range.clone());
        self.settled.insert(range);
        missing
    }
}
