//! The runtime's entries, which stubs jump to.

use retake_contract::addresses;

/// An entry of the runtime. Each has a literal at the start of the stub area.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Entry {
    /// Executes a system call.
    SystemCall,
    /// Reads the time-stamp counter.
    Rdtsc,
    /// Reads the time-stamp counter and the core's number.
    Rdtscp,
    /// Answers CPUID.
    Cpuid,
    /// Begins a section, and keeps all registers and flags.
    SectionBegin,
    /// Ends a section, and keeps all registers and flags.
    SectionEnd,
    /// Begins a section that is a compare-and-exchange. If the runtime does the work of a failing
    /// one itself, it continues after the section. The byte before the normal return address has
    /// the distance from there.
    CompareBegin,
    /// Ends a compare-and-exchange. The flags tell the runtime whether it succeeded.
    CompareEnd,
    /// Begins a function that works on one object: a section that is ordered by the object.
    ObjectBegin,
    /// Begins a function that waits on a condition and also works on a mutex: a section that is
    /// ordered by both.
    ConditionBegin,
    /// Reports a passage, if its calls are counted: see [`crate::SiteKind::Passage`].
    Passage,
    /// Reports a call by way of an unbound slot, its operand: see [`crate::SiteKind::Binding`].
    Binding,
}

impl Entry {
    /// Every entry, in the order of their literals.
    pub const ALL: [Entry; 12] = [
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
        Entry::Binding,
    ];

    /// Position of its literal in the stub area.
    pub fn index(self) -> usize {
        self as usize
    }

    /// The absolute address of the entry.
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
                Entry::Binding => addresses::ENTRY_BINDING,
            }
    }
}
