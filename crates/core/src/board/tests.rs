//! Properties of the board against a small model that looks at every job.
