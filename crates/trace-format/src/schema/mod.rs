//! The types of a trace file as data: their fields, and the sources of the fields' values.
//!
//! RE-ANIMATOR's types keep its names and fields, so that its tools can read them. Our types follow
//! the same rules under names of our own. Paper: [RE-ANIMATOR §2]. The writer, the reader and
//! `docs/TRACE.md` all use these tables.

mod describe_type;
mod descriptors;
mod document;
mod files;
mod network;
pub(crate) mod other;
mod own;
mod processes;
pub(crate) mod rule;

use std::sync::{Arc, LazyLock};

use retake_dataseries::{ExtentType, Field};
use retake_model::table;

pub(crate) use describe_type::{CallType, Rows};
pub use document::document;
use other::PlainField;
use rule::{FieldRule, Kind};

use crate::encode::holder;

/// The prefix of the names of RE-ANIMATOR's types.
const FOREIGN_PREFIX: &str = "IOTTAFSL::Trace::Syscall::";
const FOREIGN_NAMESPACE: &str = "iotta.snia.org";
/// The prefix of the names of our types for calls.
const OWN_PREFIX: &str = "Retake::Syscall::";
const OWN_NAMESPACE: &str = "retake";
/// The name of the type for `write`.
pub(crate) const WRITE_NAME: &str = "IOTTAFSL::Trace::Syscall::write";
/// The name of the type for calls without a type of their own.
pub(crate) const OTHER_NAME: &str = "other";

/// One type of the file that holds calls.
#[derive(Debug)]
pub(crate) struct CallSchema {
    pub call: CallType,
    pub extent_type: Arc<ExtentType>,
    /// How many argument registers the type keeps.
    pub argument_count: usize,
    /// The positions of rules whose fields can hold a buffer: inputs first, each in the order of
    /// arguments.
    pub holders: Vec<usize>,
    /// The number of each rule's field.
    pub rule_fields: Vec<usize>,
    /// The number of the field for argument register 0. The other registers follow.
    pub argument_field: usize,
    pub number_field: usize,
    /// The number of the field with the call's name. Only in the type for all other calls.
    pub call_name_field: Option<usize>,
    pub processor_field: usize,
    /// The number of the field with an address. Only in types with several rows for a call.
    pub address_field: Option<usize>,
}

/// All types of a trace file.
#[derive(Debug)]
pub(crate) struct Schema {
    pub calls: Vec<CallSchema>,
    /// The types of [`other::PLAIN`], in its order.
    pub plain: Vec<Arc<ExtentType>>,
    /// The position in `calls` for each number of the system-call table.
    by_number: Vec<usize>,
    /// The position in `calls` of the type for all other calls.
    other: usize,
}

/// The schema, made once.
pub(crate) static SCHEMA: LazyLock<Schema> = LazyLock::new(Schema::new);

impl Schema {
    fn new() -> Self {
        let foreign =
            [files::types(), descriptors::types(), processes::types(), network::types()].concat();
        let foreign = foreign
            .into_iter()
            .map(|call| CallSchema::new(FOREIGN_PREFIX, FOREIGN_NAMESPACE, call));
        let own =
            own::types().into_iter().map(|call| CallSchema::new(OWN_PREFIX, OWN_NAMESPACE, call));
        let mut calls: Vec<CallSchema> = foreign.chain(own).collect();
        let other = calls.len();
        calls.push(CallSchema::new(OWN_PREFIX, OWN_NAMESPACE, other_type()));
        let mut by_number = vec![other; table::CALLS.len()];
        for (position, schema) in calls.iter().enumerate() {
            for name in &schema.call.calls {
                let row = table::call_by_name(name).expect("the schema names calls of the table");
                by_number[usize::from(row.number)] = position;
            }
        }
        Self { calls, plain: other::PLAIN.iter().map(plain_type).collect(), by_number, other }
    }

    /// Returns the position in `calls` of the type for a system call number.
    pub fn position(&self, number: u32) -> usize {
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        self.by_number.get(number).copied().unwrap_or(self.other)
    }

    /// Returns the position of one of [`other::PLAIN`] among all types.
    pub fn plain_position(&self, plain: usize) -> usize {
        self.calls.len() + plain
    }

    /// Returns all types, those of calls first.
    pub fn types(&self) -> Vec<Arc<ExtentType>> {
        let calls = self.calls.iter().map(|schema| &schema.extent_type);
        calls.chain(&self.plain).map(Arc::clone).collect()
    }
}

/// Returns the type for calls without a type of their own: name and registers. Their buffers are in
/// records of their own.
fn other_type() -> CallType {
    CallType { name: OTHER_NAME, calls: Vec::new(), fields: Vec::new(), rows: Rows::One }
}

impl CallSchema {
    fn new(prefix: &str, namespace: &str, mut call: CallType) -> Self {
        call.fields.sort_by_key(|rule| rule.name);
        let rows = call.calls.iter().filter_map(|name| table::call_by_name(name));
        let is_other = call.name == OTHER_NAME;
        let argument_count =
            if is_other { 6 } else { rows.map(|row| row.row.arguments.len()).max().unwrap_or(6) };
        let has_address = call.rows != Rows::One;
        let mut builder = ExtentType::builder(&format!("{prefix}{}", call.name))
            .namespace(namespace)
            .version(1, 0);
        builder = builder
            .fields(other::COMMON.iter().map(plain_field))
            .fields(call.fields.iter().map(rule_field));
        builder = builder.fields(is_other.then(|| Field::variable32("call_name").unique()));
        builder = builder.fields(
            other::ARGUMENTS[..argument_count].iter().map(|name| Field::int64(name).nullable()),
        );
        builder = builder.fields([plain_field(&other::NUMBER), plain_field(&other::PROCESSOR)]);
        builder = builder.fields(has_address.then(|| plain_field(&other::ADDRESS)));
        let extent_type = builder.build().expect("the schema follows the rules of the format");
        let number =
            |name: &str| extent_type.field_number(name).expect("the field was just declared");
        let mut holders: Vec<usize> = (0..call.fields.len())
            .filter(|&rule| holder(&call.fields[rule].source).is_some())
            .collect();
        holders.sort_by_key(|&rule| holder(&call.fields[rule].source));
        Self {
            argument_count,
            holders,
            rule_fields: call.fields.iter().map(|rule| number(rule.name)).collect(),
            argument_field: other::COMMON.len() + call.fields.len() + usize::from(is_other),
            number_field: number(other::NUMBER.name),
            call_name_field: extent_type.field_number("call_name"),
            processor_field: number(other::PROCESSOR.name),
            address_field: has_address.then(|| number(other::ADDRESS.name)),
            extent_type,
            call,
        }
    }

    /// Returns the full name of the type.
    pub fn name(&self) -> &str {
        self.extent_type.name()
    }
}

fn field_of(name: &str, kind: Kind) -> Field {
    match kind {
        Kind::Bool => Field::bool(name),
        Kind::Byte => Field::byte(name),
        Kind::Int32 => Field::int32(name),
        Kind::Int64 => Field::int64(name),
        Kind::Bytes => Field::variable32(name),
    }
}

fn rule_field(rule: &FieldRule) -> Field {
    let field = field_of(rule.name, rule.kind);
    if rule.nullable { field.nullable() } else { field }
}

fn plain_field(plain: &PlainField) -> Field {
    let mut field = field_of(plain.name, plain.kind);
    field.nullable = plain.nullable;
    field.unique = plain.unique;
    field
}

fn plain_type(plain: &other::PlainType) -> Arc<ExtentType> {
    let namespace = if plain.is_foreign { FOREIGN_NAMESPACE } else { OWN_NAMESPACE };
    let common: &[PlainField] = if plain.is_foreign { &other::COMMON } else { &[] };
    let builder = ExtentType::builder(plain.name).namespace(namespace).version(1, 0);
    let builder = builder.fields(common.iter().chain(plain.fields).map(plain_field));
    builder.build().expect("the schema follows the rules of the format")
}
