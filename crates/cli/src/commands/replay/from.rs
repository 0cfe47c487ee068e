//! `retake replay --from`: finds the image at which replay begins.

use std::str::FromStr;
use std::time::Duration;

use retake_debug::{Destination, Summary, list_kept, stranger};
use retake_recording::{CheckpointReader, KeptCheckpoint, Recording};

use crate::commands::debug::target_of;
use crate::failure::{Failure, Result};
use crate::recordings;
use crate::text;

/// An image, as a user names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Its number in the list.
    Number(u64),
    /// The last image before this time since recording began.
    Time(Duration),
    /// The first one of the process whose beginning is left out, if there is such a process.
    First,
    Last,
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "first" => return Ok(Self::First),
            "last" => return Ok(Self::Last),
            _ => {}
        }
        if let Ok(number) = text.parse() {
            return Ok(Self::Number(number));
        }
        match text.parse() {
            Ok(Destination::Time(time)) => Ok(Self::Time(time)),
            _ => Err("expected a number, a time such as 1.5s, `first` or `last`".to_owned()),
        }
    }
}

/// Opens the image that `place` names, and those that belong together with it. `process` restricts
/// the choice to that process.
pub fn open(
    recording: &Recording,
    place: &Place,
    process: Option<&str>,
) -> Result<Vec<CheckpointReader>> {
    let pid = process.map(|name| target_of(recording, Some(name))).transpose()?.map(|one| one.pid);
    let places = recordings::checkpoints(recording);
    let all: Vec<Image> = list_kept(recording, &places)?
        .into_iter()
        .filter_map(|(kept, summary)| Some((kept, summary.ok()?)))
        .filter(|(_, summary)| summary.is_image())
        .collect();
    let mut images = all.clone();
    images.retain(|image| pid.is_none_or(|pid| image.1.pid == pid) && !lacks_others(image, &all));
    if images.is_empty() {
        return Err(Failure::new("the recording has no images of the process")
            .attempt("retake record --image-every 10s"));
    }
    let last = |most: u64| {
        let before = images.iter().filter(|(_, one)| one.after_ms <= most);
        before.max_by_key(|(kept, one)| (one.after_ms, kept.number))
    };
    let found = match *place {
        Place::First => first(recording, &images),
        Place::Number(number) => images.iter().find(|(kept, _)| kept.number == number),
        Place::Time(time) => last(time.as_millis() as u64),
        Place::Last => last(u64::MAX),
    };
    let Some((kept, summary)) = found else {
        if let Place::Number(number) = *place
            && all.iter().any(|image| image.0.number == number && lacks_others(image, &all))
        {
            let why = "images of processes that share memory with it are missing";
            return Err(Failure::new(why).attempt("another one of retake checkpoint --list"));
        }
        return Err(Failure::new("there is no such image").attempt("retake checkpoint --list"));
    };
    let together = together(summary, &all);
    let summaries: Vec<&Summary> = together.iter().map(|(_, summary)| summary).collect();
    if let Some(pid) = stranger(recording, &summaries)? {
        return Err(Failure::new(format!(
            "process {pid} takes turns with process {} after image {}, and replay from there does \
             not make it",
            summary.pid, kept.number
        ))
        .attempt("retake replay, without --from"));
    }
    let others = match together.len() - 1 {
        0 => String::new(),
        count => format!(" and {} that share memory with it", text::count(count as u64)),
    };
    retake_kernel::tell!(
        "retake: begins at image {}: process {}{others}, {} after recording began",
        kept.number,
        summary.pid,
        text::duration(summary.after_ms)
    );
    together.iter().map(|(kept, _)| Ok(places.open(kept)?)).collect()
}

type Image = (KeptCheckpoint, Summary);

/// The image, and those of the processes that share memory with it, the first process first.
fn together(summary: &Summary, all: &[Image]) -> Vec<Image> {
    let belongs =
        |one: &Summary| one == summary || one.group.is_some() && one.group == summary.group;
    let mut found: Vec<Image> = all.iter().filter(|(_, one)| belongs(one)).cloned().collect();
    found.sort_by_key(|(_, one)| one.program);
    found
}

/// Whether some images that belong together with this one are missing. A recorder may be killed
/// while it writes them.
fn lacks_others((_, summary): &Image, all: &[Image]) -> bool {
    summary.group.is_some_and(|group| together(summary, all).len() < group.count as usize)
}

/// The first image of the first process whose beginning is left out; otherwise of the first one.
fn first<'a>(recording: &Recording, images: &'a [Image]) -> Option<&'a Image> {
    let begins_late = |stream: u32| {
        recording.streams().any(|one| one.info.id.0 == stream && one.left_out.bytes > 0)
    };
    images.iter().min_by_key(|(kept, summary)| {
        let stream = summary.program.0;
        (!begins_late(stream), stream, kept.number)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_have_numbers_and_times() {
        assert_eq!("3".parse(), Ok(Place::Number(3)));
        assert_eq!("1.5s".parse(), Ok(Place::Time(Duration::from_millis(1500))));
        assert_eq!("first".parse(), Ok(Place::First));
        assert_eq!("last".parse(), Ok(Place::Last));
        for wrong in ["", "exit", "-1", "4:3"] {
            assert!(wrong.parse::<Place>().is_err(), "{wrong}");
        }
    }
}
