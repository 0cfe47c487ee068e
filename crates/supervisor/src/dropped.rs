//! What was dropped from a recording while it was made.

use retake_contract::events::event as layout;
use retake_model::event::event_size;
use retake_model::{Dropped, EventKind, parse_event};
use retake_recording::{Recording, Result, StreamKind};

/// Reads the note about it, which is the first event of the supervisor's stream. Returns the
/// default if nothing was dropped.
///
/// # Errors
/// The beginning of that stream cannot be read.
pub fn of_recording(recording: &Recording) -> Result<Dropped> {
    let Some(own) = recording.streams().find(|stream| stream.info.kind == StreamKind::Supervisor)
    else {
        return Ok(Dropped::default());
    };
    let mut reader = recording.stream(own.info.id)?;
    let (mut first, mut chunk) = (Vec::new(), Vec::new());
    for index in 0..reader.chunk_count() {
        reader.read_chunk(index, &mut chunk)?;
        first.extend_from_slice(&chunk);
        let is_note = first.get(layout::KIND).is_some_and(|kind| *kind == EventKind::Dropped as u8);
        match event_size(&first) {
            Ok(size) if is_note && first.len() < size => {}
            _ => break,
        }
    }
    Ok(parse_event(&first).ok().and_then(|(event, _)| event.as_dropped()).unwrap_or_default())
}
