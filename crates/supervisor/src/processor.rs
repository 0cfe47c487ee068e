//! The processor that programs see. At replay, that is the recording machine's.

use retake_kernel::cpuid::{self, Answer};
use retake_recording::{CpuidAnswer, Processor};

/// CPUID's leaf of state components. From subleaf 2 on, each subleaf describes the component with
/// its number: eax has the size and ebx the offset.
const COMPONENTS: u32 = 0xd;

/// The description of this machine's processor.
pub fn this_processor() -> Processor {
    let (extended_features, extended_bytes) = cpuid::extended_state();
    Processor {
        cpuid: cpuid::table().into_iter().map(answer).collect(),
        extended_features,
        extended_bytes,
        traps_cpuid: cpuid::can_fault(),
    }
}

fn answer(Answer { leaf, subleaf, eax, ebx, ecx, edx }: Answer) -> CpuidAnswer {
    CpuidAnswer([leaf, subleaf, eax, ebx, ecx, edx])
}

/// Why this machine cannot replace a recorded processor, if it cannot.
pub(crate) fn difference(recorded: &Processor) -> Option<&'static str> {
    let (features, bytes) = cpuid::extended_state();
    let is_elsewhere = |&CpuidAnswer([leaf, subleaf, size, place, ..]): &CpuidAnswer| {
        let is_used = leaf == COMPONENTS
            && (2..64).contains(&subleaf)
            && recorded.extended_features >> subleaf & 1 == 1;
        is_used && cpuid::component(subleaf) != (size, place)
    };
    if recorded.cpuid.is_empty() {
        Some("the recording does not say what processor it was made on")
    } else if recorded.extended_features & !features != 0 || recorded.extended_bytes > bytes {
        Some("the recorded one had more registers than this one")
    } else if recorded.cpuid.iter().any(is_elsewhere) {
        Some("this one lays out the registers in signal frames in another way")
    } else if recorded.traps_cpuid && !cpuid::can_fault() {
        Some("the recorded one could make CPUID trap, this one cannot")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_stands_in_for_itself() {
        assert_eq!(difference(&this_processor()), None);
    }

    #[test]
    fn others_are_refused() {
        let mut other = this_processor();
        other.extended_features |= 1 << 62;
        assert!(difference(&other).is_some_and(|why| why.contains("more registers")));
        let mut other = this_processor();
        other.extended_bytes += 64;
        assert!(difference(&other).is_some_and(|why| why.contains("more registers")));
        let mut other = this_processor();
        let vectors = other.cpuid.iter_mut().find(|answer| answer.0[..2] == [COMPONENTS, 2]);
        if let Some(vectors) = vectors.filter(|_| other.extended_features & 4 != 0) {
            vectors.0[3] += 64;
            assert!(difference(&other).is_some_and(|why| why.contains("another way")));
        }
        assert!(difference(&Processor::default()).is_some_and(|why| why.contains("does not say")));
    }
}
