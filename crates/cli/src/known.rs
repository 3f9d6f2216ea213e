//! Names that must be known: a group, task or service that is not there is answered with the nearest one
//! that is.

use runcue_core::{GroupName, ServiceName, TaskSpec, Timestamp, Use};
use runcue_store::Store;

use crate::nearest;
use crate::trouble::Trouble;

/// The group of this name, if it has or had jobs or is paused.
pub async fn group(store: &dyn Store, name: &str) -> Result<GroupName, Trouble> {
    let groups = store.groups().await?;
    let names: Vec<&str> = groups.iter().flat_map(|g| &g.name).map(GroupName::as_str).collect();
    if !names.contains(&name) {
        return Err(missing("group", name, &names));
    }
    Ok(GroupName::new(name)?)
}

/// The stored task of this name.
pub async fn task(store: &dyn Store, name: &str) -> Result<TaskSpec, Trouble> {
    let mut tasks = store.tasks().await?;
    if let Some(at) = tasks.iter().position(|task| task.name.as_str() == name) {
        return Ok(tasks.swap_remove(at));
    }
    let names: Vec<&str> = tasks.iter().map(|task| task.name.as_str()).collect();
    Err(missing("task", name, &names))
}

/// Checks that every service used is defined.
pub async fn services(store: &dyn Store, now: Timestamp, uses: &[Use]) -> Result<(), Trouble> {
    if uses.is_empty() {
        return Ok(());
    }
    let services = store.services(now).await?;
    let names: Vec<&str> = services.iter().map(|service| service.spec.name.as_str()).collect();
    match uses.iter().find(|used| !names.contains(&used.service.as_str())) {
        Some(used) => Err(no_service(&used.service, &names)),
        None => Ok(()),
    }
}

fn no_service(name: &ServiceName, known: &[&str]) -> Trouble {
    let trouble = Trouble::usage(format!("there is no service {name}"));
    let near = nearest::nearest(name.as_str(), known.iter().copied());
    let near = near.map(|word| format!("did you mean {word}? Else ")).unwrap_or_default();
    trouble.help(format!("{near}define it first: runcue services set {name} --max-concurrent 5"))
}

/// A name that is not there.
pub fn missing(what: &str, name: &str, known: &[&str]) -> Trouble {
    let trouble = Trouble::usage(format!("there is no {what} {name}"));
    match nearest::advice(name, known.iter().copied()) {
        Some(advice) => trouble.help(advice),
        None => trouble.help(format!("there are no {what}s here yet")),
    }
}
