//! Reads a job that somebody wrote by hand, and refuses what would be ignored otherwise: a field that no job has is
//! most likely a misspelt one. Fronts that read other objects as strictly learn from here which fields those have.

use serde::de::{Deserialize, Deserializer, Error as _, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::Value;

use crate::capability::Requires;
use crate::job::JobSpec;
use crate::retry::RetryPolicy;
use crate::service::Use;

/// Reads a job as JSON.
///
/// # Errors
/// One line that names the field.
pub fn job(text: &str) -> Result<JobSpec, String> {
    let spec = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    match unknown(&value) {
        Some(field) => Err(format!("{field} is no field of a job")),
        None => Ok(spec),
    }
}

/// The first field that means nothing, with the path to it.
fn unknown(job: &Value) -> Option<String> {
    let below = |name: &str, fields| {
        let found = strange(job.get(name)?, fields)?;
        Some(format!("{name}.{found}"))
    };
    let in_services = || {
        let services = job.get("services")?.as_array()?;
        let found = services.iter().find_map(|one| strange(one, fields_of::<Use>()))?;
        Some(format!("services.{found}"))
    };
    strange(job, fields_of::<JobSpec>())
        .or_else(|| below("retry", fields_of::<RetryPolicy>()))
        .or_else(|| below("requires", fields_of::<Requires>()))
        .or_else(in_services)
}

fn strange(value: &Value, fields: &[&str]) -> Option<String> {
    let mut names = value.as_object()?.keys();
    names.find(|name| !fields.contains(&name.as_str())).cloned()
}

/// The fields of a struct, as serde knows them: nothing has to be listed a second time.
pub fn fields_of<'de, T: Deserialize<'de>>() -> &'static [&'static str] {
    let mut names = Names(&[]);
    // It only looks at what it is asked for and answers nothing.
    let _ = T::deserialize(&mut names);
    names.0
}

struct Names(&'static [&'static str]);

impl<'de> Deserializer<'de> for &mut Names {
    type Error = serde::de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(Self::Error::custom("not a struct"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Self::Error> {
        self.0 = fields;
        Err(Self::Error::custom("only asked"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "00000000000000000000000000000001";

    fn read(rest: &str) -> Result<JobSpec, String> {
        job(&format!(r#"{{"id": "{ID}", "task": "t"{rest}}}"#))
    }

    #[test]
    fn a_job_with_fields_that_there_are_is_read() {
        let spec = read(
            r#", "priority": 3, "params": {"anything": {"goes": 1}}, "retry": {"max_attempts": 2},
               "services": [{"service": "api", "units": 2}], "requires": {"tags": ["gpu"]}"#,
        );
        assert_eq!(spec.unwrap().priority, 3);
    }

    #[test]
    fn a_field_that_there_is_not_is_named_wherever_it_stands() {
        for (rest, field) in [
            (r#", "prioritty": 3"#, "prioritty"),
            (r#", "retry": {"attempts": 2}"#, "retry.attempts"),
            (r#", "services": [{"service": "api", "cost": 2}]"#, "services.cost"),
            (r#", "requires": {"tag": ["gpu"]}"#, "requires.tag"),
        ] {
            let why = read(rest).unwrap_err();
            assert_eq!(why, format!("{field} is no field of a job"));
        }
    }

    #[test]
    fn what_is_no_job_at_all_says_why() {
        assert!(job("{}").unwrap_err().contains("missing field"));
        assert!(job("[1]").is_err());
    }
}
