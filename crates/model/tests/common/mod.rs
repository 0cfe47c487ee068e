//! Builds events for tests byte by byte, as in docs/DESIGN.md.
// Each test file uses a part of this.
#![allow(dead_code)]

use retake_model::EventKind;

/// Builds an event.
pub fn event(kind: EventKind, flags: u8, number: u16, value: i64, body: &[u8]) -> Vec<u8> {
    assert_eq!(body.len() % 8, 0);
    let size = 16 + u32::try_from(body.len()).unwrap();
    let mut bytes = size.to_le_bytes().to_vec();
    bytes.push(kind as u8);
    bytes.push(flags);
    bytes.extend(number.to_le_bytes());
    bytes.extend(value.to_le_bytes());
    bytes.extend(body);
    bytes
}

/// The parts of an item.
#[derive(Debug, Clone)]
pub struct TestItem {
    pub argument: u8,
    pub direction: u8,
    pub flags: u16,
    pub total: u32,
    pub address: u64,
    pub data: Vec<u8>,
}

pub fn input(argument: u8, address: u64, data: &[u8]) -> TestItem {
    let total = data.len() as u32;
    TestItem { argument, direction: 0, flags: 0, total, address, data: data.to_vec() }
}

pub fn output(argument: u8, address: u64, data: &[u8]) -> TestItem {
    TestItem { direction: 1, ..input(argument, address, data) }
}

/// Encodes items.
pub fn items(items: &[TestItem]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for item in items {
        bytes.push(item.argument);
        bytes.push(item.direction);
        bytes.extend(item.flags.to_le_bytes());
        bytes.extend((item.data.len() as u32).to_le_bytes());
        bytes.extend(item.total.to_le_bytes());
        bytes.extend(0x1234_5678_u32.to_le_bytes());
        bytes.extend(item.address.to_le_bytes());
        bytes.extend(&item.data);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    bytes
}

/// Builds a CALL event.
pub fn call(name: &str, arguments: &[u64], result: i64, of_call: &[TestItem]) -> Vec<u8> {
    let number = retake_model::table::call_by_name(name).unwrap().number;
    let mut body: Vec<u8> = arguments.iter().flat_map(|argument| argument.to_le_bytes()).collect();
    body.extend(items(of_call));
    event(EventKind::Call, 0, number, result, &body)
}
