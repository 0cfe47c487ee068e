//! Standard output: buffered, coloured where somebody looks at it, and quiet when nobody reads any more.

use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

use serde::Serialize;

use crate::failure::{Failure, Result};

/// How a piece of text is emphasised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Headings, names.
    Bold,
    /// What is there but matters less.
    Faint,
    /// Something good.
    Green,
    /// Something to look at.
    Yellow,
    /// Something bad.
    Red,
}

/// Where all that a command has to say goes.
#[derive(Debug)]
pub struct Output {
    writer: BufWriter<StdoutLock<'static>>,
    is_terminal: bool,
    has_colour: bool,
}

impl Output {
    /// Standard output.
    pub fn new() -> Self {
        let stdout = io::stdout();
        let is_terminal = stdout.is_terminal();
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        Self { writer: BufWriter::new(stdout.lock()), is_terminal, has_colour: is_terminal && !refused && !is_dumb }
    }

    /// How many characters a line has room for; `None` where that does not matter.
    pub fn width(&self) -> Option<usize> {
        if !self.is_terminal {
            return None;
        }
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
        (size.ws_col > 0).then_some(usize::from(size.ws_col))
    }

    /// The text with the codes for a style around it, if there is colour.
    pub fn styled(&self, style: Style, text: impl Display) -> String {
        let code = match style {
            Style::Bold => "1",
            Style::Faint => "2",
            Style::Green => "32",
            Style::Yellow => "33",
            Style::Red => "31",
        };
        if self.has_colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }

    /// Writes a line.
    ///
    /// # Errors
    /// If it cannot be written; also if nobody reads any more.
    pub fn line(&mut self, text: impl Display) -> Result<()> {
        writeln!(self.writer, "{text}").map_err(|error| Failure::output(&error))
    }

    /// Writes bytes as they are.
    ///
    /// # Errors
    /// As [`Output::line`].
    pub fn raw(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.writer.write_all(bytes);
        written.map_err(|error| Failure::output(&error))
    }

    /// Writes a value as JSON over several lines.
    ///
    /// # Errors
    /// As [`Output::line`].
    pub fn json(&mut self, value: &impl Serialize) -> Result<()> {
        self.line(serde_json::to_string_pretty(value).expect("keys are strings"))
    }

    /// Writes a value as JSON in one line.
    ///
    /// # Errors
    /// As [`Output::line`].
    pub fn json_line(&mut self, value: &impl Serialize) -> Result<()> {
        self.line(serde_json::to_string(value).expect("keys are strings"))
    }

    /// Writes what is still held back: what comes next takes a while.
    ///
    /// # Errors
    /// As [`Output::line`].
    pub fn flush(&mut self) -> Result<()> {
        self.writer.flush().map_err(|error| Failure::output(&error))
    }

    /// Writes what is still held back. Every command ends with this.
    ///
    /// # Errors
    /// As [`Output::line`].
    pub fn finish(mut self) -> Result<()> {
        self.writer.flush().map_err(|error| Failure::output(&error))
    }
}

/// Text in columns, all but the last padded to the same width.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
    /// Columns that are aligned to the right, numbers mostly.
    right: Vec<usize>,
}

impl Table {
    /// A table with these headings, some columns aligned to the right.
    pub fn new(headings: &[&str], right: &[usize]) -> Self {
        let headings = headings.iter().map(|heading| (*heading).to_owned());
        Self { rows: vec![headings.collect()], right: right.to_vec() }
    }

    /// Adds a row.
    pub fn row<const COLUMNS: usize>(&mut self, cells: [String; COLUMNS]) {
        self.rows.push(cells.into());
    }

    /// Prints it; on a terminal the last column is cut where the line ends.
    ///
    /// # Errors
    /// As [`Output::line`].
    pub fn print(&self, output: &mut Output) -> Result<()> {
        let columns = self.rows[0].len();
        let width_of = |column: usize| {
            let widths = self.rows.iter().filter_map(|row| Some(row.get(column)?.chars().count()));
            widths.max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width_of).collect();
        let before_last: usize = widths[..columns - 1].iter().map(|width| width + 2).sum();
        let room = output.width().map(|all| all.saturating_sub(before_last));
        for (index, row) in self.rows.iter().enumerate() {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let is_last = column + 1 == columns;
                let width = widths[column];
                match (is_last, room) {
                    (true, Some(room)) => line += &crate::text::cut(cell, room),
                    (true, None) => line += cell,
                    _ if self.right.contains(&column) => line += &format!("{cell:>width$}  "),
                    _ => line += &format!("{cell:<width$}  "),
                }
            }
            let line = line.trim_end();
            let line = if index == 0 { output.styled(Style::Bold, line) } else { line.to_owned() };
            output.line(line)?;
        }
        Ok(())
    }
}
