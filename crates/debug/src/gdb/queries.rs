//! Packets that the protocol library does not know.

use super::remote::Remote;
use super::signals::signal;
use crate::catches::Signals;

const LAST_SIGNAL: i32 = 64;
/// The answer if the requested thing does not exist.
const FAILED: &[u8] = b"E01";

impl Remote {
    /// The answer to such a packet; `None` if the library handles it.
    pub(super) fn answer_to(&mut self, packet: &[u8]) -> Option<Vec<u8>> {
        let body =
            packet.strip_prefix(b"$").and_then(|rest| rest.get(..rest.len().saturating_sub(3)))?;
        let (name, arguments) = std::str::from_utf8(body).ok()?.split_once(':')?;
        match name {
            "qGetTLSAddr" => {
                // The library on the other side takes any error number to mean "not there yet".
                let address = thread_local(arguments).and_then(|(thread, offset, module)| {
                    self.session.locals().address(thread, offset, module)
                });
                Some(address.map_or(FAILED.to_vec(), |address| format!("{address:x}").into()))
            }
            "QPassSignals" => {
                let numbers: Vec<u8> = arguments
                    .split(';')
                    .filter_map(|number| u8::from_str_radix(number, 16).ok())
                    .collect();
                self.session.replay_mut().inferior.passed = Signals::of(
                    (1..=LAST_SIGNAL).filter(|number| numbers.contains(&signal(*number).0)),
                );
                Some(b"OK".to_vec())
            }
            "qXfer" => Some(self.part_of_siginfo(arguments.strip_prefix("siginfo:read::")?)),
            _ => None,
        }
    }

    /// Part of the kernel's information about the signal that the program is about to get.
    fn part_of_siginfo(&self, range: &str) -> Vec<u8> {
        // A function that the user called gets its own signals, which are not in the recording.
        let is_called = self.session.changes.thread().is_some();
        let siginfo = self.session.siginfo().ok().flatten().filter(|_| !is_called);
        siginfo.and_then(|bytes| part(&bytes, range)).unwrap_or(FAILED.to_vec())
    }
}

/// The requested part of an object. The range is an offset and a length in hexadecimal digits. The
/// answer also says whether more follows.
fn part(object: &[u8], range: &str) -> Option<Vec<u8>> {
    let (offset, length) = range.split_once(',')?;
    let offset = usize::from_str_radix(offset, 16).ok()?;
    let length = usize::from_str_radix(length, 16).ok()?;
    let rest = object.get(offset.min(object.len())..)?;
    let bytes = &rest[..length.min(rest.len())];
    let mut answer = vec![if bytes.len() < rest.len() { b'm' } else { b'l' }];
    for &byte in bytes {
        match byte {
            b'#' | b'$' | b'}' | b'*' => answer.extend([b'}', byte ^ 0x20]),
            byte => answer.push(byte),
        }
    }
    Some(answer)
}

/// Parses the thread, the offset and the link map.
fn thread_local(arguments: &str) -> Option<(u32, u64, u64)> {
    let mut parts = arguments.split(',');
    let thread = parts.next()?;
    let thread = thread.rsplit('.').next()?.trim_start_matches('p');
    let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
    Some((u32::from_str_radix(thread, 16).ok()?, number()?, number()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_handed_over_in_parts() {
        let object = b"ab}d#";
        let cases: [(&str, Option<&[u8]>); 6] = [
            ("0,2", Some(b"mab")),
            ("2,2", Some(b"m}]d")),
            ("4,40", Some(b"l}\x03")),
            ("5,1", Some(b"l")),
            ("fffffffffffffff,1", Some(b"l")),
            ("x,1", None),
        ];
        for (range, answer) in cases {
            assert_eq!(part(object, range).as_deref(), answer, "{range}");
        }
    }

    #[test]
    fn a_thread_local_variable_is_asked_for() {
        assert_eq!(thread_local("p1.2be3,10,7ffff7ffe2e0"), Some((0x2be3, 0x10, 0x7fff_f7ff_e2e0)));
        assert_eq!(thread_local("7,0,0"), Some((7, 0, 0)));
        for bad in ["", "p1.7", "p1.7,0", "p1.x,0,0", "7,,0"] {
            assert_eq!(thread_local(bad), None, "{bad}");
        }
    }
}
