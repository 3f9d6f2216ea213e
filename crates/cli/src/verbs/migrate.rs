//! `runcue migrate`: makes the schema of a store, or brings it up to date, before anybody opens it.

use crate::app::App;
use crate::exit::Exit;
use crate::store::Access;
use crate::trouble::Trouble;
use crate::view::MigrateView;

/// Flags of `migrate`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Makes the schema or upgrades it.
pub async fn run(_: Args, app: &App) -> Result<Exit, Trouble> {
    let address = app.address()?;
    let store = address.to_string();
    let (view, told) = match address.migrate().await? {
        Some((found, schema)) => {
            let told = match found {
                0 => format!("{store}: made the schema, version {schema}"),
                found if found == schema => {
                    format!("{store}: nothing to do, the schema is of version {schema}")
                }
                found => format!("{store}: upgraded the schema from version {found} to {schema}"),
            };
            let changed = found != schema;
            (MigrateView { store, found: Some(found), schema: Some(schema), changed }, told)
        }
        None => {
            // Opening it is all there is to do: it refuses what it cannot bring up to date.
            app.open(&address, Access::Existing)?;
            let told =
                format!("{store}: nothing to do, this store is up to date once it is opened");
            (MigrateView { store, found: None, schema: None, changed: false }, told)
        }
    };
    if app.out.json {
        app.out.document(&view)?;
    } else {
        app.out.say(told)?;
    }
    Ok(Exit::Ok)
}
