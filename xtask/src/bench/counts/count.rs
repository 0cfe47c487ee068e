//! A number that was counted, and what it is a count of.

/// One count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    /// `WORKLOAD.MODE.WHAT`.
    pub name: String,
    pub count: u64,
}

impl Count {
    pub fn new(name: String, count: u64) -> Self {
        Self { name, count }
    }

    /// What it is a count of.
    pub fn workload(&self) -> &str {
        workload(&self.name)
    }
}

/// The first part of a name.
pub fn workload(name: &str) -> &str {
    name.split('.').next().unwrap_or_default()
}
