//! The outputs of a trace: lines, a summary, a file.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use retake_trace::many_files::ManyFiles;
use retake_trace::summary::{Column, Order, Summary};
use retake_trace::text::{Printer, Style};
use retake_trace::{Filter, Observation, Tracker, numbered};
use retake_trace_format::{TraceRecord, TraceWriter, TraceWriterOptions};

use crate::failure::{Failure, Result};
use crate::text::utc_offset_s;

/// The output for lines.
pub type Destination = Box<dyn Write + Send>;

/// The file that the user named, or a standard stream.
pub fn text_destination(file: Option<File>, to_stdout: bool) -> Destination {
    match file {
        Some(file) => Box::new(BufWriter::new(file)),
        None if to_stdout => Box::new(BufWriter::new(io::stdout())),
        // Each line is one write, because the program may write to standard error, too.
        None => Box::new(io::LineWriter::new(io::stderr())),
    }
}

/// Selects the wanted observations, and shows or keeps them.
pub struct TraceOutput {
    filter: Filter,
    data_limit: Option<u64>,
    tracker: Tracker,
    next_id: u64,
    summary: Option<(Summary, Order, Vec<Column>)>,
    text: Option<Destination>,
    /// A file for each thread, instead of `text`.
    texts: Option<Texts>,
    printer: Option<Printer>,
    trace: Option<TraceWriter<File>>,
}

impl TraceOutput {
    /// An output without a destination.
    pub fn new(filter: Filter, data_limit: Option<u64>) -> Self {
        Self {
            filter,
            data_limit,
            tracker: Tracker::default(),
            next_id: 1,
            summary: None,
            text: None,
            texts: None,
            printer: None,
            trace: None,
        }
    }

    /// Adds lines in a style. Without a style, only the summary is written.
    pub fn with_text(self, text: Destination, style: Option<Style>) -> Self {
        Self { text: Some(text), printer: style.map(printer), ..self }
    }

    /// Adds lines in a style, in a file for each thread: `path` with the thread's number appended.
    pub fn with_texts(self, path: &Path, append: bool, style: Style) -> Self {
        Self {
            texts: Some(Texts {
                path: path.to_path_buf(),
                append,
                paths: HashMap::new(),
                files: ManyFiles::default(),
            }),
            printer: Some(printer(style)),
            ..self
        }
    }

    /// Adds a summary at the end.
    pub fn with_summary(self, order: Order, columns: Vec<Column>) -> Self {
        Self { summary: Some((Summary::default(), order, columns)), ..self }
    }

    /// Adds a trace file.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn with_trace(self, path: &Path) -> Result<Self> {
        let file = File::create(path)
            .map_err(|error| Failure::system("create", path.display(), &error))?;
        let trace = TraceWriter::new(file, TraceWriterOptions::default())
            .map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))?;
        Ok(Self { trace: Some(trace), ..self })
    }

    /// Processes an observation.
    ///
    /// # Errors
    /// An output cannot be written.
    pub fn observe(&mut self, mut observation: Observation) -> Result<()> {
        let wanted = self.filter.wants(&observation, &self.tracker);
        if wanted {
            self.show(&observation)?;
        }
        self.tracker.follow(&mut observation);
        match observation {
            Observation::Record(record) if wanted => self.keep(record),
            _ => Ok(()),
        }
    }

    fn show(&mut self, observation: &Observation) -> Result<()> {
        if let (Some((summary, _, _)), Observation::Record(TraceRecord::Call(call))) =
            (&mut self.summary, observation)
        {
            summary.add(call);
        }
        let line =
            self.printer.as_mut().and_then(|printer| printer.line(observation, &self.tracker));
        let Some(line) = line else { return Ok(()) };
        if let Some(texts) = &mut self.texts {
            return texts.write(observation, &line);
        }
        self.text.as_mut().map_or(Ok(()), |text| {
            writeln!(text, "{line}").map_err(|error| Failure::output(&error))
        })
    }

    fn keep(&mut self, mut record: TraceRecord) -> Result<()> {
        let Some(trace) = &mut self.trace else { return Ok(()) };
        numbered(&mut record, &mut self.next_id);
        if let (TraceRecord::Call(call), Some(limit)) = (&mut record, self.data_limit) {
            retake_trace::limit_data(call, limit);
        }
        trace
            .write(&record)
            .map_err(|error| Failure::new(format!("cannot write the trace: {error}")))
    }

    /// Writes the summary and completes the files.
    ///
    /// # Errors
    /// An output cannot be written.
    pub fn finish(mut self) -> Result<()> {
        if let Some(trace) = self.trace.take() {
            trace
                .finish()
                .map_err(|error| Failure::new(format!("cannot complete the trace: {error}")))?;
        }
        if let Some(texts) = &mut self.texts {
            return texts.close();
        }
        let Some(mut text) = self.text.take() else { return Ok(()) };
        if let Some((summary, order, columns)) = &self.summary {
            text.write_all(summary.table(*order, columns).as_bytes())
                .map_err(|error| Failure::output(&error))?;
        }
        text.flush().map_err(|error| Failure::output(&error))
    }
}

fn printer(style: Style) -> Printer {
    Printer::new(style, utc_offset_s())
}

/// The files for the lines of each thread.
struct Texts {
    path: PathBuf,
    /// Whether existing content of a file is kept.
    append: bool,
    /// The files of the threads seen so far.
    paths: HashMap<u32, PathBuf>,
    files: ManyFiles<u32>,
}

impl Texts {
    fn write(&mut self, observation: &Observation, line: &str) -> Result<()> {
        let thread = observation.thread();
        let path = match self.paths.entry(thread) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let mut name = self.path.clone().into_os_string();
                name.push(format!(".{thread}"));
                let path = entry.insert(name.into());
                if !self.append {
                    File::create(&*path)
                        .map_err(|error| Failure::system("write", path.display(), &error))?;
                }
                path
            }
        };
        let written = self.files.append(thread, path, &[line.as_bytes(), b"\n"]);
        written.map_err(|error| Failure::system("write", path.display(), &error))
    }

    fn close(&mut self) -> Result<()> {
        self.files.close().map_err(|error| Failure::output(&error))
    }
}

/// An output that another thread feeds while the program runs. After an error, it ignores further
/// observations.
pub struct Shown(Arc<Mutex<(TraceOutput, Option<Failure>)>>);

impl Shown {
    /// Shares an output.
    pub fn new(output: TraceOutput) -> Self {
        Self(Arc::new(Mutex::new((output, None))))
    }

    /// The function that feeds the output.
    pub fn observer(&self) -> Box<dyn FnMut(Observation) + Send> {
        let shared = Arc::clone(&self.0);
        Box::new(move |observation| {
            let mut guard = shared.lock().unwrap_or_else(PoisonError::into_inner);
            let (output, failure) = &mut *guard;
            if failure.is_none() {
                *failure = output.observe(observation).err();
            }
        })
    }

    /// Writes the summary and completes the files.
    ///
    /// # Errors
    /// The first error.
    pub fn finish(self) -> Result<()> {
        let mut guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(failure) = guard.1.take() {
            return Err(failure);
        }
        let output = std::mem::replace(&mut guard.0, TraceOutput::new(Filter::default(), None));
        output.finish()
    }
}
