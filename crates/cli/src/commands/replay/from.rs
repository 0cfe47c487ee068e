//! `retake replay --from`: finds the image at which replay begins.

use std::str::FromStr;
use std::time::Duration;

use retake_debug::{Beginning, Destination, Image, beginning, images, lacks_others, together};
use retake_recording::{Checkpoints, Recording, StreamId};
use retake_replay::Begin;

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

/// Opens the images where replay begins: the one that `place` names, and those that belong together
/// with it. `process` restricts the choice to that process. Without it, the first place of a
/// recording that begins late is where all processes begin.
pub fn open(recording: &Recording, place: &Place, process: Option<&str>) -> Result<Begin> {
    let places = recordings::checkpoints(recording);
    let is_of_all = matches!(place, Place::First) && process.is_none() && recording.begins_late();
    let found = match is_of_all {
        true => beginning(recording, &places)?.ok_or_else(no_images)?,
        false => named(recording, place, process, &places)?,
    };
    let (kept, summary) = &found.images[0];
    if let Some(pid) = found.stranger {
        return Err(Failure::new(format!(
            "process {pid} takes turns with process {} after image {}, and replay from there does \
             not make it",
            summary.pid, kept.number
        ))
        .attempt("retake replay, without --from"));
    }
    let others = match (found.images.len() - 1, is_of_all) {
        (0, _) => String::new(),
        (1, true) => " and another at its image".to_owned(),
        (count, true) => format!(" and {} others at their images", text::count(count as u64)),
        (count, false) => format!(" and {} that share memory with it", text::count(count as u64)),
    };
    retake_kernel::tell!(
        "retake: begins at image {}: process {}{others}, {} after recording began",
        kept.number,
        summary.pid,
        text::duration(summary.after_ms)
    );
    let images = found.images.iter().map(|(kept, _)| places.open(kept));
    Ok(Begin {
        images: images.collect::<retake_recording::Result<_>>()?,
        has_start: found.has_start,
    })
}

fn no_images() -> Failure {
    Failure::new("the recording has no images of the process")
        .attempt("retake record --image-every 10s")
}

/// Finds an image that a user names, and those that belong together with it.
fn named(
    recording: &Recording,
    place: &Place,
    process: Option<&str>,
    places: &Checkpoints,
) -> Result<Beginning> {
    let pid = process.map(|name| target_of(recording, Some(name))).transpose()?.map(|one| one.pid);
    let all = images(recording, places)?;
    let mut images = all.clone();
    images.retain(|image| pid.is_none_or(|pid| image.1.pid == pid) && !lacks_others(image, &all));
    if images.is_empty() {
        return Err(no_images());
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
    let Some((_, summary)) = found else {
        if let Place::Number(number) = *place
            && all.iter().any(|image| image.0.number == number && lacks_others(image, &all))
        {
            let why = "images of processes that share memory with it are missing";
            return Err(Failure::new(why).attempt("another one of retake checkpoint --list"));
        }
        return Err(Failure::new("there is no such image").attempt("retake checkpoint --list"));
    };
    Ok(Beginning::of(recording, together(summary, &all), false)?)
}

/// The first image of the first process whose beginning is left out; otherwise of the first one.
fn first<'a>(recording: &Recording, images: &'a [Image]) -> Option<&'a Image> {
    let late = recording.late_streams();
    images.iter().min_by_key(|(kept, summary)| {
        let stream = summary.program.0;
        (!late.contains(&StreamId(stream)), stream, kept.number)
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
