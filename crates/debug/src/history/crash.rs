//! The process of a recording that died by a signal, and how it died.

use crate::error::Result;
use retake_model::signal::{self, SIGINFO_BYTES, SiginfoRef};
use retake_model::{Event, EventKind};
use retake_recording::{EventReader, Recording, StreamId, StreamKind, StreamSummary};

/// Whether a thread of a process recorded its end. If none did, the process was killed from
/// outside, or recording was cut off.
///
/// # Errors
/// The recording cannot be read.
pub(crate) fn has_end(recording: &Recording, pid: i32) -> Result<bool> {
    for stream in recording
        .streams()
        .filter(|stream| stream.info.pid == pid && stream.info.kind != StreamKind::Supervisor)
    {
        let mut reader = EventReader::new(recording, stream.info.id)?;
        reader.seek_before(stream.event_count.saturating_sub(1))?;
        let mut last = None;
        while let Ok(Some(numbered)) = reader.next() {
            last = numbered.kind;
        }
        if matches!(last, Some(EventKind::Exit | EventKind::Fatal)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Signals that indicate a fault of the program, and not that something else ended it.
const FAULTS: [i32; 9] = [
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGSEGV,
    libc::SIGSYS,
    libc::SIGXCPU,
    libc::SIGXFSZ,
];

/// The death of a process by a signal to one of its threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crash {
    /// The stream of the thread that got the signal.
    pub stream: StreamId,
    /// The process, by its ID in the recording.
    pub pid: i32,
    /// The thread, by its ID in the recording.
    pub tid: i32,
    /// The number of the event in the thread's stream.
    pub event: u64,
    /// The signal.
    pub signal: u16,
    siginfo: [u8; SIGINFO_BYTES],
}

impl Crash {
    /// The first crash of a process, or of any process. If there is none, the first death by
    /// another signal.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn find(recording: &Recording, pid: Option<i32>) -> Result<Option<Self>> {
        let mut other = None;
        for stream in recording.streams() {
            let is_wanted = stream.info.kind != StreamKind::Supervisor
                && pid.is_none_or(|pid| pid == stream.info.pid);
            if !is_wanted {
                continue;
            }
            match Self::at_end_of(recording, &stream)? {
                Some(crash) if crash.is_fault() => return Ok(Some(crash)),
                crash => other = other.or(crash),
            }
        }
        Ok(other)
    }

    /// The crash at the end of a stream, if the thread died by a signal.
    pub(super) fn at_end_of(recording: &Recording, stream: &StreamSummary) -> Result<Option<Self>> {
        let mut reader = EventReader::new(recording, stream.info.id)?;
        reader.seek_before(stream.event_count.saturating_sub(1))?;
        let mut found = None;
        // An unreadable event shows no crash.
        while let Ok(Some(numbered)) = reader.next() {
            let Ok(event) = numbered.event else { continue };
            if let (Event::Fatal { signal, .. }, Some(siginfo)) =
                (event.decode(), event.body().first_chunk())
            {
                let (StreamSummary { info, .. }, event) = (stream, numbered.index);
                found = Some(Self {
                    stream: info.id,
                    pid: info.pid,
                    tid: info.tid,
                    event,
                    signal: signal.number(),
                    siginfo: *siginfo,
                });
            }
        }
        Ok(found)
    }

    /// Whether the program caused the signal. Otherwise something else ended it.
    pub fn is_fault(&self) -> bool {
        FAULTS.contains(&i32::from(self.signal))
    }

    /// Whether the sender of the signal was not recorded, or was the user at a terminal.
    pub fn is_from_outside(&self, recording: &Recording) -> bool {
        let Some(siginfo) = self.siginfo().filter(|_| self.siginfo_fits() && !self.is_fault())
        else {
            return false;
        };
        match siginfo.code_name().as_ref() {
            "SI_USER" | "SI_TKILL" | "SI_QUEUE" => {
                let sender = siginfo.pid().0;
                let mut streams = recording.streams();
                sender > 0
                    && streams.all(|stream| {
                        stream.info.kind == StreamKind::Supervisor || stream.info.pid != sender
                    })
            }
            "SI_KERNEL" => {
                matches!(i32::from(self.signal), libc::SIGINT | libc::SIGQUIT | libc::SIGHUP)
            }
            _ => false,
        }
    }

    /// The address that the signal is about, if there is one.
    pub fn address(&self) -> Option<u64> {
        let siginfo = self.siginfo()?;
        (siginfo.is_fault() && self.siginfo_fits()).then(|| siginfo.address())
    }

    /// `SIGSEGV`.
    pub fn signal_name(&self) -> String {
        signal::name(self.signal).into_owned()
    }

    /// `SEGV_MAPERR`, `SI_USER`.
    pub fn code_name(&self) -> String {
        self.siginfo().map_or_else(String::new, |siginfo| siginfo.code_name().into_owned())
    }

    /// `SIGSEGV (SEGV_MAPERR: nothing is mapped at 0x8)`.
    pub fn describe(&self) -> String {
        let Some(siginfo) = self.siginfo().filter(|_| self.siginfo_fits()) else {
            return self.signal_name();
        };
        let code = self.code_name();
        let (address, sender) = (siginfo.address(), siginfo.pid());
        let why = match code.as_str() {
            "SEGV_MAPERR" => format!("nothing is mapped at {address:#x}"),
            "SEGV_ACCERR" => format!("the memory at {address:#x} does not allow this access"),
            "BUS_ADRERR" => {
                format!("there is no memory behind {address:#x}: the mapped file is shorter")
            }
            "FPE_INTDIV" => {
                format!("an integer divided by zero, or a quotient too large, at {address:#x}")
            }
            "SI_TKILL" => format!("sent by process {sender}, as abort() does"),
            "SI_USER" | "SI_QUEUE" => format!("sent by process {sender}"),
            _ if siginfo.is_fault() => format!("at {address:#x}"),
            _ => return format!("{} ({code})", self.signal_name()),
        };
        format!("{} ({code}: {why})", self.signal_name())
    }

    fn siginfo(&self) -> Option<SiginfoRef<'_>> {
        SiginfoRef::new(&self.siginfo)
    }

    /// Whether the signal information is that of the signal. A default action without a handler may
    /// have left only the number.
    fn siginfo_fits(&self) -> bool {
        self.siginfo().is_some_and(|siginfo| siginfo.signal() == i32::from(self.signal))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crash(signal: u16, words: &[i32]) -> Crash {
        let mut siginfo = [0; SIGINFO_BYTES];
        for (place, word) in siginfo.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        Crash { stream: StreamId(0), pid: 1, tid: 1, event: 0, signal, siginfo }
    }

    #[test]
    fn crashes_are_described() {
        let cases = [
            (
                crash(11, &[11, 0, 1, 0, 0x10, 0]),
                "SIGSEGV (SEGV_MAPERR: nothing is mapped at 0x10)",
                Some(0x10),
            ),
            (
                crash(6, &[6, 0, -6, 0, 77, 0]),
                "SIGABRT (SI_TKILL: sent by process 77, as abort() does)",
                None,
            ),
            (crash(15, &[15, 0, 0, 0, 12, 0]), "SIGTERM (SI_USER: sent by process 12)", None),
            (crash(4, &[4, 0, 2, 0, 0x1000, 0]), "SIGILL (ILL_ILLOPN: at 0x1000)", Some(0x1000)),
            (crash(11, &[]), "SIGSEGV", None),
        ];
        for (crash, text, address) in cases {
            assert_eq!((crash.describe().as_str(), crash.address()), (text, address));
        }
    }
}
