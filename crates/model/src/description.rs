//! A system call for people: names, values, texts, and the data behind them.

use crate::habits;
use crate::item::ItemRef;

/// A call and all that was recorded of it.
#[derive(Debug, Clone)]
pub struct CallDescription<'log> {
    /// `ioctl`; `syscall_1000` for a number that the table does not have.
    pub name: String,
    /// `TCGETS`, where the command has a row.
    pub command: Option<&'static str>,
    pub arguments: Vec<ArgumentDescription<'log>>,
    /// What stands between the parentheses where that is not the arguments one after another.
    pub shown: Option<Vec<String>>,
    pub result: i64,
    /// `ENOENT`, where the result is an error.
    pub error: Option<&'static str>,
    /// `3`, `0x7f0000000000`, `-1 ENOENT (No such file or directory)`.
    pub result_text: String,
}

/// One argument.
#[derive(Debug, Clone)]
pub struct ArgumentDescription<'log> {
    /// As in the table.
    pub name: &'static str,
    /// The register.
    pub value: u64,
    pub text: String,
    /// What the call read there.
    pub inputs: Vec<ItemRef<'log>>,
    /// What the kernel wrote there.
    pub outputs: Vec<ItemRef<'log>>,
}

impl CallDescription<'_> {
    /// `read(3, "x", 1)`, without the registers that the call does not look at.
    pub fn head(&self) -> String {
        if let Some(shown) = &self.shown {
            return format!("{}({})", self.name, shown.join(", "));
        }
        let values: Vec<(&str, u64)> =
            self.arguments.iter().map(|argument| (argument.name, argument.value)).collect();
        let shown = habits::meaningful(&self.name, self.command, &values).unwrap_or(values.len());
        let texts: Vec<&str> =
            self.arguments.iter().take(shown).map(|argument| argument.text.as_str()).collect();
        format!("{}({})", self.name, texts.join(", "))
    }
}
