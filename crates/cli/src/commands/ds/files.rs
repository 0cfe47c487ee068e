//! The files that the tools read and write, and the messages when that fails.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use retake_dataseries::{Error, Warning};

use crate::failure::{Failure, Result};
use crate::text;

/// A file being read, or standard input.
pub type Source = Box<dyn Read>;

/// Opens a file; `-` is standard input.
pub fn open(path: &Path) -> Result<Source> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    Ok(Box::new(open_file(path)?))
}

/// Opens a file; standard input is not allowed.
pub fn open_file(path: &Path) -> Result<BufReader<File>> {
    let file = File::open(path).map_err(|error| Failure::system("read", path.display(), &error))?;
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return Err(Failure::new(format!("{} is a folder, not a DataSeries file", path.display())));
    }
    Ok(BufReader::with_capacity(1 << 18, file))
}

/// The failure to read a file, as a message for the user.
pub fn failure(path: &Path, error: Error) -> Failure {
    let name = text::harmless(&path.to_string_lossy());
    match error {
        Error::Io(error) if error.kind() == io::ErrorKind::BrokenPipe => Failure::output(&error),
        Error::Io(error) => Failure::new(format!("{name}: {error}")),
        Error::Expression { .. } => Failure::new(error.to_string())
            .attempt("retake ds info --unused --xml FILE, which shows all types and fields"),
        Error::UnknownType { name: wanted } => {
            let failure =
                Failure::new(format!("{name}: no type has {wanted:?} as its name or in its name"));
            failure.attempt("retake ds info --unused FILE, which lists all types")
        }
        Error::NotDataSeries { .. } | Error::Request(_) | Error::FieldType { .. } => {
            Failure::new(format!("{name}: {error}"))
        }
        Error::Limit { .. } => Failure::new(format!("{name}: {error}")),
        error => Failure::new(format!("{name}: {error}"))
            .likely("the file was cut off while it was written, or changed since")
            .attempt("retake ds recover FILE -o NEW, which saves the undamaged parts"),
    }
}

/// Warns about damage that cost no records.
pub fn warn(path: &Path, warnings: &[Warning]) {
    for warning in warnings {
        retake_kernel::tell!(
            "warning: {}: {}",
            text::harmless(&path.to_string_lossy()),
            warning.text()
        );
    }
}

/// A new file. It is removed unless `keep` is called.
#[derive(Debug)]
pub struct NewFile {
    path: PathBuf,
    is_kept: bool,
}

impl NewFile {
    /// Creates a file that must not exist.
    pub fn create(path: &Path) -> Result<(Self, BufWriter<File>)> {
        let file = OpenOptions::new().write(true).create_new(true).open(path);
        let file = file.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                Failure::new(format!("{} exists already", path.display()))
                    .attempt("another file for -o")
            }
            _ => Failure::system("make", path.display(), &error),
        })?;
        Ok((
            Self { path: path.to_owned(), is_kept: false },
            BufWriter::with_capacity(1 << 18, file),
        ))
    }

    /// Completes the file, which then stays. Returns its size.
    pub fn keep(mut self, writer: BufWriter<File>) -> Result<u64> {
        let written =
            writer.into_inner().map_err(io::IntoInnerError::into_error).and_then(|mut file| {
                file.flush()?;
                file.metadata()
            });
        let metadata =
            written.map_err(|error| Failure::system("write", self.path.display(), &error))?;
        self.is_kept = true;
        Ok(metadata.len())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_kept {
            // An earlier failure has been reported, and the user can see a file that is left
            // behind.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Runs a tool that prints to standard output.
pub fn print(
    path: &Path,
    tool: impl FnOnce(&mut BufWriter<io::StdoutLock<'static>>) -> retake_dataseries::Result<()>,
) -> Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    let done = tool(&mut out);
    // Output up to an error is printed.
    let flushed = out.flush();
    done.map_err(|error| failure(path, error))?;
    flushed.map_err(|error| Failure::output(&error))
}
