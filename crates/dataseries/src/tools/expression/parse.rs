//! Parsing of expressions: a scanner, and a parser by precedence.

use super::{Binary, Node};
use crate::{Error, Result};

/// The most nodes of an expression. This limits the recursion of evaluation.
const NODES_MAX: usize = 1000;
/// The deepest nesting of parentheses and prefix operators.
const DEPTH_MAX: usize = 100;

/// A token of the text.
#[derive(Debug, Clone, PartialEq)]
enum Token {
    Word(String),
    /// A field name in backquotes.
    Quoted(String),
    Int(i64),
    Double(f64),
    Text(Vec<u8>),
    Symbol(&'static str),
    End,
}

/// All symbols. A symbol comes before its own prefixes.
const SYMBOLS: [&str; 19] = [
    "||", "&&", "==", "!=", "<=", ">=", "=", "<", ">", "!", "+", "-", "*", "/", "%", "&", "(", ")",
    "~",
];

/// Operators by precedence, loosest first.
const LEVELS: [&[(&str, Binary)]; 5] = [
    &[("||", Binary::Or), ("or", Binary::Or)],
    &[("&&", Binary::And), ("and", Binary::And)],
    &[
        ("==", Binary::Equal),
        ("=", Binary::Equal),
        ("!=", Binary::NotEqual),
        ("<=", Binary::LessOrEqual),
        (">=", Binary::GreaterOrEqual),
        ("<", Binary::Less),
        (">", Binary::Greater),
        ("~", Binary::Like),
        ("like", Binary::Like),
        ("contains", Binary::Contains),
    ],
    &[("+", Binary::Add), ("-", Binary::Subtract)],
    &[
        ("*", Binary::Multiply),
        ("/", Binary::Divide),
        ("%", Binary::Remainder),
        ("&", Binary::BitAnd),
    ],
];

/// Parses a whole text.
pub(super) fn parse(text: &str) -> Result<Node<String>> {
    let mut parser = Parser { text, at: 0, token: Token::End, token_at: 0, nodes: 0, depth: 0 };
    parser.advance()?;
    let root = parser.level(0)?;
    match parser.token {
        Token::End => Ok(root),
        _ => Err(parser.error("this does not belong to the expression before it")),
    }
}

struct Parser<'a> {
    text: &'a str,
    /// The offset at which scanning continues.
    at: usize,
    token: Token,
    /// The offset of `token`.
    token_at: usize,
    nodes: usize,
    depth: usize,
}

impl Parser<'_> {
    fn error(&self, what: impl Into<String>) -> Error {
        Error::Expression {
            text: self.text.to_owned(),
            column: self.token_at + 1,
            what: what.into(),
        }
    }

    /// Counts a node, and refuses too many.
    fn node(&mut self, node: Node<String>) -> Result<Node<String>> {
        self.nodes += 1;
        match self.nodes <= NODES_MAX {
            true => Ok(node),
            false => Err(self.error(format!("more than {NODES_MAX} operands and operators"))),
        }
    }

    /// Whether the token is this symbol or word.
    fn is(&self, wanted: &str) -> bool {
        match &self.token {
            Token::Symbol(symbol) => *symbol == wanted,
            Token::Word(word) => word == wanted,
            _ => false,
        }
    }

    /// Parses an expression of operators that bind at least as tightly as `level`.
    fn level(&mut self, level: usize) -> Result<Node<String>> {
        let Some(operators) = LEVELS.get(level) else {
            return self.prefix();
        };
        let mut left = self.level(level + 1)?;
        loop {
            if level == 2 && self.is("is") {
                left = self.is_null(left)?;
                continue;
            }
            let Some(&(_, operator)) = operators.iter().find(|(name, _)| self.is(name)) else {
                return Ok(left);
            };
            self.advance()?;
            let right = self.level(level + 1)?;
            left = self.node(Node::Binary(operator, Box::new(left), Box::new(right)))?;
        }
    }

    /// Parses the part after an operand that starts with `is`.
    fn is_null(&mut self, operand: Node<String>) -> Result<Node<String>> {
        self.advance()?;
        let negated = self.is("not");
        if negated {
            self.advance()?;
        }
        if !self.is("null") {
            return Err(self.error("expected null or not null"));
        }
        self.advance()?;
        let node = self.node(Node::IsNull(Box::new(operand)))?;
        if negated { self.node(Node::Not(Box::new(node))) } else { Ok(node) }
    }

    /// Parses prefix operators and an operand.
    fn prefix(&mut self) -> Result<Node<String>> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.error("nested too deeply"));
        }
        let node = if self.is("!") || self.is("not") {
            // As in SQL, `not a == b` negates the comparison. As in C, `!a == b` negates only the
            // left side.
            let level = if self.is("not") { 2 } else { LEVELS.len() };
            self.advance()?;
            let inner = self.level(level)?;
            self.node(Node::Not(Box::new(inner)))?
        } else if self.is("-") {
            self.advance()?;
            let inner = self.prefix()?;
            self.node(Node::Negate(Box::new(inner)))?
        } else {
            self.operand()?
        };
        self.depth -= 1;
        Ok(node)
    }

    fn operand(&mut self) -> Result<Node<String>> {
        let node = match std::mem::replace(&mut self.token, Token::End) {
            Token::Int(value) => Node::Int(value),
            Token::Double(value) => Node::Double(value),
            Token::Text(bytes) => Node::Bytes(bytes),
            Token::Quoted(name) => Node::Field(name),
            Token::Word(word) => match word.as_str() {
                "null" => Node::Null,
                "true" => Node::Bool(true),
                "false" => Node::Bool(false),
                "@type" => Node::TypeName,
                "is" | "and" | "or" | "like" | "contains" => {
                    return Err(self.error("expected a value here"));
                }
                _ if word.starts_with('@') => return Err(self.error("only @type is known")),
                _ => Node::Field(word),
            },
            Token::Symbol("(") => {
                self.advance()?;
                let inner = self.level(0)?;
                if !self.is(")") {
                    return Err(self.error("expected a closing parenthesis"));
                }
                inner
            }
            Token::Symbol(_) | Token::End => return Err(self.error("expected a value here")),
        };
        self.advance()?;
        self.node(node)
    }

    /// Scans the next token.
    fn advance(&mut self) -> Result<()> {
        let rest = &self.text[self.at..];
        let trimmed = rest.trim_start();
        self.token_at = self.at + (rest.len() - trimmed.len());
        self.at = self.token_at;
        let Some(first) = trimmed.chars().next() else {
            self.token = Token::End;
            return Ok(());
        };
        let starts_number = first.is_ascii_digit()
            || first == '.' && trimmed[1..].starts_with(|next: char| next.is_ascii_digit());
        self.token = if starts_number {
            self.scan_number(trimmed)?
        } else if first == '"' || first == '\'' {
            self.scan_text(trimmed)?
        } else if first == '`' {
            let name = trimmed[1..].split('`').next().unwrap_or_default();
            if name.len() + 2 > trimmed.len() {
                return Err(self.error("the name has no closing backquote"));
            }
            self.at += name.len() + 2;
            Token::Quoted(name.to_owned())
        } else if first.is_alphabetic() || first == '_' || first == '@' {
            let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | ':');
            let end = trimmed[first.len_utf8()..]
                .find(|c| !is_part(c))
                .map_or(trimmed.len(), |end| end + first.len_utf8());
            self.at += end;
            Token::Word(trimmed[..end].to_owned())
        } else {
            let symbol = SYMBOLS.into_iter().find(|symbol| trimmed.starts_with(symbol));
            let symbol = symbol.ok_or_else(|| self.error(format!("unexpected {first:?}")))?;
            self.at += symbol.len();
            Token::Symbol(symbol)
        };
        Ok(())
    }

    fn scan_number(&mut self, text: &str) -> Result<Token> {
        let mut end = 0;
        let bytes = text.as_bytes();
        while end < bytes.len() {
            let after_exponent =
                end > 0 && matches!(bytes[end - 1], b'e' | b'E') && !text.starts_with("0x");
            match bytes[end] {
                b'.' | b'_' => {}
                b'+' | b'-' if after_exponent => {}
                other if other.is_ascii_alphanumeric() => {}
                _ => break,
            }
            end += 1;
        }
        self.at += end;
        let digits = text[..end].replace('_', "");
        let parsed = match digits.strip_prefix("0x") {
            // All 64 bits can be written, so that addresses in the upper half of the range are
            // possible.
            Some(hex) => u64::from_str_radix(hex, 16).ok().map(|value| Token::Int(value as i64)),
            None => {
                let whole = digits.parse().ok().map(Token::Int);
                whole.or_else(|| digits.parse().ok().map(Token::Double))
            }
        };
        parsed.ok_or_else(|| self.error("not a number"))
    }

    fn scan_text(&mut self, text: &str) -> Result<Token> {
        let quote = text.as_bytes()[0];
        let mut value = Vec::new();
        let mut bytes = text.bytes().enumerate().skip(1);
        while let Some((at, byte)) = bytes.next() {
            if byte == quote {
                self.at += at + 1;
                return Ok(Token::Text(value));
            }
            if byte != b'\\' {
                value.push(byte);
                continue;
            }
            let escaped = bytes.next().map(|(_, byte)| byte);
            value.push(match escaped {
                Some(b'n') => b'\n',
                Some(b't') => b'\t',
                Some(b'r') => b'\r',
                Some(b'0') => 0,
                Some(b'x') => {
                    let mut digit =
                        || bytes.next().and_then(|(_, byte)| char::from(byte).to_digit(16));
                    match (digit(), digit()) {
                        (Some(high), Some(low)) => (high * 16 + low) as u8,
                        _ => return Err(self.error("\\x needs two hexadecimal digits")),
                    }
                }
                Some(same @ (b'\\' | b'"' | b'\'')) => same,
                _ => return Err(self.error("unknown escape in the string")),
            });
        }
        Err(self.error("the string has no closing quote"))
    }
}
