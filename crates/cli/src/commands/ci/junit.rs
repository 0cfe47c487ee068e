//! A report in JUnit's XML, with the elements of Maven's Surefire for repeated runs.

use std::fmt::Write;
use std::time::Duration;

use super::Run;

/// The report on all runs of a command, which are one test case.
pub fn report(name: &str, runs: &[Run]) -> String {
    let failures = runs.iter().filter(|run| run.has_failed()).count();
    let has_failed = failures == runs.len() && failures > 0;
    let total: Duration = runs.iter().map(|run| run.duration).sum();
    let (name, time) = (escaped(name), format!("{:.3}", total.as_secs_f64()));
    let failed = u32::from(has_failed);
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    // Writing to a string cannot fail.
    let _ = writeln!(
        xml,
        "<testsuites name=\"retake ci\" tests=\"1\" failures=\"{failed}\" errors=\"0\" \
        time=\"{time}\">\n  <testsuite name=\"retake ci\" tests=\"1\" failures=\"{failed}\" \
        errors=\"0\" skipped=\"0\" time=\"{time}\">\n    <testcase name=\"{name}\" \
        classname=\"retake\" time=\"{time}\">"
    );
    for (index, run) in runs.iter().filter(|run| run.has_failed()).enumerate() {
        let element = match (has_failed, index) {
            (true, 0) => "failure",
            (true, _) => "rerunFailure",
            (false, _) => "flakyFailure",
        };
        let (how, details) = match &run.failed {
            Some(failed) => (
                failed.how.as_str(),
                format!("{}\nopen it: {}\n", failed.backtrace, failed.command()),
            ),
            None => ("failed", String::new()),
        };
        let _ = writeln!(
            xml,
            "      <{element} message=\"{}\" type=\"failure\">{}</{element}>",
            escaped(how),
            escaped(&details)
        );
    }
    xml + "    </testcase>\n  </testsuite>\n</testsuites>\n"
}

/// Escaped text, for elements and attributes. Control characters are invalid in XML, and are
/// replaced.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\n' | '\t' => escaped.push(character),
            other if other.is_control() || matches!(other, '\u{fffe}' | '\u{ffff}') => {
                escaped.push('\u{fffd}');
            }
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    fn run(status: i32) -> Run {
        Run {
            status: ExitStatus::from_raw(status << 8),
            duration: Duration::from_millis(1500),
            failed: None,
        }
    }

    #[test]
    fn reports_say_what_failed() {
        let good = report("a \"b\" <c>", &[run(0)]);
        assert!(good.contains("name=\"a &quot;b&quot; &lt;c&gt;\"") && good.contains("1.500"));
        assert!(good.contains("failures=\"0\"") && !good.contains("<failure"), "{good}");
        let bad = report("a", &[run(1), run(1)]);
        assert!(bad.contains("<failure ") && bad.contains("<rerunFailure "), "{bad}");
        let flaky = report("a", &[run(1), run(0)]);
        assert!(flaky.contains("<flakyFailure ") && flaky.contains("failures=\"0\""), "{flaky}");
    }
}
