//! Evaluation of expressions for a record.

use std::cmp::Ordering;

use super::{Binary, Node};
use crate::tools::glob;
use crate::{Row, Value};

/// The value of an expression.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scalar<'a> {
    /// An unknown value.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A floating-point number.
    Double(f64),
    /// Bytes.
    Bytes(&'a [u8]),
}

impl<'a> From<Value<'a>> for Scalar<'a> {
    fn from(value: Value<'a>) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(value),
            Value::Byte(value) => Self::Int(i64::from(value)),
            Value::Int32(value) => Self::Int(i64::from(value)),
            Value::Int64(value) => Self::Int(value),
            Value::Double(value) => Self::Double(value),
            Value::Bytes(value) => Self::Bytes(value),
        }
    }
}

impl Scalar<'_> {
    /// The value as a number. Bits count as 0 and 1.
    pub fn as_f64(self) -> Option<f64> {
        match self {
            Self::Bool(value) => Some(f64::from(u8::from(value))),
            Self::Int(value) => Some(value as f64),
            Self::Double(value) => Some(value),
            Self::Null | Self::Bytes(_) => None,
        }
    }

    /// The value as a whole number, if it is one.
    pub fn as_i64(self) -> Option<i64> {
        match self {
            Self::Bool(value) => Some(i64::from(value)),
            Self::Int(value) => Some(value),
            Self::Null | Self::Double(_) | Self::Bytes(_) => None,
        }
    }

    /// The value as a condition. Numbers are true unless zero, bytes unless empty.
    fn as_bool(self) -> Option<bool> {
        match self {
            Self::Null => None,
            Self::Bytes(bytes) => Some(!bytes.is_empty()),
            number => number.as_f64().map(|value| value != 0.0),
        }
    }
}

/// An expression for records of one type. A field is its number, or `None` if the type does not
/// have it.
#[derive(Debug, Clone)]
pub struct BoundExpression {
    root: Node<Option<usize>>,
}

impl BoundExpression {
    pub(super) fn new(root: Node<Option<usize>>) -> Self {
        Self { root }
    }

    /// Evaluates the expression for a record of the type that it was bound to.
    ///
    /// # Panics
    /// If the record is of another type with fewer fields.
    pub fn evaluate<'a>(&'a self, row: &Row<'a>) -> Scalar<'a> {
        evaluate(&self.root, row)
    }

    /// Whether the expression is true for a record, as a filter.
    pub fn accepts(&self, row: &Row<'_>) -> bool {
        evaluate(&self.root, row).as_bool() == Some(true)
    }
}

fn evaluate<'a>(node: &'a Node<Option<usize>>, row: &Row<'a>) -> Scalar<'a> {
    match node {
        Node::Null | Node::Field(None) => Scalar::Null,
        Node::Bool(value) => Scalar::Bool(*value),
        Node::Int(value) => Scalar::Int(*value),
        Node::Double(value) => Scalar::Double(*value),
        Node::Bytes(value) => Scalar::Bytes(value),
        Node::Field(Some(number)) => row.value(*number).into(),
        Node::TypeName => Scalar::Bytes(row.extent_type().name().as_bytes()),
        Node::Not(inner) => from_bool(evaluate(inner, row).as_bool().map(|value| !value)),
        Node::Negate(inner) => match evaluate(inner, row) {
            Scalar::Int(value) => {
                value.checked_neg().map_or(Scalar::Double(-(value as f64)), Scalar::Int)
            }
            other => other.as_f64().map_or(Scalar::Null, |value| Scalar::Double(-value)),
        },
        Node::IsNull(inner) => Scalar::Bool(evaluate(inner, row) == Scalar::Null),
        Node::Binary(operator @ (Binary::And | Binary::Or), left, right) => {
            let decides = *operator == Binary::Or;
            let left = evaluate(left, row).as_bool();
            if left == Some(decides) {
                return Scalar::Bool(decides);
            }
            match evaluate(right, row).as_bool() {
                Some(right) if right == decides => Scalar::Bool(decides),
                right => from_bool(left.and(right)),
            }
        }
        Node::Binary(operator, left, right) => {
            binary(*operator, evaluate(left, row), evaluate(right, row))
        }
    }
}

fn from_bool(value: Option<bool>) -> Scalar<'static> {
    value.map_or(Scalar::Null, Scalar::Bool)
}

/// Compares two values, if they can be compared.
fn compare(left: Scalar<'_>, right: Scalar<'_>) -> Option<Ordering> {
    match (left, right) {
        (Scalar::Bytes(left), Scalar::Bytes(right)) => Some(left.cmp(right)),
        _ => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => Some(left.cmp(&right)),
            _ => left.as_f64()?.partial_cmp(&right.as_f64()?),
        },
    }
}

fn binary<'a>(operator: Binary, left: Scalar<'a>, right: Scalar<'a>) -> Scalar<'a> {
    let test = |wanted: fn(Ordering) -> bool| from_bool(compare(left, right).map(wanted));
    let bytes = |check: fn(&[u8], &[u8]) -> bool| match (left, right) {
        (Scalar::Bytes(left), Scalar::Bytes(right)) => Scalar::Bool(check(left, right)),
        _ => Scalar::Null,
    };
    let number = |whole: fn(i64, i64) -> Option<i64>, double: fn(f64, f64) -> f64| {
        if let (Some(left), Some(right)) = (left.as_i64(), right.as_i64())
            && let Some(value) = whole(left, right)
        {
            return Scalar::Int(value);
        }
        match (left.as_f64(), right.as_f64()) {
            (Some(left), Some(right)) => Scalar::Double(double(left, right)),
            _ => Scalar::Null,
        }
    };
    match operator {
        Binary::Equal => test(Ordering::is_eq),
        Binary::NotEqual => test(Ordering::is_ne),
        Binary::Less => test(Ordering::is_lt),
        Binary::LessOrEqual => test(Ordering::is_le),
        Binary::Greater => test(Ordering::is_gt),
        Binary::GreaterOrEqual => test(Ordering::is_ge),
        Binary::Like => bytes(|text, pattern| glob(pattern, text)),
        Binary::Contains => bytes(contains),
        Binary::Add => number(i64::checked_add, |left, right| left + right),
        Binary::Subtract => number(i64::checked_sub, |left, right| left - right),
        Binary::Multiply => number(i64::checked_mul, |left, right| left * right),
        Binary::Divide => number(|_, _| None, |left, right| left / right),
        Binary::Remainder => number(i64::checked_rem, |left, right| left % right),
        Binary::BitAnd => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => Scalar::Int(left & right),
            _ => Scalar::Null,
        },
        Binary::And | Binary::Or => {
            unreachable!("evaluated where they occur, since they may skip an operand")
        }
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    let Some(&first) = part.first() else {
        return true;
    };
    let starts = text.iter().enumerate().filter(|&(_, &byte)| byte == first);
    starts.map(|(at, _)| &text[at..]).any(|rest| rest.starts_with(part))
}
