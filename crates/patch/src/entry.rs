//! The runtime's entries, which stubs jump to.

use retake_contract::addresses;

/// Where a stub can enter the runtime. Each has a literal at the start of the stub area.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Entry {
    /// Makes a system call.
    SystemCall,
    /// Reads the counter.
    Rdtsc,
    /// Reads the counter and the core's number.
    Rdtscp,
    /// Tells what the processor can do.
    Cpuid,
    /// A section begins: all registers and flags are kept.
    SectionBegin,
    /// A section ends: all registers and flags are kept.
    SectionEnd,
    /// A section begins that is a compare-and-exchange. The runtime may go on behind the section
    /// instead, having done what one does that fails: the byte before where it would go on
    /// otherwise says how many bytes further that is.
    CompareBegin,
    /// It ends: the runtime sees from the flags whether it succeeded.
    CompareEnd,
    /// A function begins that works on one object: a section that is ordered by the object.
    ObjectBegin,
    /// A function begins that waits on a condition, and works on a mutex besides: a section that is
    /// ordered by both.
    ConditionBegin,
    /// A passage that somebody wants to know of: see [`crate::SiteKind::Passage`].
    Passage,
}

impl Entry {
    /// Every entry, in the order of their literals.
    pub const ALL: [Entry; 11] = [
        Entry::SystemCall,
        Entry::Rdtsc,
        Entry::Rdtscp,
        Entry::Cpuid,
        Entry::SectionBegin,
        Entry::SectionEnd,
        Entry::CompareBegin,
        Entry::CompareEnd,
        Entry::ObjectBegin,
        Entry::ConditionBegin,
        Entry::Passage,
    ];

    /// Position of its literal in the stub area.
    pub fn index(self) -> usize {
        self as usize
    }

    /// Absolute address.
    pub const fn address(self) -> u64 {
        addresses::RUNTIME_TEXT
            + match self {
                Entry::SystemCall => addresses::ENTRY_SYSCALL,
                Entry::Rdtsc => addresses::ENTRY_TSC,
                Entry::Rdtscp => addresses::ENTRY_TSCP,
                Entry::Cpuid => addresses::ENTRY_CPUID,
                Entry::SectionBegin => addresses::ENTRY_SECTION_BEGIN,
                Entry::SectionEnd => addresses::ENTRY_SECTION_END,
                Entry::CompareBegin => addresses::ENTRY_COMPARE_BEGIN,
                Entry::CompareEnd => addresses::ENTRY_COMPARE_END,
                Entry::ObjectBegin => addresses::ENTRY_OBJECT_BEGIN,
                Entry::ConditionBegin => addresses::ENTRY_CONDITION_BEGIN,
                Entry::Passage => addresses::ENTRY_PASSAGE,
            }
    }
}
