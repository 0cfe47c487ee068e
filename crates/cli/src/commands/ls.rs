//! `retake ls`: lists the recordings.

use std::cmp::Reverse;

use clap::Args;
use retake_recording::{Listing, Location, Metadata, latest, list};
use serde::Serialize;

use crate::failure::Result;
use crate::in_memory::{self, InMemory};
use crate::output::{Output, Style, Table};
use crate::recordings;
use crate::text;

/// Options of `retake ls`.
#[derive(Debug, Args)]
#[command(after_help = "\
Recordings are kept in $RETAKE_DIR, else in $XDG_DATA_HOME/retake, else in ~/.local/share/retake. The size is that of the \
events; files the program read are shared by all recordings (see `retake info`). EXIT is the program's status or the signal \
that killed it, `running` while it is being recorded, `cut off` if the recorder was killed: what it had written by then can be \
replayed.

Examples:
  retake ls
  retake ls --sort size
  retake ls --json | jq -r '.recordings[] | select(.metadata.outcome.exit.exited != 0) | .name'
")]
pub struct Options {
    /// Sort by size (the largest first), by time (the latest first), or by name
    #[arg(long, value_enum, value_name = "BY", default_value_t = Sort::Name)]
    sort: Sort,

    /// Print only the names, one a line
    #[arg(long, conflicts_with = "json")]
    names: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The sort order of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Sort {
    /// The largest first
    Size,
    /// The latest first
    Time,
    /// By name
    Name,
}

/// The list and its totals.
#[derive(Debug, Serialize)]
struct Listed<'list> {
    recordings: Vec<Row<'list>>,
    count: usize,
    file_bytes: u64,
}

#[derive(Debug, Serialize)]
struct Row<'list> {
    name: &'list str,
    path: String,
    is_packed: bool,
    is_latest: bool,
    is_in_memory: bool,
    file_bytes: u64,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'list Metadata>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Prints the list.
pub fn run(options: &Options) -> Result<()> {
    let location = Location::from_environment()?;
    let mut listings = list(&location.recordings)?;
    let in_memory = InMemory::all().into_iter().filter(|one| one.is_for(&location));
    listings.extend(in_memory.filter_map(|one| one.listing()));
    match options.sort {
        Sort::Size => listings.sort_by_key(|one| Reverse(one.file_bytes)),
        Sort::Time => listings.sort_by_cached_key(|one| Reverse(recordings::began_unix_ms(one))),
        Sort::Name => {}
    }
    let file_bytes = listings.iter().map(|one| one.file_bytes).fold(0, u64::saturating_add);
    let latest = latest(&location.recordings)?;
    let mut output = Output::new();
    if options.json {
        let recordings = listings
            .iter()
            .map(|listing| json_row(listing, latest.as_deref() == Some(&*listing.path)))
            .collect();
        output.json(&Listed { recordings, count: listings.len(), file_bytes })?;
        return output.finish();
    }
    if options.names {
        for listing in &listings {
            output.line(text::harmless(&listing.name))?;
        }
        return output.finish();
    }
    if listings.is_empty() {
        let folder = location.recordings.display();
        retake_kernel::tell!("nothing is recorded in {folder} yet: try retake record ls");
        return output.finish();
    }
    let mut table = Table::new(&["NAME", "WHEN", "SIZE", "TIME", "EXIT", "COMMAND"], &[2, 3]);
    for listing in &listings {
        table.row(cells(listing));
    }
    table.print(&mut output)?;
    let total = format!("{}, {}", text::recordings(listings.len()), text::bytes(file_bytes));
    output.line(output.styled(Style::Faint, format!("total: {total}")))?;
    if let Some(name) = latest.as_deref().and_then(|path| path.file_name()) {
        let name = text::harmless(&name.to_string_lossy());
        output.line(output.styled(Style::Faint, format!("latest: {name}")))?;
    }
    output.finish()
}

fn cells(listing: &Listing) -> [String; 6] {
    let name = text::harmless(&listing.name);
    let size = text::bytes(listing.file_bytes);
    let none = || "-".to_owned();
    let metadata = match &listing.metadata {
        Ok(metadata) => metadata,
        Err(error) => {
            let error = text::harmless(&error.to_string());
            return [name, none(), size, none(), "damaged".to_owned(), error];
        }
    };
    let outcome = metadata.outcome.as_ref();
    [
        name,
        text::local_time(metadata.started_unix_ms),
        size,
        outcome.map_or_else(none, |outcome| text::duration(outcome.duration_ms)),
        outcome.map_or_else(|| unfinished(listing).to_owned(), |outcome| text::exit(outcome.exit))
            + if in_memory::holds(&listing.path) { " (in memory)" } else { "" },
        text::command(&metadata.arguments),
    ]
}

/// Why a recording has no exit status.
fn unfinished(listing: &Listing) -> &'static str {
    if recordings::is_being_recorded(listing) { "running" } else { "cut off" }
}

fn json_row(listing: &Listing, is_latest: bool) -> Row<'_> {
    let metadata = listing.metadata.as_ref();
    Row {
        name: &listing.name,
        path: listing.path.to_string_lossy().into_owned(),
        is_packed: listing.is_packed,
        is_latest,
        is_in_memory: in_memory::holds(&listing.path),
        file_bytes: listing.file_bytes,
        state: match metadata {
            Err(_) => "damaged",
            Ok(metadata) if metadata.outcome.is_some() => "finished",
            Ok(_) => unfinished(listing),
        },
        metadata: metadata.ok(),
        error: metadata.err().map(ToString::to_string),
    }
}
