//! Whole files in, whole answers out: what is read (`good`), what is refused and how (`bad`), how
//! large it may be (`large`).

mod bad;
mod good;
mod large;

use super::*;

/// A YAML file that must be fine.
fn yaml(text: &str) -> RunFile {
    parse(text, Format::Yaml, "f.yaml").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The report on a YAML file that must be refused.
fn refused(text: &str) -> String {
    match parse(text, Format::Yaml, "f.yaml") {
        Err(error) => error.to_string(),
        Ok(_) => panic!("accepted:\n{text}"),
    }
}

fn ids(file: &RunFile) -> Vec<&str> {
    file.jobs.iter().map(|job| job.id.as_str()).collect()
}
