//! Threads, their stacks, and what can be seen in a frame.

use super::adapter::{Adapter, Answer};
use super::mi;
use super::protocol::{Scopes, StackTrace};
use super::values::Reference;
use serde_json::{Value, json};

const MOST_FRAMES: i64 = 1000;

impl Adapter<'_> {
    pub(super) fn threads(&mut self) -> Answer {
        // gdb does not listen while the program runs.
        if self.running.is_none() {
            let info = self.mi("-thread-info")?;
            let threads = mi::list(&info, "threads").iter().map(|thread| {
                let name = [mi::text(thread, "name"), mi::text(thread, "target-id")]
                    .into_iter()
                    .find(|name| !name.is_empty())
                    .unwrap_or("thread");
                json!({"id": mi::number(thread, "id").unwrap_or_default(), "name": name})
            });
            self.threads = threads.collect();
        }
        Ok(json!({"threads": self.threads}))
    }

    pub(super) fn stack_trace(&mut self, asked: &StackTrace) -> Answer {
        let thread = asked.thread_id;
        let first = asked.start_frame.unwrap_or(0).max(0);
        let count =
            asked.levels.filter(|levels| *levels > 0).unwrap_or(MOST_FRAMES).min(MOST_FRAMES);
        let depth =
            self.mi(&format!("-stack-info-depth --thread {thread} {}", first + count + 1))?;
        let depth = mi::number(&depth, "depth").unwrap_or_default();
        if first >= depth {
            return Ok(json!({"stackFrames": [], "totalFrames": depth}));
        }
        let frames = self
            .mi(&format!("-stack-list-frames --thread {thread} {first} {}", first + count - 1))?;
        let frames: Vec<Value> =
            mi::list(&frames, "stack").iter().map(|frame| self.frame(thread, frame)).collect();
        Ok(json!({"stackFrames": frames, "totalFrames": depth}))
    }

    fn frame(&mut self, thread: i64, frame: &Value) -> Value {
        self.frames.push((thread, mi::number(frame, "level").unwrap_or_default()));
        let (name, address) = (mi::text(frame, "func"), mi::text(frame, "addr"));
        let mut told = json!({
            "id": self.frames.len(),
            "name": if name.is_empty() { address } else { name },
            "line": mi::number(frame, "line").unwrap_or_default(),
            "column": 0,
            "instructionPointerReference": address,
        });
        let path = mi::text(frame, "fullname");
        if !path.is_empty() {
            told["source"] = json!({"name": path.rsplit('/').next(), "path": path});
        } else {
            told["presentationHint"] = "subtle".into();
        }
        told
    }

    /// The thread and level of a frame that the client knows, as gdb wants them.
    pub(super) fn place_of(&self, frame: i64) -> Result<String, String> {
        let (thread, level) = usize::try_from(frame - 1)
            .ok()
            .and_then(|index| self.frames.get(index))
            .ok_or("there is no such frame any more")?;
        Ok(format!("--thread {thread} --frame {level}"))
    }

    pub(super) fn scopes(&mut self, asked: &Scopes) -> Answer {
        let place = self.place_of(asked.frame_id)?;
        let locals = self.refer(Reference::Locals(place.clone()));
        let registers = self.refer(Reference::Registers(place));
        Ok(json!({"scopes": [
            {"name": "Locals", "presentationHint": "locals", "variablesReference": locals,
                "expensive": false},
            {"name": "Registers", "presentationHint": "registers", "variablesReference": registers,
                "expensive": true},
        ]}))
    }

    pub(super) fn forget_frames(&mut self) {
        self.frames.clear();
        self.references.clear();
    }
}
