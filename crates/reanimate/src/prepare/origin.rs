//! The state of a node before the trace, as far as the trace has not changed it.

use std::ops::Range;
use std::rc::Rc;

use super::Evidence;
use super::ranges::Ranges;

/// Where a node was when the trace began, if it existed, and how calls have changed it since.
#[derive(Debug)]
pub struct Origin {
    /// Its path below the root at that time.
    pub path: Rc<[u8]>,
    /// Whether it certainly existed.
    pub is_proven: bool,
    /// Whether the trace opened it in a way that makes a missing file. Only bytes that the trace
    /// did not write prove then that it existed.
    pub may_be_new: bool,
    /// Whether the trace changed mode, owners or times.
    pub attributes_changed: bool,
    /// Whether the trace changed the size.
    pub size_changed: bool,
    /// The least size that it must have had, in bytes.
    pub least_size: u64,
    /// The latest evidence. Most calls prove the same as the call before.
    pub shown: Option<Evidence>,
    /// The index of its facts, if it has any.
    pub facts: Option<u32>,
    /// Whether mode and owners are known.
    pub has_status: bool,
    /// Ranges that the trace wrote, or that are proven already.
    settled: Ranges,
}

impl Origin {
    /// The origin of the root directory.
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

    /// The origin of a name in this directory.
    pub fn child(&self, name: &[u8]) -> Self {
        Self::at(if self.path.is_empty() {
            name.into()
        } else {
            [&*self.path, b"/", name].concat().into()
        })
    }

    /// Records that the trace wrote a range.
    pub fn note_written(&mut self, range: Range<u64>) {
        self.size_changed = true;
        self.settled.insert(range);
    }

    /// Records that the trace wrote a range without changing the size.
    pub fn note_overwritten(&mut self, range: Range<u64>) {
        self.settled.insert(range);
    }

    /// Records a write at an unknown offset. Later reads prove nothing.
    pub fn note_changed_somewhere(&mut self) {
        self.note_written(0..u64::MAX);
    }

    /// Records that the trace truncated the file to size 0.
    pub fn note_truncated(&mut self) {
        self.note_resized(0);
    }

    /// Records that the trace set the size. Bytes beyond it are not the original ones.
    pub fn note_resized(&mut self, size: u64) {
        self.size_changed = true;
        self.settled.insert(size..u64::MAX);
    }

    /// Records that the trace changed mode, owners or times.
    pub fn note_attributes_changed(&mut self) {
        self.attributes_changed = true;
    }

    /// Returns the parts of a range that have the original bytes and are not proven yet. Marks the
    /// range as settled.
    pub fn unsettled(&mut self, range: Range<u64>) -> Vec<Range<u64>> {
        let missing = self.settled.missing(range.clone());
        self.settled.insert(range);
        missing
    }
}
