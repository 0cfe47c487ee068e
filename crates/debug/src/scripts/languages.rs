//! Languages other than Python, and the native frames of the code that they make.

use super::process::Scripts;
use retake_interpreters::java::{self, Java};
use retake_interpreters::node::{self, Code, Node};
use retake_interpreters::{Exports, Language, Registers, Start, Step, Symbol};
use retake_kernel::maps::Mapping;
use serde::Serialize;
use std::ops::Range;
use std::rc::Rc;

/// The languages of a process.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Languages {
    /// Their names, and why their frames are not known, if so.
    pub names: Vec<(String, Option<String>)>,
    /// Where code lies that they have made: from an address, and up to it.
    pub code: Vec<(u64, u64)>,
}

/// Native frames of code that a language has made.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Walk {
    /// The language.
    pub language: String,
    /// The frames, the innermost first.
    pub steps: Vec<Step>,
}

impl Scripts<'_> {
    /// The languages of the process.
    pub fn languages(&self) -> Languages {
        let mut found = Languages::default();
        self.each(|name, language| {
            let (refused, code) = match language {
                Ok(language) => (None, language.code()),
                Err(reason) => (Some(reason), Vec::new()),
            };
            found.names.push((name.to_owned(), refused));
            found.code.extend(code.into_iter().map(|range| (range.start, range.end)));
        });
        found
    }

    /// The native frames from a place in the stack of a thread outwards, as long as they are of
    /// code that a language has made.
    pub fn walk(&self, thread: u32, registers: Registers) -> Walk {
        let own = self.changes.registers(self.inferior, thread).ok();
        let own = own.filter(|(own, _)| (own.rip, own.rsp) == (registers.pc, registers.sp));
        let start = Start { registers, r13: own.map(|(own, _)| own.r13) };
        let mut found = Walk::default();
        self.each(|name, language| {
            if let Ok(language) = language
                && found.steps.is_empty()
            {
                found = Walk { language: name.to_owned(), steps: language.walk(start) };
            }
        });
        found
    }

    /// Calls `take` for each language, or with the reason why its frames are not known.
    fn each(&self, mut take: impl FnMut(&str, Result<&dyn Language, String>)) {
        for (exported, bias) in self.exporting() {
            let exports = |name: &str| {
                let Symbol { at, bytes } = *exported.get(name)?;
                Some(Symbol { at: bias.wrapping_add(at), bytes })
            };
            if exports(node::MARK).is_some() {
                match node::Layout::of(self, &exports) {
                    Ok(layout) => {
                        let code = self.code_of_node(&layout.built_in);
                        take(node::NAME, Ok(&Node::new(self, layout, code)));
                    }
                    Err(error) => take(node::NAME, Err(error.to_string())),
                }
            }
            if let Some(mark) = exports(java::MARK) {
                match self.machine(mark.at, &exports) {
                    Some(Ok(layout)) => take(java::NAME, Ok(&Java::new(self, &layout))),
                    Some(Err(error)) => take(java::NAME, Err(error.to_string())),
                    None => {}
                }
            }
        }
    }

    /// Where Node.js has code. It maps its own file once more, to have that near what it makes.
    fn code_of_node(&self, built_in: &Range<u64>) -> Code {
        let mappings = self.inferior.text.mappings();
        let offset = |address: u64| {
            let mapping = mappings.iter().find(|one| (one.start..one.end).contains(&address))?;
            Some(mapping.offset + (address - mapping.start))
        };
        let (first, bytes) = (offset(built_in.start), built_in.end - built_in.start);
        let executable = mappings.iter().filter(|one| one.executable);
        let (files, made): (Vec<_>, Vec<_>) = executable.partition(|one| !one.name.is_empty());
        let is_copy = |one: &&&Mapping| first == Some(one.offset);
        let copies = files.iter().filter(is_copy).map(|one| one.start..one.start + bytes);
        Code {
            built_in: std::iter::once(built_in.clone()).chain(copies).collect(),
            made: made.iter().map(|one| one.start..one.end).collect(),
        }
    }

    /// The layout of a virtual machine of Java. Reading it takes long, so it is remembered.
    fn machine(
        &self,
        at: u64,
        exports: Exports<'_>,
    ) -> Option<Result<Rc<java::Layout>, java::JavaError>> {
        if let Some(known) = self.known.machines.borrow().get(&at) {
            return Some(Ok(Rc::clone(known)));
        }
        let layout = java::layout(self, exports)?.map(Rc::new);
        if let Ok(layout) = &layout {
            self.known.machines.borrow_mut().insert(at, Rc::clone(layout));
        }
        Some(layout)
    }
}
