//! What a session is asked by commands that have no dialogue: output, places, samples.

use crate::debuggee::Fate;
use crate::error::Result;
use crate::session::Session;
use retake_model::event::Console;
use std::io::{self, Write};

impl Session {
    /// Writes what the program, and those it comes from, wrote to standard output and error up to
    /// here.
    ///
    /// # Errors
    /// It cannot be read, or written.
    pub fn write_output(&mut self, out: &mut dyn Write, err: &mut dyn Write) -> Result<()> {
        let mut result = Ok(());
        self.printed(Some(Console::Out), &mut |bytes| {
            keep_first(&mut result, out.write_all(bytes))
        })?;
        self.printed(Some(Console::Err), &mut |bytes| {
            keep_first(&mut result, err.write_all(bytes))
        })?;
        Ok(result.and_then(|()| out.flush()).and_then(|()| err.flush())?)
    }

    /// Where the process is, in words: the thread, and its next event.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn describe_place(&self) -> Result<String> {
        let context = self.debuggee.context();
        let next = self.events_around(0, 1)?.lines().last().unwrap_or_default().trim().to_owned();
        let where_to = if self.debuggee.fate == Fate::Open { "" } else { ", the end" };
        Ok(format!("thread {}, event {}{where_to}: {next}", context.tid, context.event_count))
    }

    /// Places evenly spread over the events of the process, forced points among them, as
    /// [`Destination`](crate::Destination) reads them: thread by thread.
    pub(crate) fn samples(&self, wanted: u64) -> Vec<String> {
        let own = || self.recording.streams().filter(|stream| stream.info.pid == self.target.pid);
        let all: u64 = own().map(|stream| stream.event_count).sum();
        let step = all.div_ceil(wanted.max(1)).max(1);
        let places = own().flat_map(|stream| {
            // Before the program there is nothing to look at.
            let first =
                if stream.info.id == self.target.stream { self.target.first_event } else { 1 };
            let events = (first..stream.event_count).filter(move |event| event % step == 0);
            events.map(move |event| format!("{}:{event}", stream.info.tid))
        });
        places.collect()
    }
}

fn keep_first(result: &mut io::Result<()>, next: io::Result<()>) {
    if result.is_ok() {
        *result = next;
    }
}
