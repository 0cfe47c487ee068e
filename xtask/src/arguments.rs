//! How many arguments the events of each call have. Readers of recordings learn it from their own
//! tables, so it must stay as it is for the recordings that there are: `tables/kept.txt` has it.
//!
//! A call that no kept line has may be added. So may commands, if they have as many arguments as
//! their call. Any other change of these numbers needs a new version of recordings.

use std::path::Path;

use retake_contract_gen::Kept;

use crate::table::{Call, Table};

/// The version of recordings (docs/FORMAT.md).
const FORMAT_VERSION: u64 = 2;
/// The file with the kept lines.
pub const FILE: &str = "tables/kept.txt";

/// Returns what was kept so far.
pub fn before(repository: &Path) -> Option<Kept> {
    Kept::parse(&std::fs::read_to_string(repository.join(FILE)).ok()?)
}

/// Returns what is kept from now on.
///
/// # Errors
/// The tables break what was kept so far.
pub fn next(before: Option<&Kept>, table: &Table) -> Result<Kept, String> {
    let lines: Vec<String> = table.calls.iter().filter(|call| call.named).map(line).collect();
    Kept::next(before, FORMAT_VERSION, &lines).map_err(|broken| {
        format!(
            "recordings rely on `{broken}`, which holds no more: a call keeps its number of \
             arguments, and new commands have as many, or recordings get a new version \
             (docs/HOWTO_ADD_SYSCALL.md)"
        )
    })
}

/// A call, its number of arguments, and the commands that have another one.
fn line(call: &Call) -> String {
    let count = call.row.arguments.len();
    let others = call.sub_rows.iter().filter(|sub| sub.row.arguments.len() != count);
    let others: Vec<String> =
        others.map(|sub| format!(" {:#x}: {}", sub.command, sub.row.arguments.len())).collect();
    let by = match call.selector.filter(|_| !others.is_empty()) {
        Some(selector) => format!(", by {selector}:{}", others.join(",")),
        None => String::new(),
    };
    format!("{} {}: {count}{by}", call.number, call.name)
}
