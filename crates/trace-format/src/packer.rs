//! Packs and writes extents on a thread of its own, so that the capturing thread only fills rows.

use std::io::Write;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{Builder, JoinHandle};

use retake_dataseries::{CompressionSet, ExtentBuilder, Writer};

use crate::error::{Result, TraceError};

/// How many filled builders may wait. They take memory.
const WAITING_MAX: usize = 2;

enum Message {
    /// Rows of the type with this number.
    Pack(usize, ExtentBuilder),
    /// Answer once everything before is with the operating system.
    Flush(Sender<()>),
}

/// The handle of the packing thread.
#[derive(Debug)]
pub(crate) struct Packer<W: Write + Send + 'static> {
    sender: Option<SyncSender<Message>>,
    /// Emptied builders for reuse.
    empty: Receiver<(usize, ExtentBuilder)>,
    thread: Option<JoinHandle<Result<Writer<W>>>>,
}

impl<W: Write + Send + 'static> Packer<W> {
    pub fn start(writer: Writer<W>, compression: CompressionSet, level: u8) -> Result<Self> {
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let (returns, empty) = channel();
        let work = move || pack_all(writer, &receiver, &returns, compression, level);
        let thread = Builder::new().name("trace-packer".to_owned()).spawn(work)?;
        Ok(Self { sender: Some(sender), empty, thread: Some(thread) })
    }

    /// Hands rows to the thread.
    pub fn pack(&mut self, number: usize, builder: ExtentBuilder) -> Result<()> {
        self.send(Message::Pack(number, builder))
    }

    /// Returns an emptied builder, with the number of its type.
    pub fn take_empty(&mut self) -> Option<(usize, ExtentBuilder)> {
        self.empty.try_recv().ok()
    }

    /// Waits until everything is with the operating system.
    pub fn flush(&mut self) -> Result<()> {
        let (sender, receiver) = channel();
        self.send(Message::Flush(sender))?;
        match receiver.recv() {
            Ok(()) => Ok(()),
            Err(_) => Err(self.failure()),
        }
    }

    fn send(&mut self, message: Message) -> Result<()> {
        let sent = self.sender.as_ref().is_some_and(|sender| sender.send(message).is_ok());
        if sent { Ok(()) } else { Err(self.failure()) }
    }

    /// Returns why the thread ended before it was told to.
    fn failure(&mut self) -> TraceError {
        match self.join() {
            Some(Err(error)) => error,
            _ => TraceError::Poisoned,
        }
    }

    fn join(&mut self) -> Option<Result<Writer<W>>> {
        self.sender = None;
        self.thread.take().map(|thread| thread.join().unwrap_or(Err(TraceError::Poisoned)))
    }

    /// Ends the thread. Returns the file, which the caller finishes.
    pub fn stop(&mut self) -> Result<Writer<W>> {
        self.join().unwrap_or(Err(TraceError::Poisoned))
    }
}

impl<W: Write + Send + 'static> Drop for Packer<W> {
    /// Writes everything that was handed over, so that it can be recovered.
    fn drop(&mut self) {
        if let Some(Ok(mut writer)) = self.join() {
            // Errors have no receiver any more.
            let _ = writer.flush();
        }
    }
}

/// Packs and writes until the senders are gone.
fn pack_all<W: Write>(
    mut writer: Writer<W>,
    messages: &Receiver<Message>,
    returns: &Sender<(usize, ExtentBuilder)>,
    compression: CompressionSet,
    level: u8,
) -> Result<Writer<W>> {
    for message in messages {
        match message {
            Message::Pack(number, mut builder) => {
                let packed = builder.pack(compression, level)?;
                writer.append(&packed)?;
                // The thread that filled it may be gone by now.
                let _ = returns.send((number, builder));
            }
            Message::Flush(done) => {
                writer.flush()?;
                let _ = done.send(());
            }
        }
    }
    Ok(writer)
}
