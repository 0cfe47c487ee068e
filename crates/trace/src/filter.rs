//! Selects observations, with the expressions of strace.

use crate::observation::Observation;
use crate::tracker::Tracker;
use retake_model::table::{self, CALLS, CallRow, Classes};
use retake_model::{errno, signal};
use retake_trace_format::{DescriptorKind, TraceRecord, TracedCall};
use std::collections::HashSet;

/// The classes of strace that are lists of names, not kinds of arguments.
const NAMED_SETS: &[(&str, &[&str])] = &[
    ("stat", &["stat"]),
    ("lstat", &["lstat"]),
    ("fstat", &["fstat", "newfstatat"]),
    ("%stat", &["stat", "lstat", "fstat", "newfstatat", "statx"]),
    ("statfs", &["statfs"]),
    ("fstatfs", &["fstatfs"]),
    ("%statfs", &["statfs", "fstatfs", "ustat"]),
    (
        "pure",
        &[
            "getpid", "getppid", "gettid", "getuid", "geteuid", "getgid", "getegid", "getpgrp",
            "umask",
        ],
    ),
];

/// A set of system calls.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CallSet(HashSet<u16>);

impl CallSet {
    fn all() -> Self {
        Self(CALLS.iter().map(|call| call.number).collect())
    }

    /// Parses `openat,%network`, `!futex`, `all` or `none`. A name after `?` may be unknown.
    fn parse(text: &str) -> Result<Self, String> {
        let (inverted, list) = inversion(text);
        let mut chosen = HashSet::new();
        for name in list.split(',').filter(|name| !name.is_empty()) {
            match name {
                "all" => chosen.extend(Self::all().0),
                "none" => {}
                name => chosen.extend(calls_named(name)?),
            }
        }
        if inverted {
            return Ok(Self(Self::all().0.difference(&chosen).copied().collect()));
        }
        Ok(Self(chosen))
    }
}

/// Returns whether a list is inverted, and the list.
fn inversion(text: &str) -> (bool, &str) {
    text.strip_prefix('!').map_or((false, text), |list| (true, list))
}

/// Returns advice for an expression that strace has and this filter lacks.
fn refusal(qualifier: &str) -> Option<&'static str> {
    Some(match qualifier {
        "inject" | "fault" => {
            "retake trace does not tamper with calls; retake record --chaos disturbs a program in \
            other ways"
        }
        "read" | "reads" | "r" | "write" | "writes" | "w" => {
            "retake trace does not dump data; -s shows more of them, and -o FILE.ds keeps all of \
            them for retake ds txt"
        }
        "raw" | "x" => {
            "arguments are always shown by their meaning; retake ds txt shows the numbers"
        }
        "kvm" => "retake trace does not show exits of virtual processors",
        _ => return None,
    })
}

fn calls_named(name: &str) -> Result<Vec<u16>, String> {
    if name.starts_with('/') {
        return Err("regular expressions are not understood: name the calls, or a class".to_owned());
    }
    if let Some(class) = name.strip_prefix('%') {
        return class_members(class)
            .ok_or_else(|| format!("there is no class %{class}: try one of {}", class_names()));
    }
    let (optional, name) = name.strip_prefix('?').map_or((false, name), |name| (true, name));
    match table::call_by_name(name) {
        Some(row) => Ok(vec![row.number]),
        None if optional => Ok(Vec::new()),
        None => class_members(name).ok_or_else(|| format!("there is no system call {name}")),
    }
}

fn class_members(class: &str) -> Option<Vec<u16>> {
    let with_sign = format!("%{class}");
    let set = NAMED_SETS
        .iter()
        .find(|(name, _)| *name == with_sign)
        .or_else(|| NAMED_SETS.iter().find(|(name, _)| *name == class));
    if let Some((_, names)) = set {
        return Some(
            names
                .iter()
                .filter_map(|name| table::call_by_name(name))
                .map(|row| row.number)
                .collect(),
        );
    }
    let class = match class {
        "net" => "network",
        "descriptor" => "desc",
        other => other,
    };
    let class = Classes::by_name(class)?;
    let is_member = |call: &&CallRow| {
        call.row.classes.intersects(class)
            || call.sub_rows.iter().any(|sub| sub.row.classes.intersects(class))
    };
    Some(CALLS.iter().filter(is_member).map(|call| call.number).collect())
}

fn class_names() -> String {
    let names: Vec<String> = Classes::ALL.iter().map(|(_, name)| format!("%{name}")).collect();
    names.join(", ")
}

/// The result of a call, for selection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Status {
    Successful,
    Failed,
    /// The call never returned.
    Unfinished,
    /// strace's words for calls whose result it could not find out, or that it left. Our traces
    /// have no such calls.
    Never,
}

/// The results by strace's names for them.
const STATUSES: &[(&str, Status)] = &[
    ("successful", Status::Successful),
    ("failed", Status::Failed),
    ("unfinished", Status::Unfinished),
    ("unavailable", Status::Never),
    ("detached", Status::Never),
];

/// Parses `successful,unfinished`, `!failed`, `all` or `none`.
fn statuses(text: &str) -> Result<HashSet<Status>, String> {
    let (inverted, list) = inversion(text);
    let mut chosen: HashSet<Status> = HashSet::new();
    for name in list.split(',') {
        match name {
            "all" => chosen.extend(STATUSES.iter().map(|(_, status)| *status)),
            "none" => {}
            name => {
                let known =
                    || STATUSES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
                let found = STATUSES.iter().find(|(other, _)| *other == name);
                chosen.insert(
                    found.ok_or_else(|| format!("there is no status {name}: all, {}", known()))?.1,
                );
            }
        }
    }
    Ok(if inverted {
        STATUSES
            .iter()
            .map(|(_, status)| *status)
            .filter(|status| !chosen.contains(status))
            .collect()
    } else {
        chosen
    })
}

/// The kinds of descriptors by their names in expressions.
const DESCRIPTOR_KINDS: &[(&str, &[DescriptorKind])] = &[
    ("file", &[DescriptorKind::File, DescriptorKind::SymbolicLink]),
    ("directory", &[DescriptorKind::Directory]),
    ("device", &[DescriptorKind::CharacterDevice, DescriptorKind::BlockDevice]),
    ("pipe", &[DescriptorKind::Pipe]),
    ("socket", &[DescriptorKind::Socket]),
    ("anonymous", &[DescriptorKind::Anonymous]),
];

/// A selection of observations.
#[derive(Debug, Clone)]
pub struct Filter {
    calls: CallSet,
    signals: HashSet<u16>,
    /// `None` selects all.
    statuses: Option<HashSet<Status>>,
    errors: Option<HashSet<u16>>,
    /// The kinds of descriptors that a call takes or makes. Empty selects all.
    descriptors: HashSet<DescriptorKind>,
    paths: Vec<Vec<u8>>,
    processes: HashSet<u32>,
}

impl Default for Filter {
    fn default() -> Self {
        let signals = (1..=64).collect();
        let (descriptors, processes) = Default::default();
        Self {
            calls: CallSet::all(),
            signals,
            statuses: None,
            errors: None,
            descriptors,
            paths: Vec::new(),
            processes,
        }
    }
}

impl Filter {
    /// Adds an expression in the form of strace's `-e`: `trace=SET`, `signal=SET`, `status=KIND`,
    /// `error=NAMES`, `descriptor=KINDS`, or a SET of calls alone.
    ///
    /// # Errors
    /// The part of the expression that is not valid, as text.
    pub fn expression(&mut self, text: &str) -> Result<(), String> {
        let (qualifier, value) = text.split_once('=').unwrap_or(("trace", text));
        match qualifier {
            "trace" | "t" => self.calls = CallSet::parse(value)?,
            "signal" | "signals" | "s" => self.signals = signals(value)?,
            "status" => self.statuses = Some(statuses(value)?).filter(|_| value != "all"),
            "error" => {
                let number = |name: &str| {
                    errno::by_name(name).ok_or_else(|| format!("there is no error {name}"))
                };
                self.errors = Some(value.split(',').map(number).collect::<Result<_, _>>()?);
            }
            "descriptor" => self.descriptors = descriptor_kinds(value)?,
            other => {
                return Err(refusal(other).map_or_else(
                    || {
                        format!(
                            "there is no expression {other}=: trace, signal, \
                    status, error, descriptor"
                        )
                    },
                    str::to_owned,
                ));
            }
        }
        Ok(())
    }

    /// Selects calls that name this path, or get a descriptor of it.
    pub fn path(&mut self, path: &[u8]) {
        self.paths.push(path.to_vec());
    }

    /// Selects this process.
    pub fn process(&mut self, process: u32) {
        self.processes.insert(process);
    }

    /// Returns whether the filter selects everything but perhaps signals.
    pub fn is_open(&self) -> bool {
        let of_calls =
            self.calls == CallSet::all() && self.statuses.is_none() && self.errors.is_none();
        of_calls
            && self.descriptors.is_empty()
            && self.paths.is_empty()
            && self.processes.is_empty()
    }

    /// Returns whether the observation is selected. The tracker must not have followed it yet, so
    /// that a descriptor that it closes is still open.
    pub fn wants(&self, observation: &Observation, tracker: &Tracker) -> bool {
        if !self.processes.is_empty() && !self.processes.contains(&observation.process()) {
            return false;
        }
        match observation {
            Observation::Record(TraceRecord::Call(call)) => self.wants_call(call, tracker),
            Observation::Signal { number, .. } => self.signals.contains(number),
            _ => true,
        }
    }

    fn wants_call(&self, call: &TracedCall, tracker: &Tracker) -> bool {
        if !u16::try_from(call.number).is_ok_and(|number| {
            self.calls.0.contains(&number) || usize::from(number) >= CALLS.len()
        }) {
            return false;
        }
        let unfinished = call.returned_ns == 0;
        let status = match (unfinished, call.failed()) {
            (true, _) => Status::Unfinished,
            (false, true) => Status::Failed,
            (false, false) => Status::Successful,
        };
        let status = self.statuses.as_ref().is_none_or(|statuses| statuses.contains(&status));
        let error = self.errors.as_ref().is_none_or(|errors| {
            call.errno().is_some_and(|errno| errors.contains(&(errno as u16)))
        });
        let kind = self.descriptors.is_empty()
            || tracker.descriptor_kinds_of(call).iter().any(|kind| self.descriptors.contains(kind));
        status
            && error
            && kind
            && (self.paths.is_empty()
                || tracker.paths_of(call).iter().any(|path| self.paths.contains(path)))
    }
}

fn descriptor_kinds(text: &str) -> Result<HashSet<DescriptorKind>, String> {
    let (inverted, list) = inversion(text);
    if let Some(unknown) =
        list.split(',').find(|name| DESCRIPTOR_KINDS.iter().all(|(known, _)| known != name))
    {
        let known: Vec<&str> = DESCRIPTOR_KINDS.iter().map(|(name, _)| *name).collect();
        return Err(format!("there is no kind of descriptor {unknown}: {}", known.join(", ")));
    }
    let chosen = DESCRIPTOR_KINDS
        .iter()
        .filter(|(name, _)| list.split(',').any(|wanted| wanted == *name) != inverted);
    Ok(chosen.flat_map(|(_, kinds)| kinds.iter().copied()).collect())
}

fn signals(text: &str) -> Result<HashSet<u16>, String> {
    let (inverted, list) = inversion(text);
    let mut chosen: HashSet<u16> = HashSet::new();
    for name in list.split(',') {
        match name {
            "all" => chosen.extend(1..=64),
            "none" => {}
            name => {
                let full = if name.starts_with("SIG") {
                    name.to_owned()
                } else {
                    format!("SIG{}", name.to_ascii_uppercase())
                };
                chosen.insert(
                    signal::by_name(&full).ok_or_else(|| format!("there is no signal {name}"))?,
                );
            }
        }
    }
    Ok(if inverted { (1..=64).filter(|number| !chosen.contains(number)).collect() } else { chosen })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state;
    use retake_trace_format::{ProcessStart, StartDescriptor, StartKind};

    fn call(name: &str, result: i64) -> Observation {
        let number = u32::from(table::call_by_name(name).unwrap().number);
        Observation::Record(TraceRecord::Call(TracedCall {
            number,
            result,
            returned_ns: 1,
            ..TracedCall::default()
        }))
    }

    fn wanted(expressions: &[&str], name: &str, result: i64) -> bool {
        let mut filter = Filter::default();
        expressions.iter().for_each(|expression| filter.expression(expression).unwrap());
        filter.wants(&call(name, result), &Tracker::default())
    }

    #[test]
    fn expressions_choose_calls() {
        let cases: [(&[&str], &str, i64, bool); 17] = [
            (&[], "read", 0, true),
            (&["trace=read,write"], "read", 0, true),
            (&["read,write"], "openat", 0, false),
            (&["trace=!read"], "read", 0, false),
            (&["trace=!read"], "write", 0, true),
            (&["%file"], "openat", 3, true),
            (&["%file"], "read", 0, false),
            (&["trace=%net"], "connect", 0, true),
            (&["trace=process"], "execve", 0, true),
            (&["status=failed"], "openat", 3, false),
            (&["status=successful,unfinished"], "openat", 3, true),
            (&["status=!successful"], "openat", 3, false),
            (&["status=!unfinished,detached"], "openat", -2, true),
            (&["status=all"], "openat", -2, true),
            (&["status=none"], "openat", -2, false),
            (&["status=failed", "error=ENOENT"], "openat", -2, true),
            (&["?no_such_call,close"], "close", 0, true),
        ];
        for (expressions, name, result, expected) in cases {
            assert_eq!(
                wanted(expressions, name, result),
                expected,
                "{expressions:?} {name} {result}"
            );
        }
    }

    #[test]
    fn kinds_of_descriptors_choose_calls() {
        let mut tracker = Tracker::default();
        let descriptor = |number, path: &str, kind| StartDescriptor {
            number,
            path: path.into(),
            kind,
            offset: 0,
            flags: 0,
        };
        let descriptors = vec![
            descriptor(0, "/dev/pts/0", DescriptorKind::CharacterDevice),
            descriptor(1, "pipe:[1]", DescriptorKind::Pipe),
            descriptor(3, "/etc/passwd", DescriptorKind::Unknown),
            descriptor(4, "/dev/null", DescriptorKind::Unknown),
        ];
        let start = ProcessStart {
            process: 1,
            descriptors,
            ..state::of_process(std::process::id().cast_signed(), StartKind::Exec).unwrap()
        };
        tracker.follow(&mut Observation::Record(TraceRecord::ProcessStart(Box::new(start))));
        let wanted = |kinds: &str, name: &str, descriptor: u64| {
            let mut filter = Filter::default();
            filter.expression(&format!("descriptor={kinds}")).unwrap();
            let Observation::Record(TraceRecord::Call(mut call)) = call(name, 5) else {
                unreachable!()
            };
            (call.process, call.arguments[0]) = (1, descriptor);
            filter.wants(&Observation::Record(TraceRecord::Call(call)), &tracker)
        };
        let cases = [
            ("pipe", "write", 1, true),
            ("file,socket", "write", 1, false),
            ("!pipe", "write", 1, false),
            ("!file", "write", 1, true),
            ("device", "read", 0, true),
            ("device", "read", 4, true),
            ("file", "read", 3, true),
            ("socket", "socket", 0, true),
            ("pipe", "socket", 1, false),
            ("file", "getpid", 3, false),
            ("!file", "read", 9, false),
        ];
        for (kinds, name, descriptor, expected) in cases {
            assert_eq!(wanted(kinds, name, descriptor), expected, "{kinds} {name} {descriptor}");
        }
    }

    #[test]
    fn what_is_not_understood_is_said() {
        let mut filter = Filter::default();
        for bad in [
            "trace=reed",
            "%nothing",
            "status=odd",
            "colour=red",
            "signal=SIGNOTHING",
            "error=ENOTHING",
            "descriptor=pipes",
            "inject=open",
            "trace=/open.*",
        ] {
            assert!(filter.expression(bad).is_err(), "{bad}");
        }
    }
}
