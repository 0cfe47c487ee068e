//! Writes `crates/model/src/gen.rs`: the table as static data in the types of
//! `crates/model/src/table.rs`.

use std::fmt::Write;

use crate::emit_c::NOTICE;
use crate::table::{
    Argument, Call, DescriptorEffect, Direction, Kind, LengthRule, Pointer, Policy, Row, Shape,
    SubRow, Table, ValueType,
};

/// Returns `crates/model/src/gen.rs`.
pub fn data(table: &Table, hash: u64) -> String {
    let mut out = format!("//! {NOTICE}\n\n");
    out.push_str("use crate::flags;\nuse crate::table::{\n");
    out.push_str(
        "    Argument, ArgumentKind, CallRow, Classes, DescriptorEffect, Direction, \
    LengthRule, Pointer, Policy,\n",
    );
    out.push_str("    RefusedRange, Resources, Row, Shape, SubRow, ValueType,\n};\n\n");
    out.push_str(
        "/// Of the C data that the runtime is built with. Recorded, so that replay \
    notices another table.\n",
    );
    // Writing to a String cannot fail.
    let _ = writeln!(out, "pub const TABLE_HASH: u64 = {};\n", grouped(hash));
    out.push_str("/// Every call, indexed by number.\n");
    let _ = writeln!(out, "pub static CALLS: &[CallRow] = &[");
    for call in &table.calls {
        call_row(&mut out, call);
    }
    out.push_str("];\n\n/// Sorted.\npub static REFUSED_RANGES: &[RefusedRange] = &[\n");
    for range in &table.ranges {
        let (first, last, name, errno) = (range.first, range.last, &range.name, range.errno.number);
        let fields = format!("first: {first:#x}, last: {last:#x}, name: {name:?}, errno: {errno}");
        let _ = writeln!(out, "    RefusedRange {{ {fields} }},");
    }
    out.push_str("];\n");
    numbers(&mut out, table);
    out
}

/// Writes the number of each call as a constant with its name, such as `READ`.
fn numbers(out: &mut String, table: &Table) {
    out.push_str("\n/// The number of each call that has a name.\npub mod number {\n");
    for call in table.calls.iter().filter(|call| call.named) {
        let _ = writeln!(out, "    pub const {}: u16 = {};", call.name.to_uppercase(), call.number);
    }
    out.push_str("}\n");
}

/// Returns a hash in the form `0x0123_4567_89ab_cdef`.
fn grouped(hash: u64) -> String {
    let digits = format!("{hash:016x}");
    let groups: Vec<&str> = (0..4).map(|group| &digits[group * 4..group * 4 + 4]).collect();
    format!("0x{}", groups.join("_"))
}

fn call_row(out: &mut String, call: &Call) {
    let selector = call.selector.map_or("None".to_string(), |index| format!("Some({index})"));
    let (number, name, named) = (call.number, &call.name, call.named);
    let _ = writeln!(out, "    CallRow {{");
    let _ = writeln!(
        out,
        "        number: {number}, name: {name:?}, named: {named}, selector: {selector},"
    );
    let _ = writeln!(out, "        row: {},", row(&call.row));
    if call.sub_rows.is_empty() {
        out.push_str("        sub_rows: &[],\n    },\n");
        return;
    }
    out.push_str("        sub_rows: &[\n");
    for sub in &call.sub_rows {
        sub_row(out, sub);
    }
    out.push_str("        ],\n    },\n");
}

fn sub_row(out: &mut String, sub: &SubRow) {
    let (command, name) = (sub.command, &sub.name);
    let _ = writeln!(
        out,
        "            SubRow {{ command: {command:#x}, name: {name:?}, row: {} }},",
        row(&sub.row)
    );
}

fn row(row: &Row) -> String {
    let policy = match &row.policy {
        Policy::Emulate => "Policy::Emulate".to_string(),
        Policy::Custom => "Policy::Custom".to_string(),
        Policy::Refuse(errno) => format!("Policy::Refuse({})", errno.number),
    };
    let arguments: Vec<String> = row.arguments.iter().map(argument).collect();
    format!(
        "Row {{ policy: {policy}, waits: {}, arguments: &[{}], result: {}, descriptors: DescriptorEffect::{}, \
         classes: Classes({}), resources: Resources({}) }}",
        row.waits,
        arguments.join(", "),
        value_type(&row.result),
        descriptor_effect(row.descriptors),
        bits("Classes", &row.classes),
        bits("Resources", &row.resources),
    )
}

/// Returns the union of constants of one type, or `0` for none.
fn bits(of: &str, names: &[String]) -> String {
    if names.is_empty() {
        return "0".to_string();
    }
    let parts: Vec<String> =
        names.iter().map(|name| format!("{of}::{}.0", name.to_uppercase())).collect();
    parts.join(" | ")
}

fn argument(argument: &Argument) -> String {
    let kind = match &argument.kind {
        Kind::Value(value) => format!("ArgumentKind::Value({})", value_type(value)),
        Kind::Pointer(pointer) => format!("ArgumentKind::Pointer({})", self::pointer(pointer)),
    };
    format!("Argument {{ name: {:?}, kind: {kind} }}", argument.name)
}

fn value_type(value: &ValueType) -> String {
    if let Some(set) = &value.set {
        return format!("ValueType::Flags(&flags::{})", set.to_uppercase());
    }
    let name = match value.name.as_str() {
        "none" => "None",
        "fd" => "Descriptor",
        "dirfd" => "DirectoryDescriptor",
        "int" => "Int",
        "uint" => "Uint",
        "long" => "Long",
        "ulong" => "Ulong",
        "size" => "Size",
        "off" => "Offset",
        "mode" => "Mode",
        "dev" => "Device",
        "pid" => "Pid",
        "uid" => "Uid",
        "gid" => "Gid",
        "sig" => "Signal",
        "addr" => "Address",
        "clock" => "Clock",
        "command" => "Command",
        "time" => "Time",
        other => unreachable!("the parser knows no value type {other}"),
    };
    format!("ValueType::{name}")
}

fn pointer(pointer: &Pointer) -> String {
    let direction = match pointer.direction {
        Direction::In => "In",
        Direction::Out => "Out",
        Direction::InOut => "InOut",
    };
    let length = match pointer.length.rule {
        LengthRule::Constant => "Constant".to_string(),
        LengthRule::Argument(index) => format!("Argument({index})"),
        LengthRule::Result => "Result".to_string(),
        LengthRule::ResultMaxArgument(index) => format!("ResultMaxArgument({index})"),
        LengthRule::Pointee32(index) => format!("Pointee32({index})"),
        LengthRule::Pointee64(index) => format!("Pointee64({index})"),
        LengthRule::Bits(index) => format!("Bits({index})"),
        LengthRule::Pages(index) => format!("Pages({index})"),
        LengthRule::Product(first, second) => format!("Product({first}, {second})"),
        LengthRule::Counted { offset, width } => {
            format!("Counted {{ offset: {offset}, width: {width} }}")
        }
    };
    format!(
        "Pointer \
        {{ direction: Direction::{direction}, shape: Shape::{}, element: {:?}, element_bytes: {}, \
         length: LengthRule::{length}, count: {}, always: {} }}",
        shape(pointer.shape),
        pointer.element,
        pointer.element_bytes,
        pointer.length.count,
        pointer.always,
    )
}

fn shape(shape: Shape) -> &'static str {
    match shape {
        Shape::Plain => "Plain",
        Shape::String => "String",
        Shape::Strings => "Strings",
        Shape::Iovec => "Iovec",
        Shape::Msghdr => "Msghdr",
        Shape::Mmsghdr => "Mmsghdr",
        Shape::Fdset => "Fdset",
        Shape::Sigmask => "Sigmask",
        Shape::SigmaskPair => "SigmaskPair",
        Shape::Ifconf => "Ifconf",
        Shape::Semarray => "Semarray",
    }
}

fn descriptor_effect(effect: DescriptorEffect) -> &'static str {
    match effect {
        DescriptorEffect::Unchanged => "Unchanged",
        DescriptorEffect::Makes => "Makes",
        DescriptorEffect::MakesPair => "MakesPair",
        DescriptorEffect::Closes => "Closes",
        DescriptorEffect::ClosesRange => "ClosesRange",
        DescriptorEffect::Dups => "Dups",
        DescriptorEffect::DupsOnto => "DupsOnto",
        DescriptorEffect::Receives => "Receives",
    }
}
