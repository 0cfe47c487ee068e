//! Checks that every trace obeys the description of the format, byte by byte. The reader here
//! shares no code with the writer. It makes all the checks that the original tools can make.

mod common;
#[path = "../../dataseries/tests/slow/mod.rs"]
mod slow;

use common::{any_trace, write};
use proptest::prelude::*;
use retake_dataseries::{ByteOrder, CompressionSet};
use retake_trace_format::{TraceRecord, TraceWriterOptions};
use slow::{Slow, SlowExtent};

/// Returns the ids of all calls. The columns of each type begin with the fields of RE-ANIMATOR's
/// schema, which give the place of the id.
fn ids(extents: &[SlowExtent], columns: &dyn Fn(&str) -> Option<usize>) -> Vec<i64> {
    let mut ids = Vec::new();
    for extent in extents {
        let Some(column) = columns(&extent.type_name) else { continue };
        let of_type = extent.rows.iter().map(|row| {
            if let Slow::Int64(id) = row[column] { id } else { panic!("an id is never null") }
        });
        let of_type: Vec<i64> = of_type.collect();
        assert!(of_type.is_sorted(), "{}", extent.type_name);
        ids.extend(of_type);
    }
    ids.sort_unstable();
    ids.dedup();
    ids
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn traces_obey_the_rules_of_the_format(trace in any_trace(0..40),
        extent_bytes in 1..20_000_usize, big in any::<bool>(), way in 0..3_usize) {
        let order = if big { ByteOrder::Big } else { ByteOrder::Little };
        let compression = [CompressionSet::NONE, CompressionSet::LZ4, CompressionSet::ZLIB][way];
        let file = write(&trace, TraceWriterOptions { extent_bytes, order, compression,
            ..TraceWriterOptions::default() });
        slow::rules::obeys(&file);
        let extents = slow::read(&file);
        prop_assert!(slow::SLOW_CHAIN.with(std::cell::Cell::get), "the chain of checksums");
        // The common fields are sorted by name, and `unique_id` is the last of the fourteen.
        let of_calls = |name: &str| name.starts_with("IOTTAFSL::Trace::Syscall::").then_some(13);
        let found = ids(&extents, &of_calls);
        let written: Vec<u64> = trace.iter().filter_map(TraceRecord::id).collect();
        prop_assert!(found.iter().all(|id| *id == 0 || written.contains(&(*id as u64))),
            "{found:?} of {written:?}");
    }
}
