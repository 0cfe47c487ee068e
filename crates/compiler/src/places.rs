//! Follows the section directives of assembly.

/// The sections that directives have chosen.
#[derive(Debug)]
pub(crate) struct Places {
    current: String,
    previous: String,
    pushed: Vec<(String, String)>,
}

impl Default for Places {
    fn default() -> Self {
        Self { current: TEXT.to_owned(), previous: TEXT.to_owned(), pushed: Vec::new() }
    }
}

const TEXT: &str = ".text";

impl Places {
    /// The current section's name.
    pub fn current(&self) -> &str {
        &self.current
    }

    /// Follows a directive.
    pub fn see(&mut self, directive: &str) {
        let (word, rest) = directive.split_once([' ', '\t']).unwrap_or((directive, ""));
        match word {
            ".text" | ".data" | ".bss" => self.go_to(word),
            ".section" => self.go_to(name(rest)),
            ".previous" => std::mem::swap(&mut self.current, &mut self.previous),
            ".pushsection" => {
                self.pushed.push((self.current.clone(), self.previous.clone()));
                self.go_to(name(rest));
            }
            ".popsection" => {
                if let Some((current, previous)) = self.pushed.pop() {
                    (self.current, self.previous) = (current, previous);
                }
            }
            _ => {}
        }
    }

    fn go_to(&mut self, section: &str) {
        self.previous = std::mem::replace(&mut self.current, section.to_owned());
    }
}

/// The name at the beginning of a directive's operands.
fn name(operands: &str) -> &str {
    operands.trim_start().split(',').next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_followed() {
        let mut places = Places::default();
        let mut after = |directive: &str| {
            places.see(directive);
            places.current().to_owned()
        };
        assert_eq!(after(".section\t.text._Z1fv,\"axG\",@progbits,_Z1fv,comdat"), ".text._Z1fv");
        assert_eq!(after(".pushsection .rodata"), ".rodata");
        assert_eq!(after(".popsection"), ".text._Z1fv");
        assert_eq!(after(".previous"), ".text");
        assert_eq!(after(".popsection"), ".text", "nothing was pushed");
    }
}
