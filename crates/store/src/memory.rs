//! placeholder
/// The memory store.
pub struct MemoryStore;
