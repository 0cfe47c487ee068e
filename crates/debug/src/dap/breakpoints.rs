//! Breakpoints. A client sends all breakpoints of a source or a kind at once; gdb adds and removes
//! them one by one.

use super::client::Answer;
use super::debugger::Debugger;
use super::mi::{self, quoted};
use super::protocol::{
    Breakpoints as Wanted, DataBreakpoint, DataInfo, FunctionBreakpoint, SetBreakpoints,
};
use super::values::expression_of;
use serde_json::{Value, json};
use std::collections::HashMap;

/// The client's breakpoints.
#[derive(Debug, Default)]
pub(super) struct Breakpoints {
    /// gdb's numbers, by the source or the kind.
    numbers: HashMap<String, Vec<i64>>,
}

impl Breakpoints {
    pub(super) fn set_in_source(
        &mut self,
        debugger: &mut Debugger,
        wanted: SetBreakpoints,
    ) -> Answer {
        let path = wanted.source.path.ok_or("a source without a path")?;
        let commands = wanted.breakpoints.iter().map(|one| {
            let place = format!("--source {} --line {}", quoted(&path), one.line);
            insertion(one.condition.as_deref(), one.hit_condition.as_deref(), &place)
        });
        self.replace(debugger, &path, commands.collect())
    }

    pub(super) fn set_at_functions(
        &mut self,
        debugger: &mut Debugger,
        wanted: Wanted<FunctionBreakpoint>,
    ) -> Answer {
        let commands = wanted.breakpoints.iter().map(|one| {
            let place = format!("--function {}", quoted(&one.name));
            insertion(one.condition.as_deref(), one.hit_condition.as_deref(), &place)
        });
        self.replace(debugger, "functions", commands.collect())
    }

    pub(super) fn set_at_exceptions(
        &mut self,
        debugger: &mut Debugger,
        arguments: &Value,
    ) -> Answer {
        let filters = mi::list(arguments, "filters").iter().filter_map(Value::as_str);
        let commands = filters
            .filter(|filter| matches!(*filter, "throw" | "catch"))
            .map(|filter| Ok(format!("-catch-{filter}")));
        self.replace(debugger, "exceptions", commands.collect())
    }

    pub(super) fn set_on_data(
        &mut self,
        debugger: &mut Debugger,
        wanted: Wanted<DataBreakpoint>,
    ) -> Answer {
        let commands = wanted.breakpoints.iter().map(|one| {
            let access = match one.access_type.as_deref() {
                Some("read") => "-r ",
                Some("readWrite") => "-a ",
                _ => "",
            };
            Ok(format!("-break-watch {access}{}", quoted(&one.data_id)))
        });
        self.replace(debugger, "data", commands.collect())
    }

    /// Replaces the breakpoints of a kind by these.
    fn replace(
        &mut self,
        debugger: &mut Debugger,
        kind: &str,
        commands: Vec<Result<String, String>>,
    ) -> Answer {
        let resumed = debugger.interrupt_for_a_moment();
        for number in self.numbers.remove(kind).unwrap_or_default() {
            // The user may have deleted it with a command.
            let _ = debugger.mi(&format!("-break-delete {number}"));
        }
        let (mut numbers, mut told) = (Vec::new(), Vec::new());
        for command in commands {
            match command.and_then(|command| debugger.mi(&command)) {
                Ok(results) => {
                    let breakpoint = ["bkpt", "wpt", "hw-rwpt", "hw-awpt"]
                        .iter()
                        .find_map(|name| results.get(*name))
                        .cloned()
                        .unwrap_or_default();
                    let number = mi::number(&breakpoint, "number").unwrap_or_default();
                    numbers.push(number);
                    told.push(describe(&breakpoint, number));
                }
                Err(message) => told.push(json!({"verified": false, "message": message})),
            }
        }
        self.numbers.insert(kind.to_owned(), numbers);
        if let Some(command) = resumed {
            debugger.execute(&command)?;
        }
        Ok(json!({"breakpoints": told}))
    }
}

fn insertion(condition: Option<&str>, hits: Option<&str>, place: &str) -> Result<String, String> {
    let mut command = "-break-insert -f ".to_owned();
    if let Some(condition) = condition.filter(|condition| !condition.trim().is_empty()) {
        command += &format!("-c {} ", quoted(condition));
    }
    if let Some(hits) = hits.map(str::trim).filter(|hits| !hits.is_empty()) {
        let count: u64 = hits.parse().map_err(|_| format!("{hits:?} is not a number of hits"))?;
        command += &format!("-i {} ", count.saturating_sub(1));
    }
    Ok(command + place)
}

fn describe(breakpoint: &Value, number: i64) -> Value {
    let place = mi::list(breakpoint, "locations").first().unwrap_or(breakpoint);
    let mut told = json!({"id": number, "verified": breakpoint.get("pending").is_none()});
    if let Some(line) = mi::number(place, "line") {
        told["line"] = line.into();
    }
    told
}

/// Describes a watchpoint. It watches an address, so that it also works where the name is out of
/// scope.
pub(super) fn watchable(debugger: &mut Debugger, asked: &DataInfo) -> Answer {
    let expression = match asked.variables_reference {
        Some(reference) => expression_of(debugger, reference, &asked.name)?,
        None => asked.name.clone(),
    };
    let none = |why: String| Ok(json!({"dataId": null, "description": why}));
    let address = match debugger.mi(&format!(
        "-data-evaluate-expression {}",
        quoted(&format!("(unsigned long) &({expression})"))
    )) {
        Ok(address) => mi::text(&address, "value").to_owned(),
        Err(error) => return none(error),
    };
    let Ok(kind) = debugger.console(&format!("whatis {expression}")) else {
        return none("it has no type".to_owned());
    };
    let kind = kind.trim().strip_prefix("type = ").unwrap_or_default().to_owned();
    let access_types = json!(["read", "write", "readWrite"]);
    Ok(json!({"dataId": format!("*({kind} *) {address}"), "description": expression,
            "accessTypes": access_types, "canPersist": false}))
}
