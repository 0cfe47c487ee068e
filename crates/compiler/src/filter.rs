//! Adds to gcc's assembly a list of the instructions that synchronise.
//!
//! With `-dP`, a comment before each instruction shows it in the compiler's notation. There, an
//! atomic or `volatile` access has memory of the form `(mem/v:SI ...`: the compiler may not drop
//! the access, nor move it past others. Inline assembly is between the lines `#APP` and `#NO_APP`.

use std::collections::HashMap;
use std::fmt::Write;

use retake_patch::{DECLARED_FUNCTION, DECLARED_SECTION};

use crate::inline;
use crate::places::Places;

/// The bytes of a jump. An instruction with this much room of its own can always be patched.
const ROOM_BYTES: usize = 5;

/// The state of the filter, and its output so far.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    places: Places,
    output: String,
    /// The number of listed operations.
    count: usize,
    /// Whether the next instruction synchronises, according to the comment before it.
    synchronises: bool,
    /// Whether the next instruction copies a whole volatile variable.
    copies: bool,
    in_comment: bool,
    in_inline: bool,
    /// Whether the file comes from a compiler that shows its instructions.
    is_shown: bool,
    /// Whether the file contains something that cannot be listed.
    is_beyond_us: bool,
    /// The number of open `.macro` and `.rept` directives.
    depth: usize,
    /// The names in the text, with the numbers of our own labels at the same places.
    named: HashMap<String, usize>,
    /// The source line of the inline assembly.
    source_line: String,
}

impl Filter {
    /// Filters a whole file.
    pub fn file(mut self, text: &str) -> String {
        for line in text.lines() {
            self.line(line);
        }
        self.output
    }

    fn line(&mut self, line: &str) {
        if let Some(comment) = line.strip_prefix('#') {
            self.comment(comment);
            self.copy(line);
            return;
        }
        self.in_comment = false;
        let statement = line.trim();
        if statement.starts_with('.') && !statement.ends_with(':') {
            self.directive(statement);
            self.copy(line);
            self.function(statement);
        } else if statement.is_empty() || self.depth > 0 {
            self.copy(line);
        } else if let Some(name) = statement.strip_suffix(':') {
            self.copy(line);
            self.label(name);
        } else if self.in_inline {
            self.inline(line);
        } else if self.copies {
            self.warn("a volatile structure that is copied", statement);
            self.copy(line);
        } else if self.synchronises {
            self.operation(line, true);
        } else {
            self.copy(line);
        }
    }

    fn comment(&mut self, comment: &str) {
        match comment.trim_end() {
            "APP" => self.in_inline = true,
            "NO_APP" => self.in_inline = false,
            // `# LINE "FILE" 1` precedes inline assembly.
            place if self.in_inline => place.trim().clone_into(&mut self.source_line),
            _ => {
                if comment.starts_with('(') {
                    (self.in_comment, self.synchronises, self.copies) = (true, false, false);
                    self.is_shown = true;
                }
                self.synchronises |= self.in_comment && has_volatile_memory(comment);
                self.copies |= self.in_comment && has_volatile_block(comment);
            }
        }
    }

    fn directive(&mut self, directive: &str) {
        match directive.split_whitespace().next() {
            Some(".macro" | ".rept" | ".irp" | ".irpc") => self.depth += 1,
            Some(".endm" | ".endr") => self.depth = self.depth.saturating_sub(1),
            _ => self.places.see(directive),
        }
    }

    /// Adds a label of our own beside a function's name. Another file may override the name.
    fn label(&mut self, name: &str) {
        let is_local =
            name.starts_with(".L") || name.starts_with(|first: char| first.is_ascii_digit());
        if !is_local && self.places.current().starts_with(".text") {
            let number = self.named.len();
            self.copy(&format!(".Lretake_function_{number}:"));
            self.named.insert(name.to_owned(), number);
        }
    }

    /// `.size NAME, .-NAME` follows a function. If the compiler has shown all of it, it is listed
    /// as a function.
    fn function(&mut self, directive: &str) {
        let Some((name, size)) =
            directive.strip_prefix(".size").and_then(|rest| rest.split_once(','))
        else {
            return;
        };
        let (name, section) = (name.trim(), self.places.current());
        if size.trim() != format!(".-{name}") || !section.starts_with(".text") {
            return;
        }
        let section = section.to_owned();
        let Some(number) = self.named.get(name) else { return };
        if self.is_shown && !self.is_beyond_us {
            self.entry(&format!(".Lretake_function_{number}"), "0", DECLARED_FUNCTION, &section);
        }
    }

    fn inline(&mut self, line: &str) {
        if line.contains(['"', '#']) || line.contains("/*") {
            self.is_beyond_us |= !line.trim_start().starts_with('#');
            self.copy(line);
            return;
        }
        for statement in inline::statements(line) {
            if inline::is_beyond_us(statement) {
                self.warn("inline assembly", statement);
            }
            let is_instruction = !statement.starts_with('.') && !statement.ends_with(':');
            if is_instruction && inline::may_access_memory(statement) {
                self.operation(statement, false);
            } else {
                self.directive(statement);
                self.copy(statement);
            }
        }
    }

    /// Copies an instruction between two labels, and lists it. If it may grow, padding makes room
    /// for a jump. Inline assembly may not, as it may count its own bytes.
    fn operation(&mut self, instruction: &str, may_grow: bool) {
        let (number, section) = (self.count, self.places.current().to_owned());
        self.count += 1;
        let start = format!(".Lretake_operation_{number}");
        let bytes = format!("{start}_end - {start}");
        self.copy(&format!("{start}:"));
        self.copy(instruction);
        self.copy(&format!("{start}_end:"));
        if may_grow {
            self.copy(&format!("\t.if {bytes} < {ROOM_BYTES}"));
            self.copy(&format!("\t.nops {ROOM_BYTES} - ({bytes})"));
            self.copy("\t.endif");
        }
        self.entry(&start, &bytes, 0, &section);
    }

    /// Writes an entry of the list. It is in the group of the code's section, and discarded with
    /// it.
    fn entry(&mut self, start: &str, bytes: &str, kind: u16, section: &str) {
        self.copy(&format!("\t.pushsection {DECLARED_SECTION},\"ao?\",@progbits,{section}"));
        self.copy(&format!("\t.long {start} - .\n\t.short {bytes}, {kind}\n\t.popsection"));
    }

    fn warn(&mut self, what: &str, statement: &str) {
        use std::io::Write as _;
        self.is_beyond_us = true;
        let line =
            if self.in_inline { format!(" (line {})", self.source_line) } else { String::new() };
        let _ = writeln!(
            std::io::stderr(),
            "retake: warning: {what} cannot be recorded as an operation: {statement}{line}"
        );
    }

    fn copy(&mut self, line: &str) {
        let _ = writeln!(self.output, "{line}");
    }
}

/// The modes of volatile memory in the compiler's notation, each with the text that follows.
fn volatile_modes(notation: &str) -> impl Iterator<Item = &str> {
    notation.split("(mem/").skip(1).filter_map(|rest| {
        let (flags, mode) = rest.split_once(':').unwrap_or((rest, ""));
        flags.split('/').any(|flag| flag == "v").then_some(mode)
    })
}

/// Whether the notation contains volatile memory that is accessed at once.
fn has_volatile_memory(notation: &str) -> bool {
    volatile_modes(notation).any(|mode| !mode.starts_with("BLK"))
}

/// Whether the notation contains a block of volatile memory. Barriers are blocks, too, but at no
/// address.
fn has_volatile_block(notation: &str) -> bool {
    volatile_modes(notation)
        .any(|mode| mode.strip_prefix("BLK").is_some_and(|rest| !rest.contains("(scratch")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_atomics_is_told_from_others() {
        let yes = ["(set (reg:SI 0 ax) (mem/v:SI (reg:DI 5 di)))", "(mem/j/v/c:QI (symbol_ref"];
        let no = ["(reg/v:SI 0 ax)", "(mem/f/c:DI x)", "(mem/v:BLK (scratch:DI) [0  A8])", "mem"];
        assert!(yes.iter().all(|text| has_volatile_memory(text)));
        assert!(!no.iter().any(|text| has_volatile_memory(text)));
        assert!(has_volatile_block("(mem/v/c:BLK (reg/f:DI 5 di [95]) [4 c+0 S1024 A256])"));
        assert!(!yes.iter().chain(&no).any(|text| has_volatile_block(text)));
    }

    #[test]
    fn what_synchronises_is_listed() {
        let text = "\t.section\t.text.f,\"ax\",@progbits\nf:\n\
                    #(insn 7 6 8 2 (set (reg:SI 0 ax)\n\
                    #        (mem/v:SI (reg:DI 5 di) [-1  S4 A32])) \"a.c\":5:33 81\n\
                    \tmovl\t(%rdi), %eax\t# 7\n\
                    #(insn 8 7 9 2 (set (reg:SI 1 dx) (mem:SI (reg:DI 5 di)))\n\
                    \tmovl\t(%rdi), %edx\n";
        let listed = Filter::default().file(text);
        assert_eq!(listed.matches(".pushsection").count(), 1, "{listed}");
        assert!(listed.contains("@progbits,.text.f"), "{listed}");
        let place = |part: &str| listed.find(part).unwrap();
        assert!(place("operation_0:") < place("movl\t(%rdi), %eax"));
        assert!(place("_0_end:") < place("movl\t(%rdi), %edx"));
    }

    #[test]
    fn functions_are_listed_by_labels_of_our_own() {
        let text = "\t.text\nf:\n#(insn 7 6 8 2 (set (reg:SI 0 ax)\n\tnop\n#APP\n1:\n1:\n#NO_APP\n\
                    \t.size\tf, .-f\n";
        let listed = Filter::default().file(text);
        assert!(listed.contains("f:\n.Lretake_function_0:\n"), "{listed}");
        assert!(listed.contains(".long .Lretake_function_0 - ."), "{listed}");
        assert_eq!(listed.matches(".Lretake_function").count(), 2, "{listed}");
    }

    #[test]
    fn inline_assembly_is_listed_instruction_by_instruction() {
        let text =
            "#APP\n# 7 \"a.c\" 1\n\tmovl $1, x(%rip); jne 1f\n1:\n# 0 \"\" 2\n#NO_APP\n\tret\n";
        let listed = Filter::default().file(text);
        assert_eq!(listed.matches(".pushsection").count(), 1, "{listed}");
        assert!(!listed.contains(".nops"), "its bytes may be counted");
    }
}
