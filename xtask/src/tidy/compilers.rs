//! Finds C compilers started by a fixed name, although `CC` may name another one.

/// The calls that start a program.
const STARTS: [&str; 2] = ["Command::new(", "command_of("];
const COMPILERS: [&str; 3] = ["\"gcc\"", "\"cc\"", "\"clang\""];

/// Returns the lines of Rust that start such a compiler, counted from 1.
pub fn fixed_compilers(text: &str) -> Vec<usize> {
    let is_fixed = |line: &str| {
        STARTS.iter().any(|start| {
            line.split(start).skip(1).any(|rest| {
                let first = rest.trim_start();
                COMPILERS.iter().any(|compiler| first.starts_with(compiler))
            })
        })
    };
    text.lines().enumerate().filter(|(_, line)| is_fixed(line)).map(|(at, _)| at + 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compiler_is_asked_for() {
        let fixed = "let a = 1;\nstd::process::Command::new(\"gcc\").arg(\"-c\");\n\
            place.command_of(\"cc\", &[]);\n";
        assert_eq!(fixed_compilers(fixed), [2, 3]);
        let asked = "Command::new(compiler());\nCommand::new(\"gccgo\");\nlet a = [\"gcc\"];\n";
        assert_eq!(fixed_compilers(asked), [0; 0]);
    }
}
