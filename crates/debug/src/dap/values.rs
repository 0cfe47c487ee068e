//! Variables and expressions, which gdb keeps as objects with children.

use super::client::Answer;
use super::debugger::Debugger;
use super::mi::{self, quoted};
use super::protocol::{Evaluate, Variables};
use super::shown::Reference;
use serde_json::{Value, json};

/// The most children shown at once.
const MOST_CHILDREN: i64 = 1000;
/// Labels in a class, which gdb lists as children.
const ACCESSES: [&str; 3] = ["public", "protected", "private"];
/// The number of registers shown. These are the ones that people know; the parts of vector
/// registers have unhelpful names.
const SHOWN_REGISTERS: usize = 24;

/// The variables of something that the client has been shown.
pub(super) fn variables(debugger: &mut Debugger, asked: &Variables) -> Answer {
    let variables = match debugger.shown.reference(asked.variables_reference)? {
        Reference::Locals(place) => locals(debugger, &place)?,
        Reference::Registers(place) => registers(debugger, &place)?,
        Reference::Script(variables) => variables,
        Reference::Object(name) => {
            let start = asked.start.unwrap_or(0).max(0);
            let count =
                asked.count.filter(|count| *count > 0).unwrap_or(MOST_CHILDREN).min(MOST_CHILDREN);
            children(debugger, &name, start, start + count)?
        }
    };
    Ok(json!({"variables": variables}))
}

fn locals(debugger: &mut Debugger, place: &str) -> Result<Vec<Value>, String> {
    let listed = debugger.mi(&format!("-stack-list-variables {place} --no-values"))?;
    let mut variables = Vec::new();
    let mut seen = Vec::new();
    for variable in mi::list(&listed, "variables") {
        let name = mi::text(variable, "name");
        // gdb lists inner variables first, and finds outer ones of the same name only by location.
        if seen.contains(&name) {
            continue;
        }
        seen.push(name);
        variables.push(match object(debugger, place, name) {
            Ok(object) => told(debugger, name, Some(name), &object),
            Err(error) => {
                json!({"name": name, "value": format!("<{error}>"), "variablesReference": 0})
            }
        });
    }
    Ok(variables)
}

fn registers(debugger: &mut Debugger, place: &str) -> Result<Vec<Value>, String> {
    let names = debugger.mi("-data-list-register-names")?;
    let numbers: Vec<String> = (0..SHOWN_REGISTERS).map(|number| number.to_string()).collect();
    let values =
        debugger.mi(&format!("-data-list-register-values {place} r {}", numbers.join(" ")))?;
    let names = mi::list(&names, "register-names");
    let variables = mi::list(&values, "register-values").iter().filter_map(|register| {
        let name = names.get(usize::try_from(mi::number(register, "number")?).ok()?)?.as_str()?;
        Some(json!({"name": name, "value": mi::text(register, "value"),
            "evaluateName": format!("${name}"), "variablesReference": 0}))
    });
    Ok(variables.collect())
}

fn children(debugger: &mut Debugger, name: &str, from: i64, to: i64) -> Result<Vec<Value>, String> {
    let listed =
        debugger.mi(&format!("-var-list-children --all-values {} {from} {to}", quoted(name)))?;
    let mut variables = Vec::new();
    for child in mi::list(&listed, "children") {
        let label = mi::text(child, "exp");
        if ACCESSES.contains(&label) && mi::text(child, "type").is_empty() {
            variables.extend(children(debugger, mi::text(child, "name"), 0, MOST_CHILDREN)?);
        } else {
            variables.push(told(debugger, label, None, child));
        }
    }
    Ok(variables)
}

/// Makes an object for an expression.
fn object(debugger: &mut Debugger, place: &str, expression: &str) -> Answer {
    let object = debugger.mi(&format!("-var-create {place} - * {}", quoted(expression)))?;
    debugger.shown.add_object(mi::text(&object, "name"));
    Ok(object)
}

fn told(debugger: &mut Debugger, label: &str, expression: Option<&str>, object: &Value) -> Value {
    let has_children =
        mi::number(object, "numchild").unwrap_or(0) > 0 || mi::text(object, "dynamic") == "1";
    let reference = if has_children {
        debugger.shown.refer(Reference::Object(mi::text(object, "name").to_owned()))
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

/// An expression for a variable that the client shows.
pub(super) fn expression_of(
    debugger: &mut Debugger,
    reference: i64,
    name: &str,
) -> Result<String, String> {
    let Reference::Object(parent) = debugger.shown.reference(reference)? else {
        return Ok(name.to_owned());
    };
    let listed =
        debugger.mi(&format!("-var-list-children {} 0 {MOST_CHILDREN}", quoted(&parent)))?;
    let child = mi::list(&listed, "children")
        .iter()
        .find(|child| mi::text(child, "exp") == name)
        .ok_or("there is no such variable")?;
    let path =
        debugger.mi(&format!("-var-info-path-expression {}", quoted(mi::text(child, "name"))))?;
    Ok(mi::text(&path, "path_expr").to_owned())
}

/// Evaluates an expression, or in the console a command of gdb or of ours.
pub(super) fn evaluate(debugger: &mut Debugger, asked: &Evaluate) -> Answer {
    let place = asked.frame_id.map_or(Ok(String::new()), |frame| debugger.shown.place_of(frame))?;
    let script = asked.frame_id.and_then(|frame| debugger.shown.script_of(frame));
    if let Some(value) = script.and_then(|script| script.value(&asked.expression)) {
        return Ok(json!({"result": value, "variablesReference": 0}));
    }
    let error = match object(debugger, &place, &asked.expression) {
        Ok(object) => {
            let shown = told(debugger, "", Some(&asked.expression), &object);
            return Ok(json!({"result": shown["value"], "type": shown["type"],
                    "variablesReference": shown["variablesReference"]}));
        }
        Err(error) => error,
    };
    if asked.context.as_deref() != Some("repl") {
        return Err(error);
    }
    if !place.is_empty() {
        // Commands use the frame that the client shows.
        debugger.mi(&format!("-stack-info-frame {place}"))?;
    }
    debugger.holds_stops = true;
    let answer = debugger.console(&asked.expression);
    if debugger.running.is_some() {
        debugger.wait_for_stop();
    }
    debugger.holds_stops = false;
    if let Some(stop) = debugger.held_stop.take() {
        debugger.forget_values();
        debugger.stopped(stop);
    }
    Ok(json!({"result": answer?.trim_end(), "variablesReference": 0}))
}
