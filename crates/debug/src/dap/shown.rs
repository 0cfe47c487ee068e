//! What the client has been shown since the program stopped, by the numbers with which it asks for
//! more.

use super::scripts::Script;
use serde_json::Value;

/// Something whose variables a client can ask for.
#[derive(Debug, Clone)]
pub(super) enum Reference {
    /// The local variables of a frame, with gdb's options for it.
    Locals(String),
    Registers(String),
    /// The variables of a frame of Python, as the client gets them.
    Script(Vec<Value>),
    /// A variable object of gdb.
    Object(String),
}

#[derive(Debug, Default)]
pub(super) struct Shown {
    /// The thread and the level of each frame, and the frame of Python there. Numbers begin at 1.
    frames: Vec<(i64, i64, Option<Script>)>,
    /// The references. Numbers begin at 1.
    references: Vec<Reference>,
    /// Variable objects of gdb, to be deleted.
    objects: Vec<String>,
}

impl Shown {
    /// Adds a frame. Returns the client's number for it.
    pub fn add_frame(&mut self, thread: i64, level: i64) -> usize {
        self.frames.push((thread, level, None));
        self.frames.len()
    }

    /// Adds a frame of Python.
    pub fn add_script(&mut self, thread: i64, script: &Script) -> usize {
        self.frames.push((thread, script.level, Some(script.clone())));
        self.frames.len()
    }

    /// The frame of Python that the client knows by this number.
    pub fn script_of(&self, frame: i64) -> Option<&Script> {
        let index = usize::try_from(frame - 1).ok()?;
        self.frames.get(index)?.2.as_ref()
    }

    /// The options with which gdb finds a frame that the client knows.
    pub fn place_of(&self, frame: i64) -> Result<String, String> {
        let (thread, level, _) = usize::try_from(frame - 1)
            .ok()
            .and_then(|index| self.frames.get(index))
            .ok_or("there is no such frame any more")?;
        Ok(format!("--thread {thread} --frame {level}"))
    }

    /// Adds a reference. Returns the number with which the client asks for its variables.
    pub fn refer(&mut self, reference: Reference) -> usize {
        self.references.push(reference);
        self.references.len()
    }

    /// The reference with a number.
    pub fn reference(&self, number: i64) -> Result<Reference, String> {
        let found = usize::try_from(number - 1).ok().and_then(|index| self.references.get(index));
        found.cloned().ok_or_else(|| "the program has gone on since".to_owned())
    }

    /// Notes an object that gdb has made.
    pub fn add_object(&mut self, name: &str) {
        self.objects.push(name.to_owned());
    }

    /// Takes the objects that gdb has made.
    pub fn take_objects(&mut self) -> Vec<String> {
        std::mem::take(&mut self.objects)
    }

    /// Forgets the frames and references after the program has gone on.
    pub fn forget_frames(&mut self) {
        self.frames.clear();
        self.references.clear();
    }
}
