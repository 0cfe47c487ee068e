//! Packets that the protocol library does not know.

use super::remote::Remote;
use super::signals::signal;
use crate::catches::Signals;

const LAST_SIGNAL: i32 = 64;

impl Remote {
    /// The answer to such a packet; `None`: it is the library's.
    pub(super) fn answer_to(&mut self, packet: &[u8]) -> Option<String> {
        let body =
            packet.strip_prefix(b"$").and_then(|rest| rest.get(..rest.len().saturating_sub(3)))?;
        let (name, arguments) = std::str::from_utf8(body).ok()?.split_once(':')?;
        match name {
            "qGetTLSAddr" => {
                // The library on the other side takes any error number for "it is not there yet".
                let address = thread_local(arguments).and_then(|(thread, offset, module)| {
                    self.session.locals().address(thread, offset, module)
                });
                Some(address.map_or("E01".to_owned(), |address| format!("{address:x}")))
            }
            "QPassSignals" => {
                let numbers: Vec<u8> = arguments
                    .split(';')
                    .filter_map(|number| u8::from_str_radix(number, 16).ok())
                    .collect();
                self.session.replay_mut().inferior.passed = Signals::of(
                    (1..=LAST_SIGNAL).filter(|number| numbers.contains(&signal(*number).0)),
                );
                Some("OK".to_owned())
            }
            _ => None,
        }
    }
}

/// Thread, offset and link map.
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
    fn a_thread_local_variable_is_asked_for() {
        assert_eq!(thread_local("p1.2be3,10,7ffff7ffe2e0"), Some((0x2be3, 0x10, 0x7fff_f7ff_e2e0)));
        assert_eq!(thread_local("7,0,0"), Some((7, 0, 0)));
        for bad in ["", "p1.7", "p1.7,0", "p1.x,0,0", "7,,0"] {
            assert_eq!(thread_local(bad), None, "{bad}");
        }
    }
}
