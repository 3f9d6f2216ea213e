//! `runcue token`: who may use the hub. Tokens are kept with the queue as hashes; each is shown once.

use runcue_hub::Role;
use runcue_hub::tokens::{self, TokenError, TokenInfo};
use serde::Serialize;

use crate::app::App;
use crate::exit::Exit;
use crate::trouble::Trouble;
use crate::{clock, words};

/// Flags of `token`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Make a token and print it, the only time it is seen
    Create {
        /// What it is called
        name: String,
        /// What it may do: read, submit, work or admin
        #[arg(long, default_value = "admin", value_parser = role)]
        role: Role,
    },
    /// List tokens
    List,
    /// Take tokens back; hubs refuse them within a second
    Revoke {
        /// What they are called
        #[arg(required = true)]
        names: Vec<String>,
    },
}

fn role(word: &str) -> Result<Role, String> {
    Role::from_word(word).ok_or_else(|| "read, submit, work and admin are the roles".to_owned())
}

#[derive(Serialize)]
struct Created {
    name: String,
    role: Role,
    token: String,
}

#[derive(Serialize)]
struct Listed {
    tokens: Vec<TokenInfo>,
}

/// Makes, lists or takes back tokens.
pub async fn run(args: Args, app: &App) -> Result<Exit, Trouble> {
    match args.action {
        Action::Create { name, role } => {
            let store = app.new_store()?;
            let token =
                tokens::create(&*store, clock::now(), &name, role).await.map_err(trouble)?;
            if app.out.json {
                app.out.document(&Created { name, role, token })?;
            } else {
                app.out.say(&token)?;
                app.out.note(format!("token {name} ({}) is shown this once", role.as_str()));
            }
        }
        Action::List => {
            let known = tokens::list(&*app.store()?).await?;
            let tokens: Vec<TokenInfo> = known.iter().map(TokenInfo::from).collect();
            if app.out.json {
                app.out.document(&Listed { tokens })?;
            } else {
                for known in known {
                    let made = known.created_at.map(words::local).unwrap_or_default();
                    app.out.say(format!("{:<24} {:<7} {made}", known.name, known.role.as_str()))?;
                }
            }
        }
        Action::Revoke { names } => {
            let store = app.store()?;
            for name in names {
                tokens::revoke(&*store, clock::now(), &name).await.map_err(trouble)?;
                app.out.note(format!("token {name} is revoked"));
            }
            if app.out.json {
                let known = tokens::list(&*store).await?;
                app.out
                    .document(&Listed { tokens: known.iter().map(TokenInfo::from).collect() })?;
            }
        }
    }
    Ok(Exit::Ok)
}

fn trouble(error: TokenError) -> Trouble {
    match error {
        TokenError::Store(error) => error.into(),
        TokenError::Unknown(_) => {
            Trouble::failed(error.to_string()).help("`runcue token list` shows which there are")
        }
        other => Trouble::failed(other.to_string()),
    }
}
