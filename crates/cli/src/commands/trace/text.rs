//! Where traced calls go, and how their lines look.

use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use retake_model::text::{Hexadecimal, TextOptions};
use retake_trace::Filter;
use retake_trace::text::{Clock, Execution, Prefix, Style};

use super::options::Options;
use crate::failure::{Failure, Result};
use crate::find_program;
use crate::trace_output::{TraceOutput, text_destination};

impl Options {
    pub(super) fn make_output(&self, filter: Filter, to_stdout: bool) -> Result<TraceOutput> {
        let output = TraceOutput::new(filter, self.data_limit.or(self.no_data.then_some(0)));
        if let Some(path) = self.trace_file() {
            return output.with_trace(path);
        }
        let summary = self.summary.wanted();
        if let Some(path) = self.output.as_ref().filter(|_| self.is_separate()) {
            return match summary {
                None => Ok(output.with_texts(path, self.output_append_mode, self.style())),
                Some(_) => Err(Failure::new("-c makes one summary of all threads")
                    .attempt("-f in place of -ff, or no -c")),
            };
        }
        let file = self.output.as_deref().map(|path| self.open_text(path)).transpose()?;
        let output = summary
            .into_iter()
            .fold(output, |output, (order, columns)| output.with_summary(order, columns));
        let style = (!self.summary.summary_only).then(|| self.style());
        Ok(output.with_text(text_destination(file, to_stdout), style))
    }

    fn open_text(&self, path: &Path) -> Result<File> {
        let append = self.output_append_mode;
        let opened =
            File::options().create(true).write(true).append(append).truncate(!append).open(path);
        opened.map_err(|error| Failure::system("create", path.display(), &error))
    }

    fn style(&self) -> Style {
        let clock = match (self.relative_timestamps, self.time) {
            (true, _) => Clock::Relative,
            (_, 0) => Clock::None,
            (_, 1) => Clock::Seconds,
            (_, 2) => Clock::Microseconds,
            (_, _) => Clock::Unix,
        };
        let hexadecimal = match self.hexadecimal {
            0 => Hexadecimal::Never,
            1 => Hexadecimal::Binary,
            _ => Hexadecimal::Always,
        };
        let unabbreviated = self.no_abbrev || self.says("abbrev=none");
        // Lists are cut at as many elements as strings at bytes, as in strace.
        let element_count = if unabbreviated { usize::MAX } else { self.string_limit };
        let text = TextOptions {
            string_bytes: self.string_limit,
            element_count,
            hexadecimal,
            unabbreviated,
            environment: unabbreviated,
            ..TextOptions::default()
        };
        Style {
            clock,
            durations: self.syscall_times,
            paths: self.decode_fds > 0
                || self.says("decode-fds=all")
                || self.says("decode-fds=path"),
            numbers: self.syscall_number,
            quiet: self.quiet > 0 || self.says("quiet=exit") || self.says("quiet=all"),
            prefix: self.prefix(),
            result_column: self.columns,
            execution: (!self.command.is_empty()).then(|| self.execution()),
            text,
        }
    }

    fn is_separate(&self) -> bool {
        self.output_separately || (self.follow_forks > 1 && self.output.is_some())
    }

    fn prefix(&self) -> Prefix {
        match &self.output {
            _ if self.is_separate() => Prefix::Never,
            None => Prefix::Brackets,
            Some(_) if self.follow_forks > 0 => Prefix::Always,
            Some(_) => Prefix::Number,
        }
    }

    /// The line for the start of the program.
    fn execution(&self) -> Execution {
        // A name with a slash is shown as it is. Other names are searched in PATH.
        let found = find_program::find(&self.command, std::env::var_os("PATH").as_deref())
            .map(|found| found.program.into_os_string().into_vec());
        let program = match self.command.first() {
            Some(name) if name.as_bytes().contains(&b'/') => name.as_bytes().to_vec(),
            _ => found.unwrap_or_default(),
        };
        let strings = self
            .environment()
            .into_iter()
            .map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat());
        Execution {
            program,
            arguments: self.command.iter().map(|argument| argument.as_bytes().to_vec()).collect(),
            environment: strings.collect(),
        }
    }
}
