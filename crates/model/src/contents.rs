//! The files to which events refer.

use crate::event::Event;
use crate::ids::ContentId;

/// Returns the contents of the files that an event mapped or read.
pub fn contents_of(event: &Event<'_>) -> Vec<ContentId> {
    let mut contents = Vec::new();
    match event {
        Event::Exec(exec) => contents.extend(
            exec.mappings().map(|mapping| mapping.content).filter(|content| !content.is_none()),
        ),
        Event::Call(call) => {
            contents.extend(call.items().filter_map(|item| item.reference()).map(|at| at.content));
            for mapping in call.items().filter_map(|item| item.mapping()) {
                contents.push(mapping.content);
                contents.extend(mapping.overlays.iter().map(|overlay| overlay.content));
            }
        }
        _ => {}
    }
    contents.retain(|content| !content.is_none());
    contents
}
