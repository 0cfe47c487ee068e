//! Asks the C compiler whether a source is correct, and which macros headers define.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Output, Stdio};

/// The compiler's complaints about a C source; empty if it accepts the source.
///
/// # Panics
/// There is no compiler.
pub fn complaints(source: &str) -> String {
    let output = compile(&["-fsyntax-only", "-w"], source);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { String::new() } else { text }
}

/// The names of all macros that are defined at the end of a C source.
///
/// # Panics
/// The compiler does not accept the source.
pub fn defined(source: &str) -> BTreeSet<String> {
    let output = compile(&["-dM", "-E"], source);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let names =
        text.lines().filter_map(|line| line.strip_prefix("#define ")?.split([' ', '(']).next());
    names.map(str::to_owned).collect()
}

/// Checks facts of the form `(name, number)`: if `headers` define the name, it must have that
/// number. Returns how many facts were checked.
///
/// # Panics
/// A name has another number.
pub fn check_numbers<'a>(headers: &str, facts: impl IntoIterator<Item = (&'a str, u32)>) -> usize {
    let defined = defined(headers);
    let known: Vec<_> = facts.into_iter().filter(|(name, _)| defined.contains(*name)).collect();
    let assertion = |(name, number): &(&str, u32)| {
        format!("_Static_assert((unsigned int)({name}) == {number:#x}u, \"{name}\");\n")
    };
    let assertions: String = known.iter().map(assertion).collect();
    let said = complaints(&format!("{headers}{assertions}"));
    assert!(said.is_empty(), "{said}");
    known.len()
}

fn compile(options: &[&str], source: &str) -> Output {
    let mut compiler = Command::new(compiler());
    compiler.args(options).args(["-x", "c", "-"]);
    compiler.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = compiler.spawn().unwrap_or_else(|error| panic!("{compiler:?}: {error}"));
    let mut stdin = child.stdin.take().expect("it is piped");
    let text = source.to_owned();
    // A thread writes the source while this one reads the output, since either pipe may be full.
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let output = child.wait_with_output().expect("the compiler ends");
    writer.join().expect("no panic").expect("the compiler reads its source");
    output
}

/// The compiler that builds the runtime: `CC`, or gcc.
pub fn compiler() -> String {
    std::env::var("CC").unwrap_or_else(|_| "gcc".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_compared_where_their_names_are_known() {
        let headers = "#define ONE 1\n#define TWICE(x) (2 * (x))\n";
        assert_eq!(check_numbers(headers, [("ONE", 1), ("TWO", 3)]), 1);
        assert!(defined(headers).contains("TWICE"));
    }

    #[test]
    #[should_panic(expected = "ONE")]
    fn a_wrong_number_is_told() {
        check_numbers("#define ONE 1\n", [("ONE", 2)]);
    }
}
