//! What the client was shown since the program stopped, by the numbers by which it asks for more.

/// What a client can ask the variables of.
#[derive(Debug, Clone)]
pub(super) enum Reference {
    /// Of a frame, as gdb wants it.
    Locals(String),
    Registers(String),
    /// An object of gdb's.
    Object(String),
}

#[derive(Debug, Default)]
pub(super) struct Shown {
    /// By number, from 1: thread and level.
    frames: Vec<(i64, i64)>,
    /// By number, from 1.
    references: Vec<Reference>,
    /// Variable objects of gdb's, to be deleted.
    objects: Vec<String>,
}

impl Shown {
    /// The number by which the client knows a frame from here on.
    pub fn add_frame(&mut self, thread: i64, level: i64) -> usize {
        self.frames.push((thread, level));
        self.frames.len()
    }

    /// The thread and level of a frame that the client knows, as gdb wants them.
    pub fn place_of(&self, frame: i64) -> Result<String, String> {
        let (thread, level) = usize::try_from(frame - 1)
            .ok()
            .and_then(|index| self.frames.get(index))
            .ok_or("there is no such frame any more")?;
        Ok(format!("--thread {thread} --frame {level}"))
    }

    /// The number by which the client asks for the variables of something.
    pub fn refer(&mut self, reference: Reference) -> usize {
        self.references.push(reference);
        self.references.len()
    }

    /// What it asks for by a number.
    pub fn reference(&self, number: i64) -> Result<Reference, String> {
        let found = usize::try_from(number - 1).ok().and_then(|index| self.references.get(index));
        found.cloned().ok_or_else(|| "the program has gone on since".to_owned())
    }

    /// gdb has made an object.
    pub fn add_object(&mut self, name: &str) {
        self.objects.push(name.to_owned());
    }

    /// The objects that gdb has made, which are forgotten here.
    pub fn take_objects(&mut self) -> Vec<String> {
        std::mem::take(&mut self.objects)
    }

    /// The program has gone on.
    pub fn forget_frames(&mut self) {
        self.frames.clear();
        self.references.clear();
    }
}
