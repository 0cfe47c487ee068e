//! The gate of `--gate`. Only measured rows pass it. A row that failed, was too noisy, or was
//! skipped without permission closes the gate, just as one that exceeds its limit does.

use super::Result;

/// How often a noisy row is measured under a gate.
pub const MOST_MEASUREMENTS: usize = 3;

/// The result of one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    Good,
    /// These figures exceed their limits.
    Over(String),
    Failed(String),
    /// The figures vary too much.
    Noisy,
    /// A requirement is missing.
    Skipped(String),
}

/// The name of a row, and its result.
pub type Row = (String, Finding);

/// Returns why the gate stays closed, one reason per line. Empty if it opens. The rows in
/// `may_skip` may be skipped, but at least one row must be measured.
pub fn complaints(rows: &[Row], may_skip: &[String]) -> Vec<String> {
    let may_skip = |name: &String| may_skip.contains(name);
    let mut complaints: Vec<String> = rows
        .iter()
        .filter_map(|(name, finding)| match finding {
            Finding::Good => None,
            Finding::Skipped(_) if may_skip(name) => None,
            Finding::Over(what) => Some(format!("{name}: over its limit: {what}")),
            Finding::Failed(reason) => Some(format!("{name}: failed: {reason}")),
            Finding::Noisy => {
                Some(format!("{name}: noisy, also when it was measured {MOST_MEASUREMENTS} times"))
            }
            Finding::Skipped(reason) => {
                Some(format!("{name}: skipped: {reason}; --may-skip {name} allows that"))
            }
        })
        .collect();
    if rows.iter().all(|(_, finding)| matches!(finding, Finding::Skipped(_))) {
        complaints.push("nothing was measured".to_owned());
    }
    complaints
}

/// Measures until the result is not noisy, at most `most` times. Returns the last result.
///
/// # Errors
/// Errors of a measurement.
pub fn until_quiet<T>(
    most: usize,
    is_noisy: impl Fn(&T) -> bool,
    mut measure: impl FnMut() -> Result<T>,
) -> Result<T> {
    let mut measured = measure()?;
    for _ in 1..most {
        if !is_noisy(&measured) {
            break;
        }
        println!("    noisy: it is measured again");
        measured = measure()?;
    }
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed(rows: &[(&str, Finding)], may_skip: &[&str]) -> Vec<String> {
        let rows: Vec<Row> =
            rows.iter().map(|(name, it)| ((*name).to_owned(), it.clone())).collect();
        let may_skip: Vec<String> = may_skip.iter().map(|&name| name.to_owned()).collect();
        complaints(&rows, &may_skip)
    }

    fn skipped() -> Finding {
        Finding::Skipped("no xz".to_owned())
    }

    #[test]
    fn what_is_good_passes() {
        assert!(closed(&[("a", Finding::Good), ("b", Finding::Good)], &[]).is_empty());
    }

    #[test]
    fn what_fails_or_exceeds_its_limit_does_not_pass() {
        let rows = [
            ("a", Finding::Good),
            ("b", Finding::Failed("it crashes".to_owned())),
            ("c", Finding::Over("record".to_owned())),
        ];
        let expected = ["b: failed: it crashes", "c: over its limit: record"];
        assert_eq!(closed(&rows, &["b", "c"]), expected, "only skips can be allowed");
    }

    #[test]
    fn noise_does_not_pass() {
        let complaints = closed(&[("a", Finding::Good), ("b", Finding::Noisy)], &["b"]);
        assert_eq!(complaints, ["b: noisy, also when it was measured 3 times"]);
    }

    #[test]
    fn only_skips_that_are_allowed_pass() {
        let rows = [("a", Finding::Good), ("b", skipped()), ("c", skipped())];
        let expected = "c: skipped: no xz; --may-skip c allows that";
        assert_eq!(closed(&rows, &["b"]), [expected]);
        assert!(closed(&rows, &["c", "b", "elsewhere"]).is_empty());
    }

    #[test]
    fn a_gate_that_saw_nothing_is_closed() {
        assert_eq!(closed(&[], &[]), ["nothing was measured"]);
        assert_eq!(closed(&[("a", skipped())], &["a"]), ["nothing was measured"]);
    }

    #[test]
    fn noise_is_measured_again_up_to_a_bound() {
        let measure = |quiet_at: usize, most: usize| {
            let mut times = 0;
            let last = until_quiet(
                most,
                |&time: &usize| time < quiet_at,
                || {
                    times += 1;
                    Ok(times)
                },
            );
            assert_eq!(last.unwrap(), times, "the last one counts");
            times
        };
        assert_eq!((measure(1, 3), measure(2, 3), measure(9, 3), measure(9, 1)), (1, 2, 3, 1));
        let failed = until_quiet(3, |(): &()| true, || Err("it fails".into()));
        assert!(failed.is_err());
    }
}
