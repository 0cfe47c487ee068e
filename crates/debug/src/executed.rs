//! The instructions of the text that a stretch executed.

use retake_kernel::maps::Mapping;
use retake_snapshot::Ranges;
use serde::{Deserialize, Serialize};

/// Text whose executed parts are known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Part {
    pub start: u64,
    pub end: u64,
    /// The address that corresponds to the beginning of the file.
    origin: u64,
    /// The file's name in its folder, which is that of its content. The folder differs between
    /// sessions.
    content: String,
}

impl Part {
    pub fn of(mapping: &Mapping) -> Self {
        Self {
            start: mapping.start,
            end: mapping.end,
            origin: mapping.start.wrapping_sub(mapping.offset),
            content: mapping.name.rsplit('/').next().unwrap_or_default().to_owned(),
        }
    }

    fn is_of_same(&self, other: &Self) -> bool {
        (self.origin, &self.content) == (other.origin, &other.content)
    }

    fn common(&self, other: &Self) -> Option<Self> {
        let (start, end) = (self.start.max(other.start), self.end.min(other.end));
        (self.is_of_same(other) && start < end).then(|| Self { start, end, ..self.clone() })
    }
}

/// What is known about the executed text; by default nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Executed {
    /// Whether nothing at all was executed.
    is_nothing: bool,
    text: Vec<Part>,
    /// The executed parts of that text.
    ran: Ranges,
}

impl Executed {
    /// For a stretch that executed nothing.
    pub fn nothing() -> Self {
        Self { is_nothing: true, ..Self::default() }
    }

    /// For a stretch that executed these parts of this text.
    pub fn of(text: Vec<Part>, ran: Ranges) -> Self {
        Self { is_nothing: false, text, ran }
    }

    pub fn is_known(&self) -> bool {
        self.is_nothing || !self.text.is_empty()
    }

    /// Whether the code at an address in a mapping certainly was not executed.
    pub fn excludes(&self, address: u64, mapping: &Mapping) -> bool {
        let asked = Part::of(mapping);
        let is_known = self
            .text
            .iter()
            .any(|part| (part.start..part.end).contains(&address) && part.is_of_same(&asked));
        self.is_nothing || is_known && !self.ran.touch(address, 1)
    }

    /// Joins two consecutive stretches.
    pub fn and(&self, other: &Self) -> Self {
        match (self.is_nothing, other.is_nothing) {
            (true, _) => other.clone(),
            (_, true) => self.clone(),
            _ => {
                let common = self
                    .text
                    .iter()
                    .flat_map(|one| other.text.iter().filter_map(|other| one.common(other)));
                Self::of(common.collect(), self.ran.clone().and(&other.ran))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use retake_kernel::maps;

    fn mapping(start: u64, end: u64, name: &str) -> Mapping {
        maps::parse(&format!("{start:x}-{end:x} r-xp 00000000 08:01 77 {name}\n"))
            .unwrap()
            .remove(0)
    }

    #[test]
    fn only_what_is_known_is_excluded() {
        let (code, other) = (mapping(0x1000, 0x3000, "/code"), mapping(0x1000, 0x3000, "/other"));
        let one = Executed::of(vec![Part::of(&code)], [(0x1100, 0x1200)].into_iter().collect());
        assert!(
            one.excludes(0x10ff, &code)
                && one.excludes(0x1200, &code)
                && !one.excludes(0x1100, &code)
        );
        assert!(!one.excludes(0x1000, &other), "another file lies there now");
        assert!(
            !Executed::default().excludes(0x1000, &code)
                && Executed::nothing().excludes(0x1000, &code)
        );
    }

    #[test]
    fn of_two_stretches_what_both_know_counts() {
        let (all, half) = (mapping(0x1000, 0x3000, "/code"), mapping(0x1000, 0x2000, "/code"));
        let one = Executed::of(vec![Part::of(&all)], [(0x1100, 0x1200)].into_iter().collect());
        let two = Executed::of(vec![Part::of(&half)], [(0x1800, 0x1900)].into_iter().collect());
        let both = one.and(&two);
        assert!(
            both.excludes(0x1000, &all)
                && !both.excludes(0x1100, &all)
                && !both.excludes(0x1800, &all)
        );
        assert!(!both.excludes(0x2000, &all), "the second says nothing about it");
        assert_eq!(one.and(&Executed::nothing()), one);
        assert!(!one.and(&Executed::default()).is_known());
    }
}
