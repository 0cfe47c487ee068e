//! Variables and expressions, which gdb keeps as objects that have children.

use super::adapter::{Adapter, Answer};
use super::mi::{self, quoted};
use super::protocol::{Evaluate, Variables};
use serde_json::{Value, json};

/// More are not shown at once.
const MOST_CHILDREN: i64 = 1000;
/// Labels in a class, which gdb shows as children.
const ACCESSES: [&str; 3] = ["public", "protected", "private"];
/// The names of vector registers' parts are of no use to people; these are what processors are
/// known for.
const SHOWN_REGISTERS: usize = 24;

/// What a client can ask the variables of.
#[derive(Debug, Clone)]
pub(super) enum Reference {
    /// Of a frame, as gdb wants it.
    Locals(String),
    Registers(String),
    /// An object of gdb's.
    Object(String),
}

impl Adapter<'_> {
    /// The number by which the client asks for it.
    pub(super) fn refer(&mut self, reference: Reference) -> usize {
        self.references.push(reference);
        self.references.len()
    }

    fn reference(&self, number: i64) -> Result<Reference, String> {
        let found = usize::try_from(number - 1).ok().and_then(|index| self.references.get(index));
        found.cloned().ok_or_else(|| "the program has gone on since".to_owned())
    }

    pub(super) fn variables(&mut self, asked: &Variables) -> Answer {
        let variables = match self.reference(asked.variables_reference)? {
            Reference::Locals(place) => self.locals(&place)?,
            Reference::Registers(place) => self.registers(&place)?,
            Reference::Object(name) => {
                let start = asked.start.unwrap_or(0).max(0);
                let count = asked
                    .count
                    .filter(|count| *count > 0)
                    .unwrap_or(MOST_CHILDREN)
                    .min(MOST_CHILDREN);
                self.children(&name, start, start + count)?
            }
        };
        Ok(json!({"variables": variables}))
    }

    fn locals(&mut self, place: &str) -> Result<Vec<Value>, String> {
        let listed = self.mi(&format!("-stack-list-variables {place} --no-values"))?;
        let mut variables = Vec::new();
        let mut seen = Vec::new();
        for variable in mi::list(&listed, "variables") {
            let name = mi::text(variable, "name");
            // Inner ones come first; gdb knows the outer ones of that name only by place.
            if seen.contains(&name) {
                continue;
            }
            seen.push(name);
            variables.push(match self.object(place, name) {
                Ok(object) => self.variable(name, Some(name), &object),
                Err(error) => {
                    json!({"name": name, "value": format!("<{error}>"), "variablesReference": 0})
                }
            });
        }
        Ok(variables)
    }

    fn registers(&mut self, place: &str) -> Result<Vec<Value>, String> {
        let names = self.mi("-data-list-register-names")?;
        let numbers: Vec<String> = (0..SHOWN_REGISTERS).map(|number| number.to_string()).collect();
        let values =
            self.mi(&format!("-data-list-register-values {place} r {}", numbers.join(" ")))?;
        let names = mi::list(&names, "register-names");
        let variables = mi::list(&values, "register-values").iter().filter_map(|register| {
            let name =
                names.get(usize::try_from(mi::number(register, "number")?).ok()?)?.as_str()?;
            Some(json!({"name": name, "value": mi::text(register, "value"),
                "evaluateName": format!("${name}"), "variablesReference": 0}))
        });
        Ok(variables.collect())
    }

    fn children(&mut self, name: &str, from: i64, to: i64) -> Result<Vec<Value>, String> {
        let listed =
            self.mi(&format!("-var-list-children --all-values {} {from} {to}", quoted(name)))?;
        let mut variables = Vec::new();
        for child in mi::list(&listed, "children") {
            let label = mi::text(child, "exp");
            if ACCESSES.contains(&label) && mi::text(child, "type").is_empty() {
                variables.extend(self.children(mi::text(child, "name"), 0, MOST_CHILDREN)?);
            } else {
                variables.push(self.variable(label, None, child));
            }
        }
        Ok(variables)
    }

    /// An object for an expression.
    fn object(&mut self, place: &str, expression: &str) -> Answer {
        let object = self.mi(&format!("-var-create {place} - * {}", quoted(expression)))?;
        self.objects.push(mi::text(&object, "name").to_owned());
        Ok(object)
    }

    fn variable(&mut self, label: &str, expression: Option<&str>, object: &Value) -> Value {
        let has_children =
            mi::number(object, "numchild").unwrap_or(0) > 0 || mi::text(object, "dynamic") == "1";
        let reference = if has_children {
            self.refer(Reference::Object(mi::text(object, "name").to_owned()))
        } else {
            0
        };
        let mut told = json!({
            "name": label,
            "value": mi::text(object, "value"),
            "type": mi::text(object, "type"),
            "variablesReference": reference,
        });
        if let Some(expression) = expression {
            told["evaluateName"] = expression.into();
        }
        told
    }

    /// An expression for something that the client shows.
    pub(super) fn expression_of(&mut self, reference: i64, name: &str) -> Result<String, String> {
        let Reference::Object(parent) = self.reference(reference)? else {
            return Ok(name.to_owned());
        };
        let listed =
            self.mi(&format!("-var-list-children {} 0 {MOST_CHILDREN}", quoted(&parent)))?;
        let child = mi::list(&listed, "children")
            .iter()
            .find(|child| mi::text(child, "exp") == name)
            .ok_or("there is no such variable")?;
        let path =
            self.mi(&format!("-var-info-path-expression {}", quoted(mi::text(child, "name"))))?;
        Ok(mi::text(&path, "path_expr").to_owned())
    }

    /// An expression; in the console also a command, of gdb's or ours.
    pub(super) fn evaluate(&mut self, asked: &Evaluate) -> Answer {
        let place = asked.frame_id.map_or(Ok(String::new()), |frame| self.place_of(frame))?;
        let error = match self.object(&place, &asked.expression) {
            Ok(object) => {
                let told = self.variable("", Some(&asked.expression), &object);
                return Ok(json!({"result": told["value"], "type": told["type"],
                        "variablesReference": told["variablesReference"]}));
            }
            Err(error) => error,
        };
        if asked.context.as_deref() != Some("repl") {
            return Err(error);
        }
        if !place.is_empty() {
            // Commands look at the frame that the client shows.
            self.mi(&format!("-stack-info-frame {place}"))?;
        }
        self.holds_stops = true;
        let answer = self.console(&asked.expression);
        if self.running.is_some() {
            self.wait_for_stop();
        }
        self.holds_stops = false;
        if let Some(stop) = self.held_stop.take() {
            self.forget_values();
            self.stopped(stop);
        }
        Ok(json!({"result": answer?.trim_end(), "variablesReference": 0}))
    }

    /// What gdb keeps for the client is of no use once the program goes on.
    pub(super) fn forget_values(&mut self) {
        for object in std::mem::take(&mut self.objects) {
            // Children go with their parents, and objects with their frames.
            let _ = self.mi(&format!("-var-delete {}", quoted(&object)));
        }
        self.forget_frames();
    }
}
