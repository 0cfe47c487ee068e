//! Tables for a terminal and for Markdown, and their places in a document.

use std::path::Path;

use super::Result;

/// The sign for a missing figure.
pub const NOTHING: &str = "–";

/// Headings, and rows with as many cells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// The title above the table. It may be empty.
    pub title: String,
    pub headings: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(title: &str, headings: &[&str]) -> Self {
        Self {
            title: title.to_owned(),
            headings: headings.iter().map(|&heading| heading.to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row. Missing cells are empty.
    pub fn push(&mut self, mut row: Vec<String>) {
        row.resize(self.headings.len(), String::new());
        self.rows.push(row);
    }

    /// Returns the table for a terminal: words to the left, numbers to the right.
    pub fn terminal(&self) -> String {
        let lines = || std::iter::once(&self.headings).chain(&self.rows);
        let width =
            |column: usize| lines().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.headings.len()).map(width).collect();
        let mut text =
            if self.title.is_empty() { String::new() } else { format!("{}\n\n", self.title) };
        for row in lines() {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let padding = " ".repeat(widths[column] - cell.chars().count());
                let (before, after) = if self.is_words(column) {
                    ("", padding.as_str())
                } else {
                    (padding.as_str(), "")
                };
                line.push_str(&format!("{before}{cell}{after}  "));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    /// Returns whether a column has words: the first one, and any with a cell that starts with a
    /// letter.
    fn is_words(&self, column: usize) -> bool {
        let starts_as_words = |row: &Vec<String>| row[column].starts_with(char::is_alphabetic);
        column == 0 || self.rows.iter().any(starts_as_words)
    }

    /// Returns the table as Markdown, below its title.
    pub fn markdown(&self) -> String {
        let mut text =
            if self.title.is_empty() { String::new() } else { format!("### {}\n\n", self.title) };
        text.push_str(&markdown_row(&self.headings));
        text.push_str(&"|---".repeat(self.headings.len()));
        text.push_str("|\n");
        for row in &self.rows {
            text.push_str(&markdown_row(row));
        }
        text
    }
}

fn markdown_row(cells: &[String]) -> String {
    let mut row = String::from("|");
    for cell in cells {
        row.push_str(&format!(" {} |", cell.replace('|', "\\|")));
    }
    row.push('\n');
    row
}

/// Returns a number with `digits` digits, or the sign for none.
pub fn number(number: Option<f64>, digits: usize) -> String {
    number.map_or(NOTHING.to_owned(), |number| format!("{number:.digits$}"))
}

/// Returns bytes as MB, or the sign for none.
pub fn megabytes(bytes: u64) -> String {
    if bytes == 0 { NOTHING.to_owned() } else { format!("{:.1}", bytes as f64 / 1e6) }
}

/// Puts `block` between the lines `<!-- NAME: begin -->` and `<!-- NAME: end -->` of the file.
///
/// # Errors
/// The file cannot be read or written, or has no such lines.
pub fn update(path: &Path, name: &str, block: &str) -> Result<()> {
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let updated = replace_block(&text, name, block)
        .ok_or_else(|| format!("{} has no place for {name}", path.display()))?;
    std::fs::write(path, updated)?;
    Ok(())
}

/// Returns the text with `block` in that place. `None` if it has no such place.
pub fn replace_block(text: &str, name: &str, block: &str) -> Option<String> {
    let (begin, end) = (format!("<!-- {name}: begin -->"), format!("<!-- {name}: end -->"));
    let (before, rest) = text.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}\n{block}{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_aligned_and_escaped() {
        let mut table = Table::new("t", &["what", "s", "say"]);
        table.push(vec!["a | b".to_owned(), "1.5".to_owned(), "good".to_owned()]);
        table.push(vec!["c".to_owned(), "10.5".to_owned()]);
        assert_eq!(table.terminal(), "t\n\nwhat      s  say\na | b   1.5  good\nc      10.5\n");
        assert!(
            table.markdown().starts_with(
                "### t\n\n| what | s | say |\n|---|---|---|\n| a \\| b | 1.5 | good |\n"
            )
        );
    }

    #[test]
    fn the_block_is_replaced_and_nothing_else() {
        let text = "a\n<!-- x: begin -->\nold\n<!-- x: end -->\nb\n";
        let once = replace_block(text, "x", "new\n").unwrap();
        assert_eq!(once, "a\n<!-- x: begin -->\nnew\n<!-- x: end -->\nb\n");
        assert_eq!(replace_block(&once, "x", "new\n").unwrap(), once);
        assert_eq!(replace_block(text, "y", "new"), None);
    }
}
