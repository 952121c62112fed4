use super::*;

impl EventView {
    /// A grant at this time.
    pub(crate) fn at(at_ms: u64) -> Self {
        let (name, mode, reason) = ("a".into(), "exclusive".into(), String::new());
        Self { at_ms, name, what: "granted", fence: None, by: None, mode, reason }
    }
}
