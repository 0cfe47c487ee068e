//! Where a replay of all processes begins, if what some of them did before their images is left
//! out of the recording.

use super::{Summary, list};
use crate::history::strangers::{Begun, children_after, makes, stranger, takes_early_turns};
use retake_model::Event;
use retake_model::event::BY_VFORK;
use retake_recording::{
    Checkpoints, EventReader, KeptCheckpoint, Recording, Result, StreamId, StreamKind,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

/// An image, and what it is of.
pub type Image = (KeptCheckpoint, Summary);

/// Where a replay begins.
#[derive(Debug, Clone, PartialEq)]
pub struct Beginning {
    /// The images of processes that begin late, those of processes that began first first.
    pub images: Vec<Image>,
    /// Whether the first process begins at its start.
    pub has_start: bool,
    /// A process that takes turns between those of the replayed processes, and is none of them.
    pub stranger: Option<i32>,
}

/// The images of a recording, without those whose events are left out.
///
/// # Errors
/// They cannot be listed.
pub fn images(recording: &Recording, places: &Checkpoints) -> Result<Vec<Image>> {
    let all = list(recording, places)?.into_iter();
    let read = all.filter_map(|(kept, summary)| Some((kept, summary.ok()?)));
    Ok(read.filter(|(_, summary)| summary.is_image()).collect())
}

/// The image, and those of the processes that share memory with it, the first process first.
pub fn together(summary: &Summary, all: &[Image]) -> Vec<Image> {
    let belongs =
        |one: &Summary| one == summary || one.group.is_some() && one.group == summary.group;
    let mut found: Vec<Image> = all.iter().filter(|(_, one)| belongs(one)).cloned().collect();
    found.sort_by_key(|(_, one)| one.program);
    found
}

/// Whether some images that belong together with this one are missing. A recorder may be killed
/// while it writes them.
pub fn lacks_others((_, summary): &Image, all: &[Image]) -> bool {
    summary.group.is_some_and(|group| together(summary, all).len() < group.count as usize)
}

/// Finds where a replay of all processes begins: each at its first image if what came before is
/// left out, and those that share memory at images of one time. `None` if there are no images.
///
/// # Errors
/// The recording cannot be read.
pub fn beginning(recording: &Recording, places: &Checkpoints) -> Result<Option<Beginning>> {
    let known = images(recording, places)?;
    let mut all: Vec<Image> =
        known.iter().filter(|image| !lacks_others(image, &known)).cloned().collect();
    all.sort_by_key(|(kept, _)| kept.number);
    let late_streams = recording.late_streams();
    let late: Vec<&Image> =
        all.iter().filter(|(_, one)| late_streams.contains(&StreamId(one.program.0))).collect();
    let guests = guests(recording, &late)?;
    let mut firsts: BTreeMap<u32, &Image> = BTreeMap::new();
    for &image in &late {
        let is_first = !firsts.contains_key(&image.1.program.0);
        if is_first && !makes_one(recording, &image.1, &guests)? {
            firsts.insert(image.1.program.0, image);
        }
    }
    let alone: Vec<&Image> = firsts.values().filter(|one| !one.1.shares_turns).copied().collect();
    // A process that had ended when the others' images were made may have an earlier one.
    let sharing = firsts.values().filter(|image| image.1.shares_turns);
    let moments = match sharing.map(|image| image.0.number).max() {
        Some(number) => moments_from(number, &all),
        None => vec![Vec::new()],
    };
    let mut fallback = None;
    for moment in moments {
        let images = at_moment(moment, &alone);
        if images.is_empty() {
            return Ok(None);
        }
        let has_start =
            may_start(recording, &images, &late_streams)? && !takes_early(recording, &images)?;
        let beginning = Beginning::of(recording, images, has_start)?;
        if beginning.stranger.is_none() {
            return Ok(Some(beginning));
        }
        fallback.get_or_insert(beginning);
    }
    Ok(fallback)
}

/// Those of these processes that began in their makers' memory. What they did there is left out, so
/// replay cannot make them.
fn guests(recording: &Recording, late: &[&Image]) -> Result<HashSet<i32>> {
    let mut guests = HashSet::new();
    for (_, one) in late {
        if began_in_its_maker(recording, one.program.0)? {
            guests.insert(one.pid);
        }
    }
    Ok(guests)
}

/// Whether the process of an image made one of these processes afterwards.
fn makes_one(recording: &Recording, image: &Summary, guests: &HashSet<i32>) -> Result<bool> {
    Ok(!guests.is_empty() && !children_after(recording, image)?.is_disjoint(guests))
}

/// The last images from which replay makes the process with this stream. Those of processes that
/// share memory belong together.
///
/// # Errors
/// The recording cannot be read.
pub(crate) fn before_process(
    recording: &Recording,
    places: &Checkpoints,
    stream: StreamId,
) -> Result<Option<Vec<Image>>> {
    let all = images(recording, places)?;
    let mut youngest_first: Vec<&Image> = all.iter().collect();
    youngest_first.sort_by_key(|(kept, _)| Reverse(kept.number));
    for image in youngest_first.into_iter().filter(|image| !lacks_others(image, &all)) {
        let moment = together(&image.1, &all);
        let summaries: Vec<&Summary> = moment.iter().map(|(_, one)| one).collect();
        if makes(recording, &Begun { images: &summaries, has_start: false }, stream)? {
            return Ok(Some(moment));
        }
    }
    Ok(None)
}

/// The images of all processes that share memory, by the times when they were made. Begins with
/// those that include the image with this number.
fn moments_from(number: u64, all: &[Image]) -> Vec<Vec<Image>> {
    let mut moments: Vec<Vec<Image>> = Vec::new();
    for (_, summary) in all.iter().filter(|(_, one)| one.shares_turns) {
        let moment = together(summary, all);
        let is_early = moment.iter().all(|(kept, _)| kept.number < number);
        if !is_early && moments.last() != Some(&moment) {
            moments.push(moment);
        }
    }
    moments
}

fn at_moment(moment: Vec<Image>, alone: &[&Image]) -> Vec<Image> {
    let mut images = moment;
    for &image in alone {
        if images.iter().all(|one| one.1.program.0 != image.1.program.0) {
            images.push(image.clone());
        }
    }
    images.sort_by_key(|(_, one)| one.program);
    images
}

impl Beginning {
    /// Begins at these images. Looks for a stranger.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn of(recording: &Recording, images: Vec<Image>, has_start: bool) -> Result<Self> {
        let summaries: Vec<&Summary> = images.iter().map(|(_, one)| one).collect();
        let begun = Begun { images: &summaries, has_start };
        Ok(Self { stranger: stranger(recording, &begun)?, images, has_start })
    }
}

/// Whether a process that replay makes, if the first one begins at its start, took turns before
/// these images.
fn takes_early(recording: &Recording, images: &[Image]) -> Result<bool> {
    let images: Vec<&Summary> = images.iter().map(|(_, one)| one).collect();
    takes_early_turns(recording, &Begun { images: &images, has_start: true })
}

/// Whether all of the first process is there, and what replay needs to make its children.
fn may_start(recording: &Recording, images: &[Image], late: &HashSet<StreamId>) -> Result<bool> {
    let first = recording.streams().find(|one| one.info.kind == StreamKind::Initial);
    let Some(first) = first.filter(|one| !late.contains(&one.info.id)) else {
        return Ok(false);
    };
    for (_, image) in images {
        let stream = recording.streams().find(|one| one.info.id.0 == image.program.0);
        let parent = stream.and_then(|one| one.info.parent);
        let maker = recording.streams().find(|one| Some(one.info.id) == parent);
        let is_makers_late =
            maker.is_some_and(|maker| images.iter().any(|it| it.1.pid == maker.info.pid));
        if image.pid == first.info.pid
            || !is_makers_late && began_in_its_maker(recording, image.program.0)?
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a process ran in the memory of its maker at first. Its maker's replay needs that part,
/// which is left out.
fn began_in_its_maker(recording: &Recording, stream: u32) -> Result<bool> {
    let mut events = EventReader::new(recording, StreamId(stream))?;
    let Some(first) = events.next()? else { return Ok(true) };
    let start = first.event.map(|event| event.decode());
    Ok(!matches!(start, Ok(Event::Start { how, .. }) if how != BY_VFORK))
}
