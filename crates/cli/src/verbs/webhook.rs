//! `runcue webhook`: who is told when jobs have ended. Webhooks are kept with the queue; the hubs on it make the
//! deliveries.

use runcue_core::{GroupName, StateWord, TaskName, Timestamp};
use runcue_hub::webhooks::{self, NewWebhook, WebhookError, WebhookInfo};
use serde::Serialize;

use crate::app::App;
use crate::exit::Exit;
use crate::trouble::Trouble;
use crate::{clock, words};

/// What a secret is given by. Other processes could read it among the words of a command.
const SECRET: &str = "RUNCUE_WEBHOOK_SECRET";

/// Flags of `webhook`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Make a webhook and print the secret that its deliveries are signed with, the only time it is seen
    #[command(after_help = "\
The secret is made here, unless RUNCUE_WEBHOOK_SECRET has one. Deliveries are made by the hubs on the queue: `runcue serve`.")]
    Add {
        /// Where deliveries go, by http or https
        url: String,
        /// How jobs end that it tells of, with commas: completed, failed, cancelled, quarantined [default: all]
        #[arg(long, value_name = "STATES", value_delimiter = ',', value_parser = ending)]
        events: Vec<StateWord>,
        /// Only jobs of this task
        #[arg(long)]
        task: Option<TaskName>,
        /// Only jobs of this group
        #[arg(long)]
        group: Option<GroupName>,
    },
    /// List webhooks
    List,
    /// Remove webhooks; their deliveries that wait are cancelled
    Remove {
        /// Their ids
        #[arg(required = true, value_name = "ID")]
        webhooks: Vec<String>,
    },
}

fn ending(word: &str) -> Result<StateWord, String> {
    let found = StateWord::from_word(word).filter(|state| state.is_final());
    found.ok_or_else(|| "jobs end as completed, failed, cancelled or quarantined".to_owned())
}

#[derive(Serialize)]
struct Listed {
    webhooks: Vec<WebhookInfo>,
}

/// Makes, lists or removes webhooks.
pub async fn run(args: Args, app: &App) -> Result<Exit, Trouble> {
    match args.action {
        Action::Add { url, events, task, group } => {
            let secret = std::env::var(SECRET).ok().filter(|secret| !secret.is_empty());
            let events = events.into_iter().collect();
            let new = NewWebhook { url, events, task, group, secret };
            let store = app.new_store()?;
            let made = webhooks::create(&*store, clock::now(), new).await.map_err(trouble)?;
            if app.out.json {
                app.out.document(&made)?;
            } else {
                app.out.say(&made.secret)?;
                let id = made.info.id;
                app.out.note(format!("webhook {id}; its secret is shown this once"));
            }
        }
        Action::List => {
            let webhooks = webhooks::list(&*app.store()?).await?;
            if app.out.json {
                app.out.document(&Listed { webhooks })?;
            } else {
                for webhook in webhooks {
                    app.out.say(line(&webhook))?;
                }
            }
        }
        Action::Remove { webhooks: ids } => {
            let store = app.store()?;
            for id in ids {
                webhooks::remove(&*store, clock::now(), &id).await.map_err(trouble)?;
                app.out.note(format!("webhook {id} is removed"));
            }
            if app.out.json {
                app.out.document(&Listed { webhooks: webhooks::list(&*store).await? })?;
            }
        }
    }
    Ok(Exit::Ok)
}

fn line(webhook: &WebhookInfo) -> String {
    let made = words::local(Timestamp::from_millis(webhook.created_at));
    let events: Vec<&str> = webhook.events.iter().map(|state| state.as_str()).collect();
    let mut line = format!("{}  {made}  {}  {}", webhook.id, webhook.url, events.join(","));
    for (name, only) in [
        ("task", webhook.task.as_ref().map(TaskName::as_str)),
        ("group", webhook.group.as_ref().map(GroupName::as_str)),
    ] {
        if let Some(only) = only {
            line.push_str(&format!("  {name} {only}"));
        }
    }
    line
}

fn trouble(error: WebhookError) -> Trouble {
    match error {
        WebhookError::Store(error) => error.into(),
        WebhookError::Unknown(_) => {
            Trouble::failed(error.to_string()).help("`runcue webhook list` shows which there are")
        }
        WebhookError::TooMany | WebhookError::NoBits(_) => Trouble::failed(error.to_string()),
        other => Trouble::usage(other.to_string()),
    }
}
