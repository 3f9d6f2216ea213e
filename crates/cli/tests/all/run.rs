//! Running files and workers.
