//! What the recorder notices in a stream while its bytes pass on their way to disk: where events
//! start, and how many there are of each kind. Where streams may be dropped later, also what ties
//! the stream to the rest of the recording.

use crate::event_log::EventLog;
use crate::space::Space;
use crate::thread_account::EventCounts;
use crate::watcher::{Notice, Watcher};
use retake_contract::events::event as layout;
use retake_model::event::{CALL_CONSOLE_ERR, CALL_CONSOLE_OUT};
use retake_model::table::number;
use retake_model::{ContentId, Event, EventKind, ItemDirection, Ranges, contents_of, parse_event};
use retake_recording::{ChunkEvents, Place, StreamId};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The examined part of an event's header.
const HEAD_BYTES: usize = layout::VALUE;
/// Calls with a MAPPING item.
const MAPPING_CALLS: [u16; 2] = [number::MMAP, number::SHMAT];
/// Calls that make threads and processes.
const CLONING_CALLS: [u16; 4] = [number::CLONE, number::FORK, number::VFORK, number::CLONE3];
/// An event that must be read whole is smaller than this.
const LARGEST_EVENT_BYTES: usize = 16 << 20;

/// What ties a stream to others.
#[derive(Debug, Default, Clone)]
pub(crate) struct Findings {
    /// The place before the exec event of the first program that it executed.
    pub exec: Option<Place>,
    /// The numbers of its console output before that place, and after it.
    pub console_before: Ranges,
    pub console: Ranges,
    /// The files that it mapped.
    pub contents: BTreeSet<ContentId>,
    /// The streams of the threads and processes that it created.
    pub children: BTreeSet<u32>,
    /// Whether a part of it was not understood. Then nothing is known for sure.
    pub is_opaque: bool,
    watcher: Option<Arc<dyn Watcher>>,
    /// What the watcher is to be told once it is stored.
    notices: Vec<Notice>,
}

/// The scanner's position in one stream.
#[derive(Debug, Default)]
pub(crate) struct StreamScan {
    at: Place,
    /// The bytes of the last event that are still to come.
    remaining: u64,
    /// A piece of the stream could not be stored, so nothing may follow it.
    pub is_cut: bool,
    pub counts: EventCounts,
    /// Set where findings are wanted.
    findings: Option<Findings>,
    /// The beginning of an event that is to be read once it is complete, and the event's size.
    partial: Vec<u8>,
    partial_size: usize,
}

impl StreamScan {
    /// Starts at the beginning of a stream.
    pub fn new(findings: Option<Findings>) -> Self {
        Self { findings, ..Self::default() }
    }

    /// Starts within an event that lacks `remaining` bytes.
    pub fn within_event(remaining: u64) -> Self {
        Self { remaining, ..Self::default() }
    }

    /// Whether the stream so far ends within an event.
    pub fn is_within_event(&self) -> bool {
        self.remaining != 0
    }

    /// Appends the next bytes of the stream. After a failure the stream is cut: nothing may follow
    /// what is missing.
    ///
    /// # Errors
    /// As for [`Space::wait`].
    pub fn append(
        &mut self,
        space: &Space,
        log: &dyn EventLog,
        stream: StreamId,
        bytes: &[u8],
    ) -> retake_recording::Result<()> {
        let events = self.feed(bytes);
        let stored = space.wait(|| log.append(stream, bytes, events));
        self.is_cut = stored.is_err();
        self.findings.iter_mut().for_each(Findings::tell);
        stored
    }

    /// Returns the findings and the length of the stream.
    pub fn finish(self) -> (Findings, Place) {
        (self.findings.unwrap_or_default(), self.at)
    }

    /// Scans the next piece of the stream. Returns where events start in it.
    pub fn feed(&mut self, piece: &[u8]) -> ChunkEvents {
        let before = self.at;
        let mut at = self.remaining;
        let length = piece.len() as u64;
        let mut events = ChunkEvents::default();
        self.complete(piece);
        while at < length {
            let start = at as usize;
            // Event sizes are multiples of eight bytes. Anything else was not written by the
            // runtime, and readers stop there.
            let Some(head) = piece[start..].first_chunk::<HEAD_BYTES>() else { break };
            let size = u32::from_le_bytes(std::array::from_fn(|at| head[layout::SIZE + at]));
            self.counts.count(head[layout::KIND]);
            if self.findings.is_some() {
                self.look_at(
                    head,
                    size as usize,
                    &piece[start..],
                    Place {
                        bytes: before.bytes + at,
                        events: before.events + u64::from(events.count),
                    },
                );
            }
            events.first.get_or_insert(start as u32);
            events.count += 1;
            at += u64::from(size).max(layout::LAYOUT_BYTES as u64);
        }
        self.remaining = at.saturating_sub(length);
        self.at =
            Place { bytes: before.bytes + length, events: before.events + u64::from(events.count) };
        events
    }

    fn look_at(&mut self, head: &[u8; HEAD_BYTES], size: usize, rest: &[u8], place: Place) {
        let Some(findings) = &mut self.findings else { return };
        let number = u16::from_le_bytes(std::array::from_fn(|at| head[layout::NUMBER + at]));
        let flags = head[layout::FLAGS];
        let is_interesting = match EventKind::from_number(head[layout::KIND]) {
            Some(EventKind::Exec) => {
                findings.exec.get_or_insert(place);
                true
            }
            Some(EventKind::Call) => {
                flags & (CALL_CONSOLE_OUT | CALL_CONSOLE_ERR) != 0
                    || MAPPING_CALLS.contains(&number)
                    || CLONING_CALLS.contains(&number)
            }
            Some(EventKind::Fatal) => findings.watcher.is_some(),
            _ => false,
        };
        if !is_interesting {
            return;
        }
        match rest.get(..size) {
            Some(event) => findings.read(event),
            None if size > LARGEST_EVENT_BYTES => findings.is_opaque = true,
            None => {
                self.partial = rest.to_vec();
                self.partial_size = size;
            }
        }
    }

    /// Completes an event that began in an earlier piece.
    fn complete(&mut self, piece: &[u8]) {
        if self.partial.is_empty() {
            return;
        }
        let missing = self.partial_size - self.partial.len();
        self.partial.extend_from_slice(&piece[..missing.min(piece.len())]);
        if self.partial.len() == self.partial_size {
            let event = std::mem::take(&mut self.partial);
            if let Some(findings) = &mut self.findings {
                findings.read(&event);
            }
        }
    }
}

impl Findings {
    /// Nothing was found yet.
    pub fn new(watcher: Option<Arc<dyn Watcher>>) -> Self {
        Self { watcher, ..Self::default() }
    }

    fn tell(&mut self) {
        let Some(watcher) = &self.watcher else { return };
        self.notices.drain(..).for_each(|notice| notice.tell(&**watcher));
    }

    fn notice(&mut self, event: &Event<'_>) {
        match event {
            Event::Fatal { signal, .. } => self.notices.push(Notice::Died(signal.number().into())),
            Event::Call(call) => {
                let Some((console, _)) = call.console() else { return };
                let inputs = call.items().filter(|item| item.direction() == ItemDirection::Input);
                let text = inputs.map(|item| Notice::Wrote(console, item.inline_bytes().to_vec()));
                self.notices.extend(text);
            }
            _ => {}
        }
    }

    fn read(&mut self, event: &[u8]) {
        let Ok((event, _)) = parse_event(event) else {
            self.is_opaque = true;
            return;
        };
        let event = event.decode();
        self.contents.extend(contents_of(&event));
        if self.watcher.is_some() {
            self.notice(&event);
        }
        let Event::Call(call) = event else { return };
        if let Some((_, ticket)) = call.console() {
            let console =
                if self.exec.is_some() { &mut self.console } else { &mut self.console_before };
            console.add(ticket, ticket.saturating_add(1));
        }
        self.children.extend(call.child().map(|child| child.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use retake_model::StreamId;
    use retake_model::event::ThreadAccount;

    fn event(kind: EventKind, flags: u8, number: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = ((16 + body.len()) as u32).to_le_bytes().to_vec();
        bytes.extend([kind as u8, flags]);
        bytes.extend(number.to_le_bytes());
        bytes.extend(0_u64.to_le_bytes());
        bytes.extend(body);
        bytes
    }

    fn item(argument: u8, direction: u8, data: &[u8]) -> Vec<u8> {
        let mut bytes = vec![argument, direction, 0, 0];
        bytes.extend((data.len() as u32).to_le_bytes());
        bytes.extend([0; 16]);
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }

    /// A stream with a numbered write to the console, a fork, an exec, and another write.
    fn stream() -> Vec<u8> {
        let write = |ticket: u64| {
            event(
                EventKind::Call,
                CALL_CONSOLE_OUT,
                1,
                &[vec![0; 24], item(0, 4, &ticket.to_le_bytes())].concat(),
            )
        };
        let fork = event(EventKind::Call, 0, 57, &item(0, 2, &9_u32.to_le_bytes()));
        let exec = event(EventKind::Exec, 0, 0, &[0; 64]);
        [write(3), fork, exec, write(8), ThreadAccount::default().event(StreamId(1))].concat()
    }

    #[test]
    fn findings_do_not_depend_on_the_pieces() {
        let stream = stream();
        for piece in [8, 16, 24, 64, 1000] {
            let mut scan = StreamScan::new(Some(Findings::default()));
            let counted: u32 = stream.chunks(piece).map(|piece| scan.feed(piece).count).sum();
            assert!(!scan.is_within_event());
            let (findings, end) = scan.finish();
            assert_eq!(
                (counted, end),
                (5, Place { bytes: stream.len() as u64, events: 5 }),
                "pieces of {piece}"
            );
            assert_eq!(
                findings.exec,
                Some(Place { bytes: 72 + 48, events: 2 }),
                "pieces of {piece}"
            );
            assert!(
                findings.console_before.contains(3)
                    && findings.console.contains(8)
                    && findings.console.count() == 1
            );
            assert_eq!(findings.children, BTreeSet::from([9]));
            assert!(!findings.is_opaque);
        }
    }

    /// `cargo test --release -p retake-record -- --ignored --nocapture how_fast`
    #[test]
    #[ignore = "measures"]
    fn how_fast() {
        let piece: Vec<u8> =
            (0..32_768).flat_map(|_| event(EventKind::Call, 0, 110, &[])).collect();
        for with_findings in [false, true] {
            let mut scan = StreamScan::new(with_findings.then(Findings::default));
            let started = std::time::Instant::now();
            let events: u64 = (0..1000).map(|_| u64::from(scan.feed(&piece).count)).sum();
            println!(
                "findings {with_findings}: {:.0} M events/s",
                events as f64 / started.elapsed().as_secs_f64() / 1e6
            );
        }
    }

    #[test]
    fn what_is_not_understood_is_said() {
        let mut scan = StreamScan::new(Some(Findings::default()));
        scan.feed(&event(EventKind::Call, 0, 9, &[0; 8]));
        assert!(scan.finish().0.is_opaque);
        let mut scan = StreamScan::new(None);
        scan.feed(&stream());
        assert_eq!(
            scan.finish().0.children.len(),
            0,
            "nothing is looked for where nothing is wanted"
        );
    }
}
