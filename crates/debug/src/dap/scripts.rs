//! Frames of Python in the stack of a thread. They replace the native frames that evaluate them.

use retake_python::{Frame, Variable};
use serde::Deserialize;
use serde_json::{Value, json};

/// A frame of Python, and the level of the native frame that evaluates it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Script {
    pub level: i64,
    #[serde(flatten)]
    pub frame: Frame,
}

impl Script {
    /// The frame as a client gets it.
    pub fn told(&self, id: usize) -> Value {
        let Frame { function, file, line, .. } = &self.frame;
        let mut told = json!({
            "id": id,
            "name": function,
            "line": line.unwrap_or_default(),
            "column": 0,
        });
        if file.starts_with('<') {
            told["presentationHint"] = "subtle".into();
        } else {
            told["source"] = json!({"name": file.rsplit('/').next(), "path": file});
        }
        told
    }

    fn all(&self) -> impl Iterator<Item = &Variable> {
        self.frame.arguments.iter().chain(&self.frame.locals)
    }

    /// The variables as a client gets them.
    pub fn variables(&self) -> Vec<Value> {
        self.all()
            .map(|one| {
                json!({"name": one.name, "value": one.value, "evaluateName": one.name,
                    "variablesReference": 0})
            })
            .collect()
    }

    /// The value of a variable.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.all().find(|one| one.name == name).map(|one| one.value.as_str())
    }
}
