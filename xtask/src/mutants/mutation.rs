//! One small change of one source file.

use std::fmt;
use std::path::Path;

use crate::bench::Result;

/// What a mutation does, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Written by a person.
    Written,
    /// A comparison says the opposite.
    Comparison,
    /// A comparison differs where both sides are equal.
    Boundary,
    /// And for or, or the other way round.
    Logic,
    /// `+ 1` or `- 1` is not there.
    Step,
    /// A length is one more.
    Length,
    /// A call is not made.
    Call,
    /// A function answers the opposite.
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
    /// Relative to the repository.
    pub file: String,
    pub start: usize,
    pub old: String,
    pub new: String,
    pub kind: Kind,
    /// Of the first changed line, from 1.
    pub line: usize,
    /// The line it is on, and what that becomes. Of several lines, all.
    pub was: String,
    pub becomes: String,
    /// For people: what is wrong with it.
    pub why: String,
}

impl Mutation {
    /// Changes `bytes` bytes of `text`, which is what `file` holds.
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

    /// By what it is known in results: a change elsewhere in the file makes it another one, which
    /// costs no more than running it again.
    pub fn key(&self) -> String {
        format!("{}:{}:{}", self.file, self.start, self.becomes)
    }

    /// What the file holds with it.
    ///
    /// # Errors
    /// The file is not the one that was read.
    pub fn applied(&self, repository: &Path) -> Result<String> {
        let text = std::fs::read_to_string(repository.join(&self.file))?;
        let end = self.start + self.old.len();
        if text.get(self.start..end) != Some(self.old.as_str()) {
            return Err(format!("{}:{}: is not what it was", self.file, self.line).into());
        }
        Ok(format!("{}{}{}", &text[..self.start], self.new, &text[end..]))
    }

    /// Does something while the mutation is in the copy; the copy is without it afterwards.
    ///
    /// # Errors
    /// Those of [`Mutation::applied`] and of what is done.
    pub fn while_applied<T>(&self, copy: &Path, done: impl FnOnce() -> Result<T>) -> Result<T> {
        let path = copy.join(&self.file);
        let (original, mutated) = (std::fs::read(&path)?, self.applied(copy)?);
        std::fs::write(&path, mutated)?;
        let result = done();
        std::fs::write(&path, original)?;
        result
    }
}

/// The place, and what changes there.
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
