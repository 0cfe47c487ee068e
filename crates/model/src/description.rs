//! The description of a system call for people: names, values, texts, and the data to which they
//! refer.

use crate::habits;
use crate::item::ItemRef;

/// A call with all that was recorded of it.
#[derive(Debug, Clone)]
pub struct CallDescription<'log> {
    /// The name of the call, such as `ioctl`; `syscall_1000` for a number that is not in the table.
    pub name: String,
    /// The name of the command, such as `TCGETS`, if it has a row.
    pub command: Option<&'static str>,
    pub arguments: Vec<ArgumentDescription<'log>>,
    /// What stands between the parentheses, if not the arguments one after another.
    pub shown: Option<Vec<String>>,
    pub result: i64,
    /// The error, such as `ENOENT`, if the call failed.
    pub error: Option<&'static str>,
    /// The result as text: `3`, `0x7f0000000000`, `-1 ENOENT (No such file or directory)`.
    pub result_text: String,
}

/// An argument of a call.
#[derive(Debug, Clone)]
pub struct ArgumentDescription<'log> {
    /// The name in the table.
    pub name: &'static str,
    /// The value of the register.
    pub value: u64,
    pub text: String,
    /// What the call read through the argument.
    pub inputs: Vec<ItemRef<'log>>,
    /// What the kernel wrote through the argument.
    pub outputs: Vec<ItemRef<'log>>,
}

impl CallDescription<'_> {
    /// Formats the call as `read(3, "x", 1)`, without registers that it does not use.
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
