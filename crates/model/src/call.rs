//! A system call in an event: its registers, and the data to which they refer.

use retake_contract::events::{CALL_CONSOLE_ERR, CALL_CONSOLE_OUT};

use crate::bytes::{read_u32, read_u64};
use crate::ids::StreamId;
use crate::item::{Direction, ItemRef, Items};
use crate::table::{self, CallRow, Row, SubRow};

/// Returns how many arguments a CALL event has: those of the row, or of the sub-row that the
/// selector picks. An event of a call that the recorder's table did not have has none, and nothing
/// else in its body either.
pub(crate) fn argument_count(number: u16, body: &[u8]) -> usize {
    let Some(call) = table::call(number).filter(|_| !body.is_empty()) else {
        return 0;
    };
    let Some(selector) = call.selector else {
        return call.row.arguments.len();
    };
    let at = usize::from(selector) * 8;
    let Some(bytes) = body.get(at..at + 4) else {
        return call.row.arguments.len();
    };
    let sub = call.sub_row(read_u32(bytes, 0));
    sub.map_or(call.row.arguments.len(), |sub| sub.row.arguments.len())
}

/// A system call in the log.
#[derive(Debug, Clone, Copy)]
pub struct CallRef<'log> {
    number: u16,
    flags: u8,
    result: i64,
    body: &'log [u8],
    argument_count: usize,
}

/// The output streams that replay prints again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Console {
    Out,
    Err,
}

impl<'log> CallRef<'log> {
    /// Creates the call of an event whose body has been checked.
    pub(crate) fn new(number: u16, flags: u8, result: i64, body: &'log [u8]) -> Self {
        Self { number, flags, result, body, argument_count: argument_count(number, body) }
    }

    pub fn number(&self) -> u16 {
        self.number
    }

    /// Returns the program's result in `rax`. Values from -4095 to -1 are errors.
    pub fn result(&self) -> i64 {
        self.result
    }

    pub fn flags(&self) -> u8 {
        self.flags
    }

    /// Returns the call's row in the table; `None` for a number that is not in this table, or was
    /// not in the recorder's.
    pub fn call_row(&self) -> Option<&'static CallRow> {
        table::call(self.number)
            .filter(|call| self.argument_count > 0 || call.row.arguments.is_empty())
    }

    /// Returns the row that describes the arguments, and the sub-row if it comes from one.
    pub fn row(&self) -> Option<(&'static Row, Option<&'static SubRow>)> {
        let arguments: Vec<u64> = self.arguments().collect();
        self.call_row().map(|call| call.resolve(&arguments))
    }

    /// Returns the argument registers.
    pub fn arguments(&self) -> impl ExactSizeIterator<Item = u64> + use<'log> {
        self.body[..self.argument_count * 8].chunks_exact(8).map(|bytes| read_u64(bytes, 0))
    }

    /// Returns an argument register.
    pub fn argument(&self, index: usize) -> Option<u64> {
        self.arguments().nth(index)
    }

    /// Returns the items of the call in the order of recording: inputs first.
    pub fn items(&self) -> Items<'log> {
        Items::new(&self.body[self.argument_count * 8..])
    }

    /// Returns the items of an argument in one direction.
    pub fn items_of(
        &self,
        argument: usize,
        direction: Direction,
    ) -> impl Iterator<Item = ItemRef<'log>> + use<'log> {
        self.items()
            .filter(move |item| item.argument() == argument && item.direction() == direction)
    }

    /// Returns the stream of the thread that the call created.
    pub fn child(&self) -> Option<StreamId> {
        let item = self.items().find(|item| item.direction() == Direction::Child)?;
        item.inline_bytes().first_chunk().map(|bytes| StreamId(u32::from_le_bytes(*bytes)))
    }

    /// Returns the console to which the call wrote, and its place in the global order of output.
    pub fn console(&self) -> Option<(Console, u64)> {
        let which = match self.flags & (CALL_CONSOLE_OUT | CALL_CONSOLE_ERR) {
            0 => return None,
            flags if flags & CALL_CONSOLE_OUT != 0 => Console::Out,
            _ => Console::Err,
        };
        let item = self.items().find(|item| item.direction() == Direction::Console)?;
        let sequence = item.inline_bytes().first_chunk()?;
        Some((which, u64::from_le_bytes(*sequence)))
    }
}
