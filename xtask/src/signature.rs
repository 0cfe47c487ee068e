//! Reads a signature: `(fd: fd, buffer: out[u8; ret<=count], count: size) -> size`.
//!
//! Lengths may name an argument that comes later, so names are resolved once the whole list has
//! been read.

use crate::table::{
    Argument, Direction, Kind, Layout, Length, LengthRule, Pointer, Shape, ValueType,
};

/// Types of value arguments; `flags:` and `enum:` name a set in `crates/model/src/flags.rs`.
const VALUE_TYPES: [&str; 20] = [
    "fd", "dirfd", "int", "uint", "long", "ulong", "size", "off", "mode", "dev", "pid", "uid",
    "gid", "sig", "addr", "clock", "command", "time", "flags", "enum",
];

/// Reads `(arguments) -> result`.
///
/// # Errors
/// A message without position. The caller knows the line.
pub fn parse(text: &str, layouts: &[Layout]) -> Result<(Vec<Argument>, ValueType), String> {
    let (list, result) = text.split_once(") -> ").ok_or("a signature ends in `) -> TYPE`")?;
    let list = list.strip_prefix('(').ok_or("a signature begins with `(`")?;
    let parts = split_arguments(list);
    if parts.len() > 6 {
        return Err(format!("{} arguments, a call has at most 6", parts.len()));
    }
    let mut named = Vec::new();
    for part in &parts {
        let (name, kind) =
            part.split_once(": ").ok_or_else(|| format!("`{part}` is not `name: type`"))?;
        if named.iter().any(|(other, _)| *other == name) {
            return Err(format!("two arguments are called `{name}`"));
        }
        named.push((name, kind));
    }
    let names: Vec<&str> = named.iter().map(|(name, _)| *name).collect();
    let mut arguments = Vec::new();
    for (name, kind) in &named {
        let kind = parse_kind(kind, &names, layouts)
            .map_err(|error| format!("argument `{name}`: {error}"))?;
        arguments.push(Argument { name: (*name).to_string(), kind });
    }
    let result = if result == "none" {
        ValueType { name: "none".to_string(), set: None }
    } else {
        parse_value(result)?
    };
    Ok((arguments, result))
}

/// Splits at commas outside brackets.
fn split_arguments(list: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0_i32, 0);
    for (position, character) in list.char_indices() {
        match character {
            '[' => depth += 1,
            ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(list[start..position].trim());
                start = position + 1;
            }
            _ => {}
        }
    }
    let last = list[start..].trim();
    if !last.is_empty() {
        parts.push(last);
    }
    parts
}

fn parse_kind(text: &str, names: &[&str], layouts: &[Layout]) -> Result<Kind, String> {
    let (text, always) = match text.strip_suffix('!') {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let Some((direction, rest)) = text.split_once('[') else {
        if always {
            return Err("`!` belongs to pointers".to_string());
        }
        return Ok(Kind::Value(parse_value(text)?));
    };
    let direction = match direction {
        "in" => Direction::In,
        "out" => Direction::Out,
        "inout" => Direction::InOut,
        other => return Err(format!("`{other}` is not in, out or inout")),
    };
    if always && direction == Direction::In {
        return Err("`!` belongs to what the kernel writes".to_string());
    }
    let inner = rest.strip_suffix(']').ok_or("`]` is missing")?;
    let (element, length) = match inner.split_once("; ") {
        Some((element, length)) => (element, Some(length)),
        None => (inner, None),
    };
    let mut pointer = parse_element(element, layouts)?;
    pointer.direction = direction;
    pointer.always = always;
    apply_length(&mut pointer, length, names)?;
    Ok(Kind::Pointer(pointer))
}

fn parse_value(text: &str) -> Result<ValueType, String> {
    let (name, set) = match text.split_once(':') {
        Some((name, set)) => (name, Some(set.to_string())),
        None => (text, None),
    };
    if !VALUE_TYPES.contains(&name) {
        return Err(format!("`{name}` is not a type (known: {})", VALUE_TYPES.join(", ")));
    }
    if matches!(name, "flags" | "enum") != set.is_some() {
        return Err(format!("`{text}`: flags and enum name a set, other types do not"));
    }
    Ok(ValueType { name: name.to_string(), set })
}

/// Returns shape and element size. The caller fills in direction and length.
fn parse_element(element: &str, layouts: &[Layout]) -> Result<Pointer, String> {
    let (shape, element_bytes) = match element {
        "u8" => (Shape::Plain, 1),
        "u16" | "i16" => (Shape::Plain, 2),
        "u32" | "i32" => (Shape::Plain, 4),
        "u64" | "i64" => (Shape::Plain, 8),
        "string" | "path" => (Shape::String, 1),
        "strings" => (Shape::Strings, 8),
        "iovec" => (Shape::Iovec, 16),
        "msghdr" => (Shape::Msghdr, 56),
        "mmsghdr" => (Shape::Mmsghdr, 64),
        "fdset" => (Shape::Fdset, 1),
        "sigmask" => (Shape::Sigmask, 1),
        "sigmask_pair" => (Shape::SigmaskPair, 16),
        "ifconf" => (Shape::Ifconf, 16),
        "semarray" => (Shape::Semarray, 2),
        name => match layouts.iter().find(|layout| layout.name == name) {
            Some(layout) => (Shape::Plain, layout.bytes),
            None => {
                return Err(format!("`{name}` is not a type, not a shape, and not in layouts.tbl"));
            }
        },
    };
    Ok(Pointer {
        direction: Direction::In,
        shape,
        element: element.to_string(),
        element_bytes,
        length: Length { rule: LengthRule::Constant, count: 1 },
        always: false,
    })
}

fn apply_length(pointer: &mut Pointer, text: Option<&str>, names: &[&str]) -> Result<(), String> {
    let needs_length =
        matches!(pointer.shape, Shape::Iovec | Shape::Mmsghdr | Shape::Fdset | Shape::Sigmask);
    let Some(text) = text else {
        if needs_length {
            return Err(format!("`{}` needs a length", pointer.element));
        }
        return Ok(());
    };
    if !needs_length && pointer.shape != Shape::Plain {
        return Err(format!("`{}` takes no length", pointer.element));
    }
    let (addend, rest) = match text.split_once('+') {
        Some((addend, rest)) => (number(addend)?, rest),
        None => (0, text),
    };
    let (rule, multiplier) = parse_rule(rest, names)?;
    pointer.length = match rule {
        Ok(rule) => Length { rule, count: addend },
        Err(count) if addend == 0 => Length { rule: LengthRule::Constant, count },
        Err(_) => return Err(format!("`{text}`: add the numbers up")),
    };
    let bytes = u64::from(pointer.element_bytes) * u64::from(multiplier);
    pointer.element_bytes =
        u16::try_from(bytes).map_err(|_| format!("elements of {bytes} bytes are too large"))?;
    if pointer.shape == Shape::Fdset {
        pointer.length = match pointer.length.rule {
            LengthRule::Argument(index) => Length { rule: LengthRule::Bits(index), count: 0 },
            _ => {
                return Err("the length of an fdset is an argument: the number of bits".to_string());
            }
        };
    }
    Ok(())
}

/// A rule, and the multiplier of its elements. An inner `Err` is a constant.
type Rule = (Result<LengthRule, u32>, u32);

fn parse_rule(text: &str, names: &[&str]) -> Result<Rule, String> {
    let argument = |name: &str| {
        let position = names.iter().position(|other| *other == name);
        position.ok_or_else(|| format!("length names the argument `{name}`, there is none"))
    };
    let call = |function: &str| text.strip_prefix(function).and_then(|rest| rest.strip_suffix(')'));
    if text.starts_with(|character: char| character.is_ascii_digit()) {
        return match text.split_once('*') {
            Some((multiplier, counted)) => Ok((Ok(parse_counted(counted)?), number(multiplier)?)),
            None => Ok((Err(number(text)?), 1)),
        };
    }
    let rule = if text.contains('@') {
        parse_counted(text)?
    } else if text == "ret" {
        LengthRule::Result
    } else if let Some(maximum) = text.strip_prefix("ret<=") {
        LengthRule::ResultMaxArgument(argument(maximum)?)
    } else if let Some(pointer) = text.strip_prefix('*') {
        match pointer.strip_suffix(":64") {
            Some(pointer) => LengthRule::Pointee64(argument(pointer)?),
            None => LengthRule::Pointee32(argument(pointer)?),
        }
    } else if let Some(bits) = call("bits(") {
        LengthRule::Bits(argument(bits)?)
    } else if let Some(bytes) = call("pages(") {
        LengthRule::Pages(argument(bytes)?)
    } else if let Some((first, second)) = text.split_once('*') {
        LengthRule::Product(argument(first)?, argument(second)?)
    } else {
        LengthRule::Argument(argument(text)?)
    };
    Ok((Ok(rule), 1))
}

/// Parses `u16@24`: an integer in the buffer itself.
fn parse_counted(text: &str) -> Result<LengthRule, String> {
    let (width, offset) =
        text.split_once('@').ok_or_else(|| format!("`{text}` is not uN@OFFSET"))?;
    let width = match width {
        "u16" => 2,
        "u32" => 4,
        "u64" => 8,
        other => return Err(format!("`{other}` is not u16, u32 or u64")),
    };
    let offset =
        u8::try_from(number(offset)?).map_err(|_| format!("offset {offset} is above 255"))?;
    Ok(LengthRule::Counted { offset, width })
}

fn number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number"))
}
