//! Reads `tables/*.tbl` with errors that name file and line.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::signature;
use crate::table::{
    Argument, Call, DescriptorEffect, Errno, Kind, Layout, Policy, RefusedRange, Row, SubRow, Table,
};

/// The error numbers with which a row may refuse.
const ERRNOS: [(&str, i16); 10] = [
    ("EPERM", 1),
    ("EINTR", 4),
    ("ENXIO", 6),
    ("EACCES", 13),
    ("ENODEV", 19),
    ("EINVAL", 22),
    ("ENOTTY", 25),
    ("ENOSPC", 28),
    ("ENOSYS", 38),
    ("EOPNOTSUPP", 95),
];

const CLASSES: [&str; 9] =
    ["clock", "creds", "desc", "file", "ipc", "memory", "network", "process", "signal"];
const RESOURCES: [&str; 7] =
    ["descriptors", "global", "inode", "ipc", "memory", "mount", "process"];

/// The largest call number, far above the newest call. It keeps a mistyped range from filling
/// memory.
const MAXIMUM_NUMBER: u32 = 1023;

/// A mistake in a table, and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableError {
    pub file: PathBuf,
    /// The line number, from 1. 0 means the whole file.
    pub line: usize,
    pub message: String,
}

impl fmt::Display for TableError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}", self.file.display(), self.line, self.message)
    }
}

impl std::error::Error for TableError {}

/// The text of each table.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    pub calls: String,
    pub ioctls: String,
    pub commands: String,
    pub layouts: String,
}

impl Sources {
    /// Reads the four files of `directory`.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn read(directory: &Path) -> std::io::Result<Self> {
        let read = |name: &str| std::fs::read_to_string(directory.join(name));
        Ok(Self {
            calls: read("syscalls.tbl")?,
            ioctls: read("ioctls.tbl")?,
            commands: read("commands.tbl")?,
            layouts: read("layouts.tbl")?,
        })
    }
}

/// Reads and checks all tables.
///
/// # Errors
/// The first mistake found.
pub fn parse(sources: &Sources) -> Result<Table, TableError> {
    let layouts = for_each_line("layouts.tbl", &sources.layouts, parse_layout)?;
    let mut calls = BTreeMap::new();
    for_each_line("syscalls.tbl", &sources.calls, |line| {
        for call in parse_call(line, &layouts)? {
            if calls
                .values()
                .any(|other: &Call| other.named && call.named && other.name == call.name)
            {
                return Err(format!("`{}` is in the table twice", call.name));
            }
            if calls.insert(call.number, call.clone()).is_some() {
                return Err(format!("number {} is in the table twice", call.number));
            }
        }
        Ok(())
    })?;
    let mut ranges = Vec::new();
    for (file, text) in [("ioctls.tbl", &sources.ioctls), ("commands.tbl", &sources.commands)] {
        for_each_line(file, text, |line| add_sub_row(line, &layouts, &mut calls, &mut ranges))?;
    }
    let calls: Vec<Call> = calls.into_values().collect();
    finish(calls, ranges, layouts)
}

fn finish(
    mut calls: Vec<Call>,
    mut ranges: Vec<RefusedRange>,
    layouts: Vec<Layout>,
) -> Result<Table, TableError> {
    let whole = |message: String| TableError { file: "syscalls.tbl".into(), line: 0, message };
    for (index, call) in calls.iter().enumerate() {
        if call.number as usize != index {
            return Err(whole(format!("number {index} has no row")));
        }
    }
    for call in &mut calls {
        call.sub_rows.sort_by_key(|sub| sub.command);
        if let Some(pair) = call.sub_rows.windows(2).find(|pair| pair[0].command == pair[1].command)
        {
            let (first, second) = (&pair[0].name, &pair[1].name);
            return Err(whole(format!("{}: {first} and {second} are the same command", call.name)));
        }
    }
    ranges.sort_by_key(|range| range.first);
    if let Some(pair) = ranges.windows(2).find(|pair| pair[0].last >= pair[1].first) {
        return Err(whole(format!("the ranges {} and {} overlap", pair[0].name, pair[1].name)));
    }
    Ok(Table { calls, ranges, layouts })
}

/// Calls `parse` with every line that is neither empty nor a comment.
fn for_each_line<T>(
    file: &str,
    text: &str,
    mut parse: impl FnMut(&str) -> Result<T, String>,
) -> Result<Vec<T>, TableError> {
    let mut rows = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let place = |message| TableError { file: file.into(), line: index + 1, message };
        rows.push(parse(line).map_err(place)?);
    }
    Ok(rows)
}

fn parse_layout(line: &str) -> Result<Layout, String> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [name, bytes, header, c_type @ ..] = fields.as_slice() else {
        return Err("a layout is: name, bytes, header, C type".to_string());
    };
    let bytes = bytes
        .parse()
        .ok()
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| format!("`{bytes}` is not a size"))?;
    let source = (*header != "-").then(|| ((*header).to_string(), c_type.join(" ")));
    Ok(Layout { name: (*name).to_string(), bytes, source })
}

/// The columns that calls and sub-rows have in common, and the attributes that only calls have.
struct Columns<'line> {
    first: &'line str,
    second: &'line str,
    row: Row,
    select: Option<&'line str>,
    modifiers: Vec<(u32, String)>,
}

/// Parses one line of `syscalls.tbl`: one call, or the refused numbers of a range.
fn parse_call(line: &str, layouts: &[Layout]) -> Result<Vec<Call>, String> {
    let columns = parse_columns(line, layouts)?;
    let position =
        |name: &str| columns.row.arguments.iter().position(|argument| argument.name == name);
    let selector = match columns.select {
        Some(name) => Some(
            position(name)
                .ok_or_else(|| format!("select names `{name}`, there is no such argument"))?,
        ),
        None => None,
    };
    let call = |number: u32, name: String, named: bool| Call {
        number,
        name,
        named,
        row: columns.row.clone(),
        selector,
        modifiers: columns.modifiers.clone(),
        sub_rows: Vec::new(),
    };
    let name = columns.second;
    let Some((first, last)) = columns.first.split_once("..") else {
        return Ok(vec![call(number(columns.first)?, name.to_string(), true)]);
    };
    if !matches!(columns.row.policy, Policy::Refuse(_)) {
        return Err("only refused numbers come in ranges".to_string());
    }
    let numbers = number(first)?..=number(last)?;
    if *numbers.end() > MAXIMUM_NUMBER {
        return Err(format!("calls have no numbers above {MAXIMUM_NUMBER}"));
    }
    Ok(numbers.map(|number| call(number, format!("{name}_{number}"), false)).collect())
}

fn add_sub_row(
    line: &str,
    layouts: &[Layout],
    calls: &mut BTreeMap<u32, Call>,
    ranges: &mut Vec<RefusedRange>,
) -> Result<(), String> {
    let columns = parse_columns(line, layouts)?;
    let (call, name) = columns.first.split_once('/').ok_or("a sub-row begins with CALL/NAME")?;
    let call_number = number(call)?;
    let call = calls.get_mut(&call_number).ok_or_else(|| format!("there is no call {call}"))?;
    if call.selector.is_none() {
        return Err(format!("{} has no select= attribute", call.name));
    }
    if columns.row.policy == Policy::Custom && call.row.policy != Policy::Custom {
        return Err(format!("{} is not custom, so its commands cannot be custom", call.name));
    }
    if let Some((first, last)) = columns.second.split_once("..") {
        let Policy::Refuse(errno) = columns.row.policy else {
            return Err("a range of commands can only be refused".to_string());
        };
        if call.name != "ioctl" {
            return Err("only ioctl has ranges".to_string());
        }
        let bits = |text| {
            number(text)
                .and_then(|n| u16::try_from(n).map_err(|_| "a range is of 16 bits".to_string()))
        };
        ranges.push(RefusedRange {
            first: bits(first)?,
            last: bits(last)?,
            name: name.to_string(),
            errno,
        });
        return Ok(());
    }
    check_sub_row(call, &columns.row)?;
    let command = number(columns.second)?;
    let modifiers = call.modifiers.clone();
    for combination in 0..1_u32 << modifiers.len() {
        let chosen = modifiers.iter().enumerate().filter(|(bit, _)| combination >> bit & 1 == 1);
        let (mut value, mut full_name) = (command, name.to_string());
        for (_, (bit, suffix)) in chosen {
            value |= bit;
            full_name.push_str(suffix);
        }
        call.sub_rows.push(SubRow { command: value, name: full_name, row: columns.row.clone() });
    }
    Ok(())
}

/// Checks the arguments of a sub-row. The runtime and the reader of recordings find the sub-row by
/// the selector before they know its arguments, so the selector must have the same position.
fn check_sub_row(call: &Call, row: &Row) -> Result<(), String> {
    let count = call.row.arguments.len();
    if row.arguments.len() > count {
        return Err(format!("{} arguments, the call has {count}", row.arguments.len()));
    }
    let selector = call.selector.and_then(|index| row.arguments.get(index));
    match selector.map(|argument| &argument.kind) {
        Some(Kind::Value(value)) if value.name == "command" => Ok(()),
        _ => Err("the argument that picks the command must be in the same place as in the call"
            .to_string()),
    }
}

fn parse_columns<'line>(line: &'line str, layouts: &[Layout]) -> Result<Columns<'line>, String> {
    // `refuse(E)` has a parenthesis too, but no space before it.
    let open = line.find(" (").ok_or("the signature is missing")? + 1;
    let fields: Vec<&str> = line[..open].split_whitespace().collect();
    let [first, second, policy, waits] = fields.as_slice() else {
        return Err("there are four columns before the signature".to_string());
    };
    let arrow = line[open..].find(") -> ").ok_or("a signature ends in `) -> TYPE`")? + open + 5;
    let end = line[arrow..].find(char::is_whitespace).map_or(line.len(), |offset| arrow + offset);
    let (arguments, result) = signature::parse(&line[open..end], layouts)?;
    let row = Row {
        policy: parse_policy(policy)?,
        waits: match *waits {
            "may" => true,
            "never" => false,
            other => return Err(format!("`{other}` is not may or never")),
        },
        arguments,
        result,
        descriptors: DescriptorEffect::Unchanged,
        classes: Vec::new(),
        resources: Vec::new(),
    };
    let mut columns = Columns { first, second, row, select: None, modifiers: Vec::new() };
    for attribute in line[end..].split_whitespace() {
        apply_attribute(&mut columns, attribute)?;
    }
    derive_from_arguments(&mut columns.row);
    Ok(columns)
}

fn parse_policy(text: &str) -> Result<Policy, String> {
    match text {
        "emulate" => return Ok(Policy::Emulate),
        "custom" => return Ok(Policy::Custom),
        _ => {}
    }
    let name = text.strip_prefix("refuse(").and_then(|rest| rest.strip_suffix(')'));
    let name = name.ok_or_else(|| format!("`{text}` is not emulate, custom or refuse(ERROR)"))?;
    let known = ERRNOS.iter().find(|(errno, _)| *errno == name);
    let (_, number) =
        known.ok_or_else(|| format!("`{name}` is not an error that calls are refused with"))?;
    Ok(Policy::Refuse(Errno { name: name.to_string(), number: *number }))
}

fn apply_attribute<'line>(
    columns: &mut Columns<'line>,
    attribute: &'line str,
) -> Result<(), String> {
    let (key, value) =
        attribute.split_once('=').ok_or_else(|| format!("`{attribute}` is not key=value"))?;
    match key {
        "select" => columns.select = Some(value),
        "class" => columns.row.classes = parse_list(value, &CLASSES)?,
        "resources" => columns.row.resources = parse_list(value, &RESOURCES)?,
        "fd" => {
            columns.row.descriptors = match value {
                "makes" => DescriptorEffect::Makes,
                "makes_pair" => DescriptorEffect::MakesPair,
                "closes" => DescriptorEffect::Closes,
                "closes_range" => DescriptorEffect::ClosesRange,
                "dups" => DescriptorEffect::Dups,
                "dups_onto" => DescriptorEffect::DupsOnto,
                "receives" => DescriptorEffect::Receives,
                other => return Err(format!("`{other}` is not an effect on descriptors")),
            }
        }
        "modifiers" => {
            for modifier in value.split(',') {
                let parts = modifier.split_once(':');
                let (bit, suffix) =
                    parts.ok_or_else(|| format!("`{modifier}` is not BIT:SUFFIX"))?;
                columns.modifiers.push((number(bit)?, suffix.to_string()));
            }
            if columns.modifiers.len() > 5 {
                return Err("more than 5 modifiers make too many sub-rows".to_string());
            }
        }
        other => return Err(format!("`{other}` is not an attribute")),
    }
    Ok(())
}

fn parse_list(value: &str, known: &[&str]) -> Result<Vec<String>, String> {
    let mut list = Vec::new();
    for item in value.split(',') {
        if !known.contains(&item) {
            return Err(format!("`{item}` is not one of {}", known.join(", ")));
        }
        list.push(item.to_string());
    }
    Ok(list)
}

/// Adds the classes and resources that the arguments imply.
fn derive_from_arguments(row: &mut Row) {
    let is_descriptor =
        |argument: &Argument| matches!(&argument.kind, Kind::Value(value) if value.name == "fd");
    let is_path = |argument: &Argument| {
        matches!(&argument.kind, Kind::Pointer(pointer)
        if pointer.element == "path")
    };
    let add = |list: &mut Vec<String>, item: &str| {
        if !list.iter().any(|other| other == item) {
            list.push(item.to_string());
        }
    };
    if row.arguments.iter().any(is_descriptor) {
        add(&mut row.classes, "desc");
        add(&mut row.resources, "inode");
    }
    if row.arguments.iter().any(is_path) {
        add(&mut row.classes, "file");
        add(&mut row.resources, "mount");
    }
    if row.descriptors != DescriptorEffect::Unchanged {
        add(&mut row.resources, "descriptors");
    }
    row.classes.sort();
    row.resources.sort();
}

/// Parses a decimal number, or a hexadecimal one after `0x`.
fn number(text: &str) -> Result<u32, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("`{text}` is not a number"))
}
