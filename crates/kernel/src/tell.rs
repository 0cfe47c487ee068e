//! Messages to the user.

/// Prints a line to standard error, as `eprintln!` does. Nothing happens if it cannot be written:
/// a closed pipe or a full disk behind standard error must not end a recording.
#[macro_export]
macro_rules! tell {
    ($($argument:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($argument)*);
    }};
}
