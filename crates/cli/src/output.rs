//! Standard output: buffered, coloured on a terminal, and quiet when its reader has gone.

use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

use serde::Serialize;

use crate::failure::{Failure, Result};
use crate::text;

/// The emphasis of a piece of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Headings and names.
    Bold,
    /// Less important text.
    Faint,
    /// Something good.
    Green,
    /// Something that needs attention.
    Yellow,
    /// Something bad.
    Red,
}

/// The output of a command.
#[derive(Debug)]
pub struct Output {
    writer: Writer,
    is_terminal: bool,
    has_colour: bool,
}

/// Standard output, or a buffer in memory.
#[derive(Debug)]
enum Writer {
    Standard(BufWriter<StdoutLock<'static>>),
    Kept(Vec<u8>),
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Standard(writer) => writer.write(bytes),
            Self::Kept(kept) => kept.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Standard(writer) => writer.flush(),
            Self::Kept(_) => Ok(()),
        }
    }
}

impl Output {
    /// Returns as text what `print` writes to an output that is not a terminal.
    pub fn in_words(print: impl FnOnce(&mut Self) -> Result<()>) -> Result<String> {
        let mut output =
            Self { writer: Writer::Kept(Vec::new()), is_terminal: false, has_colour: false };
        print(&mut output)?;
        match output.writer {
            Writer::Kept(kept) => Ok(String::from_utf8_lossy(&kept).into_owned()),
            Writer::Standard(_) => Ok(String::new()),
        }
    }

    /// Standard output.
    pub fn new() -> Self {
        let stdout = io::stdout();
        let is_terminal = stdout.is_terminal();
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        Self {
            writer: Writer::Standard(BufWriter::new(stdout.lock())),
            is_terminal,
            has_colour: is_terminal && !refused && !is_dumb,
        }
    }

    /// The width of the terminal in columns; `None` if the output is not a terminal.
    pub fn width(&self) -> Option<usize> {
        if !self.is_terminal {
            return None;
        }
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
        (size.ws_col > 0).then_some(usize::from(size.ws_col))
    }

    /// The text in a style, if the output has colour.
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
    /// The line cannot be written, or the output has lost its reader.
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

    /// Writes the buffered text. Used before an operation that takes a while.
    ///
    /// # Errors
    /// As [`Output::line`].
    pub fn flush(&mut self) -> Result<()> {
        self.writer.flush().map_err(|error| Failure::output(&error))
    }

    /// Writes the buffered text. Every command ends with this.
    ///
    /// # Errors
    /// As [`Output::line`].
    pub fn finish(mut self) -> Result<()> {
        self.writer.flush().map_err(|error| Failure::output(&error))
    }
}

/// Text in columns. All but the last column are padded.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
    /// The columns that are aligned to the right, mostly numbers.
    right: Vec<usize>,
}

impl Table {
    /// An empty table with these headings. `right` has the columns to align to the right.
    pub fn new(headings: &[&str], right: &[usize]) -> Self {
        let headings = headings.iter().map(|heading| (*heading).to_owned());
        Self { rows: vec![headings.collect()], right: right.to_vec() }
    }

    /// Adds a row.
    pub fn row<const COLUMNS: usize>(&mut self, cells: [String; COLUMNS]) {
        self.rows.push(cells.into());
    }

    /// Prints the table. On a terminal the last column is cut at the end of the line.
    ///
    /// # Errors
    /// As [`Output::line`].
    pub fn print(&self, output: &mut Output) -> Result<()> {
        for (index, line) in self.lines(output.width()).into_iter().enumerate() {
            let line = if index == 0 { output.styled(Style::Bold, line) } else { line };
            output.line(line)?;
        }
        Ok(())
    }

    /// The lines of the table. They fit the terminal unless the other columns alone are wider.
    fn lines(&self, terminal: Option<usize>) -> Vec<String> {
        let last = self.rows[0].len() - 1;
        let width_of = |column: usize| self.rows.iter().map(|row| text::width(&row[column])).max();
        let widths: Vec<usize> = (0..last).filter_map(width_of).collect();
        let before_last: usize = widths.iter().map(|width| width + 2).sum();
        let line = |row: &Vec<String>| {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let padding = " ".repeat(width - text::width(cell));
                let is_right = self.right.contains(&column);
                line += &if is_right { padding + cell } else { cell.to_owned() + &padding };
                line += "  ";
            }
            line += &match terminal {
                Some(width) => text::cut(&row[last], width.saturating_sub(before_last)),
                None => row[last].clone(),
            };
            line.truncate(line.trim_end().len());
            line
        };
        self.rows.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Columns have the width that terminals show: CJK characters and emoji take two columns,
    /// combining marks none.
    #[test]
    fn columns_are_aligned_whatever_is_in_them() {
        let mut table = Table::new(&["NAME", "SIZE", "COMMAND"], &[1]);
        let names = ["ab", "録画", "e\u{301}te\u{301}", "👩\u{200d}💻x", "❤\u{fe0f}", "한글한글"];
        for (name, size) in names.into_iter().zip(1..) {
            let command = "再生 e\u{301} 👩\u{200d}💻 end";
            table.row([name.to_owned(), "9".repeat(size), command.to_owned()]);
        }
        let lines = table.lines(None);
        assert_eq!(lines[0], "NAME        SIZE  COMMAND");
        assert_eq!(lines[2], "録画          99  再生 e\u{301} 👩\u{200d}💻 end");
        assert_eq!(lines[6], "한글한글  999999  再生 e\u{301} 👩\u{200d}💻 end");
        for line in &lines[1..] {
            let (before, _) = line.split_once("再生").unwrap();
            assert_eq!(text::width(before), 18, "{line}");
        }
        for terminal in 0..40 {
            for (whole, line) in lines.iter().zip(table.lines(Some(terminal))) {
                assert!(text::width(&line) <= terminal.max(19), "{terminal}: {line}");
                let is_cut = line.ends_with('…') && terminal < 35;
                assert!(&line == whole || is_cut, "{terminal}: {line}");
            }
        }
    }

    #[test]
    fn lines_end_with_their_last_letter() {
        let mut table = Table::new(&["A", "B"], &[]);
        table.row(["wide".to_owned(), String::new()]);
        assert_eq!(table.lines(Some(80)), ["A     B", "wide"]);
    }
}
