//! One small change of one source file.

use std::fmt;
use std::path::Path;

use crate::bench::Result;

/// The kind of a mutation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A person wrote it.
    Written,
    /// A comparison is reversed.
    Comparison,
    /// A comparison changes where both sides are equal.
    Boundary,
    /// And becomes or, or the reverse.
    Logic,
    /// `+ 1` or `- 1` is dropped.
    Step,
    /// A length is one more.
    Length,
    /// A call is left out.
    Call,
    /// A function returns the opposite.
    Answer,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Comparison => "comparison",
            Self::Boundary => "boundary",
            Self::Logic => "logic",
            Self::Step => "step",
            Self::Length => "length",
            Self::Call => "call",
            Self::Answer => "answer",
        }
    }
}

/// A change: `old` at `start` becomes `new`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutation {
    /// The path, relative to the repository.
    pub file: String,
    pub start: usize,
    pub old: String,
    pub new: String,
    pub kind: Kind,
    /// The number of the first changed line, from 1.
    pub line: usize,
    /// The line with the change. `becomes` is the changed line. If there are several lines, all.
    pub was: String,
    pub becomes: String,
    /// A description of the mistake, for people.
    pub why: String,
}

impl Mutation {
    /// Makes a mutation that changes `bytes` bytes of `text`, the contents of `file`.
    pub fn at(file: &str, text: &str, start: usize, bytes: usize, new: &str, kind: Kind) -> Self {
        let end = start + bytes;
        let first = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let last = text[end..].find('\n').map_or(text.len(), |at| end + at);
        Self {
            file: file.to_owned(),
            start,
            old: text[start..end].to_owned(),
            new: new.to_owned(),
            kind,
            line: text[..start].matches('\n').count() + 1,
            was: text[first..last].to_owned(),
            becomes: format!("{}{new}{}", &text[first..start], &text[end..last]),
            why: kind.name().to_owned(),
        }
    }

    /// Returns the key in the results. A change before it in the file gives it another key, and
    /// then it is just run again.
    pub fn key(&self) -> String {
        format!("{}:{}:{}", self.file, self.start, self.becomes)
    }

    /// Returns the contents of the file with the mutation.
    ///
    /// # Errors
    /// The file has changed since it was scanned.
    pub fn applied(&self, repository: &Path) -> Result<String> {
        let text = std::fs::read_to_string(repository.join(&self.file))?;
        let end = self.start + self.old.len();
        if text.get(self.start..end) != Some(self.old.as_str()) {
            return Err(format!("{}:{}: is not what it was", self.file, self.line).into());
        }
        Ok(format!("{}{}{}", &text[..self.start], self.new, &text[end..]))
    }

    /// Runs `done` while the mutation is in the copy. Afterwards the copy is without it.
    ///
    /// # Errors
    /// Errors of [`Mutation::applied`] and of `done`.
    pub fn while_applied<T>(&self, copy: &Path, done: impl FnOnce() -> Result<T>) -> Result<T> {
        let path = copy.join(&self.file);
        let (original, mutated) = (std::fs::read(&path)?, self.applied(copy)?);
        std::fs::write(&path, mutated)?;
        let result = done();
        std::fs::write(&path, original)?;
        result
    }
}

/// Shows the place and the change.
impl fmt::Display for Mutation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        write!(
            formatter,
            "{}:{} ({}) `{}` becomes `{}`",
            self.file,
            self.line,
            self.why,
            line(&self.was),
            line(&self.becomes)
        )
    }
}
