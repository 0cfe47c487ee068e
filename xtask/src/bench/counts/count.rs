//! A count and its name.

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

    /// Returns the workload in the name.
    pub fn workload(&self) -> &str {
        workload(&self.name)
    }
}

/// Returns the first part of a name, which is the workload.
pub fn workload(name: &str) -> &str {
    name.split('.').next().unwrap_or_default()
}
