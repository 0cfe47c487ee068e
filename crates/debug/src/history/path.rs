//! The path of the program that a process executed.

use crate::history::target::Target;
use retake_model::{Event, EventRef, ItemDirection, parse_event};
use retake_recording::Recording;
use std::path::PathBuf;

/// The longest event that contains a path.
const LONGEST_EVENT: usize = 1 << 20;

/// The executed program, as an absolute path if that is known: the argument of the call before the
/// EXEC event, or the recorded command.
pub fn program_path(recording: &Recording, target: &Target) -> String {
    let metadata = recording.metadata();
    let first = metadata.command.to_string_lossy();
    let executed = target.exec_call.and_then(|offset| executed_path(recording, target, offset));
    let path = executed.unwrap_or(first);
    let folder = PathBuf::from(metadata.working_directory.to_string_lossy());
    folder.join(path).components().collect::<PathBuf>().to_string_lossy().into_owned()
}

fn executed_path(
    recording: &Recording,
    target: &Target,
    (offset, size): (u64, usize),
) -> Option<String> {
    let mut reader = recording.stream(target.stream).ok()?;
    reader.seek_to_offset(offset).ok()?;
    let mut bytes = vec![0; size.min(LONGEST_EVENT)];
    std::io::Read::read_exact(&mut reader, &mut bytes).ok()?;
    let (event, _): (EventRef<'_>, _) = parse_event(&bytes).ok()?;
    let Event::Call(call) = event.decode() else { return None };
    let name = call.items().find(|item| {
        item.direction() == ItemDirection::Input
            && call.argument(item.argument()) == Some(item.address())
    })?;
    let bytes = name.inline_bytes().split(|byte| *byte == 0).next()?;
    Some(String::from_utf8_lossy(bytes).into_owned())
}
