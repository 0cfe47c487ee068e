//! Expressions over the fields of a record, for filters and computed columns.
//!
//! An expression may have `or`, `and`, `not` (or `||`, `&&`, `!`), comparisons, `like` (a glob),
//! `contains`, `is null`, `is not null`, `+ - * / % &`, parentheses, numbers, `"strings"` with
//! `\n \t \r \0 \\ \" \xNN`, `true`, `false`, `null`, field names (in backquotes if they are not
//! words), and `@type` for the name of the record's type.
//!
//! A field that a type does not have is null. Operations on null give null, and a filter that gives
//! null rejects the record, as in SQL. Whole numbers that overflow become floating-point numbers.

mod evaluate;
mod parse;

pub use evaluate::{BoundExpression, Scalar};

use std::sync::Arc;

use crate::{Error, ExtentType, Result};

/// An operator with two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Binary {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Like,
    Contains,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    BitAnd,
}

/// A node of an expression. `F` is the form of field names.
#[derive(Debug, Clone, PartialEq)]
enum Node<F> {
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
    Bytes(Vec<u8>),
    Field(F),
    TypeName,
    Not(Box<Node<F>>),
    Negate(Box<Node<F>>),
    IsNull(Box<Node<F>>),
    Binary(Binary, Box<Node<F>>, Box<Node<F>>),
}

impl<F> Node<F> {
    /// Returns the same expression with each field replaced by the result of `rename`.
    fn map<G>(&self, rename: &mut impl FnMut(&F) -> G) -> Node<G> {
        match self {
            Self::Null => Node::Null,
            Self::Bool(value) => Node::Bool(*value),
            Self::Int(value) => Node::Int(*value),
            Self::Double(value) => Node::Double(*value),
            Self::Bytes(value) => Node::Bytes(value.clone()),
            Self::Field(field) => Node::Field(rename(field)),
            Self::TypeName => Node::TypeName,
            Self::Not(inner) => Node::Not(Box::new(inner.map(rename))),
            Self::Negate(inner) => Node::Negate(Box::new(inner.map(rename))),
            Self::IsNull(inner) => Node::IsNull(Box::new(inner.map(rename))),
            Self::Binary(operator, left, right) => {
                Node::Binary(*operator, Box::new(left.map(rename)), Box::new(right.map(rename)))
            }
        }
    }
}

/// A parsed expression that is not bound to a type yet.
#[derive(Debug, Clone)]
pub struct Expression {
    text: String,
    root: Node<String>,
}

impl Expression {
    /// Parses an expression.
    ///
    /// # Errors
    /// [`Error::Expression`] with the place of the first error.
    pub fn parse(text: &str) -> Result<Self> {
        Ok(Self { text: text.to_owned(), root: parse::parse(text)? })
    }

    /// Makes an expression from a field name, which may have any characters.
    pub fn field(name: &str) -> Self {
        Self { text: name.to_owned(), root: Node::Field(name.to_owned()) }
    }

    /// Parses a column as users write it: a field of one of `types`, or else an expression.
    ///
    /// # Errors
    /// Those of [`Expression::parse`].
    pub fn column(text: &str, types: &[&Arc<ExtentType>]) -> Result<Self> {
        match types.iter().any(|extent_type| extent_type.field_number(text).is_some()) {
            true => Ok(Self::field(text)),
            false => Self::parse(text),
        }
    }

    /// The text it was made from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Binds the expression to a type.
    pub fn bind(&self, extent_type: &ExtentType) -> BoundExpression {
        BoundExpression::new(self.root.map(&mut |name| extent_type.field_number(name)))
    }

    /// Refuses fields that none of the types has. They are probably spelling errors.
    ///
    /// # Errors
    /// [`Error::Expression`] for such a field.
    pub(crate) fn check_fields(&self, types: &[&Arc<ExtentType>]) -> Result<()> {
        let mut unknown = None;
        let _: Node<()> = self.root.map(&mut |name: &String| {
            if !types.iter().any(|extent_type| extent_type.field_number(name).is_some()) {
                unknown = Some(name.clone());
            }
        });
        match unknown {
            None => Ok(()),
            Some(name) => Err(Error::Expression {
                column: self.text.find(&name).unwrap_or(0) + 1,
                text: self.text.clone(),
                what: format!("no selected type has a field {name:?}"),
            }),
        }
    }
}
