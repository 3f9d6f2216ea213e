//! What PostgreSQL's errors mean to a caller: one line that names the fix.

use std::error::Error as _;

use runcue_store::StoreError;
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, SqlState};

use crate::connection::Options;

/// The state that `follow` fails with when somebody else has written.
const BEHIND: &str = "RC001";

/// Whether a commit was refused because somebody else has written.
pub fn is_behind(error: &Error) -> bool {
    error.code().is_some_and(|code| code.code() == BEHIND)
}

/// Whether a statement was not run because an earlier one of its transaction had failed.
pub fn is_aftermath(error: &Error) -> bool {
    error.code() == Some(&SqlState::IN_FAILED_SQL_TRANSACTION)
}

/// Whether a statement was prepared in another session than the one it was run in: connections are shared.
pub fn is_of_another_session(error: &Error) -> bool {
    let code = error.code();
    code == Some(&SqlState::INVALID_SQL_STATEMENT_NAME)
        || code == Some(&SqlState::DUPLICATE_PSTATEMENT)
}

/// Whether a statement did not fit what it was asked of: another runcue may have brought the schema further meanwhile.
pub fn is_of_another_schema(error: &Error) -> bool {
    let Some(code) = error.code().filter(|code| **code != SqlState::INSUFFICIENT_PRIVILEGE) else {
        return false;
    };
    // What is not there or is of another kind, a schema that is not there, and plans that must be made anew.
    ["42", "3F", "0A"].iter().any(|class| code.code().starts_with(class))
}

/// Whether settings of the session were refused when it began, as poolers do.
pub fn is_of_startup(error: &Error) -> bool {
    error.code() == Some(&SqlState::PROTOCOL_VIOLATION)
        && error.as_db_error().is_some_and(|error| error.message().contains("startup parameter"))
}

/// Whether a job that was to be inserted is there already.
pub fn is_known_id(error: &Error) -> bool {
    error.code() == Some(&SqlState::UNIQUE_VIOLATION)
        && error.as_db_error().and_then(DbError::constraint) == Some("job_id")
}

/// Says what an error of a store means.
pub fn explain(options: &Options, error: &Error) -> StoreError {
    match error.as_db_error() {
        Some(told) => explain_told(options, told),
        None => explain_silent(options, error),
    }
}

/// What the server said.
fn explain_told(options: &Options, error: &DbError) -> StoreError {
    let place = options.place();
    let message = one_line(error.message());
    let bad = |why: String| StoreError::BadAddress { place: place.clone(), why };
    let code = error.code();
    if *code == SqlState::INVALID_PASSWORD || *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION
    {
        return bad(format!("{message}; check the user and the password in the address"));
    }
    if *code == SqlState::INVALID_CATALOG_NAME {
        return bad(format!(
            "{message}; create it with `createdb`, or name another in the address"
        ));
    }
    if *code == SqlState::INSUFFICIENT_PRIVILEGE {
        let schema = &options.schema;
        return StoreError::ReadOnly {
            place,
            why: format!(
                "{message}; grant the user CREATE on the database, or USAGE on schema {schema} and all \
                 rights on what is in it"
            ),
        };
    }
    if *code == SqlState::READ_ONLY_SQL_TRANSACTION {
        let why =
            "the server only reads (a standby, or default_transaction_read_only is on); name the \
                   primary in the address"
                .to_owned();
        return StoreError::ReadOnly { place, why };
    }
    if *code == SqlState::UNDEFINED_TABLE
        || *code == SqlState::UNDEFINED_FUNCTION
        || *code == SqlState::INVALID_SCHEMA_NAME
        || *code == SqlState::UNDEFINED_COLUMN
    {
        let why = format!("{message}; make or upgrade the schema with `runcue migrate`");
        return bad(why);
    }
    if *code == SqlState::DISK_FULL {
        return StoreError::DiskFull { place };
    }
    if *code == SqlState::TOO_MANY_CONNECTIONS {
        return StoreError::Unavailable(format!(
            "{place}: {message}; raise max_connections, or put a pooler in between and say pooler=on"
        ));
    }
    if *code == SqlState::LOCK_NOT_AVAILABLE {
        return StoreError::Unavailable(format!(
            "{place}: another daemon has kept its turn for too long; it is let go by itself"
        ));
    }
    if *code == SqlState::DATA_CORRUPTED || *code == SqlState::INDEX_CORRUPTED {
        let why = format!("{message}; stop all daemons and restore a backup");
        return StoreError::Corrupt { place, why };
    }
    StoreError::Unavailable(format!("{place}: {message}"))
}

/// What went wrong without a word of the server's.
fn explain_silent(options: &Options, error: &Error) -> StoreError {
    let place = options.place();
    let cause = error.source().map(ToString::to_string).unwrap_or_default();
    let text = error.to_string();
    if text.contains("TLS handshake") || text.contains("does not support TLS") {
        let why = if cause.contains("does not support TLS") || text.contains("does not support TLS")
        {
            "the server does not speak TLS; switch it on there (ssl = on), or say sslmode=disable"
                .to_owned()
        } else if cause.contains("not valid for name") {
            "the server's certificate is for another host; write the name that stands in it into the address, or \
             say sslmode=verify-ca"
                .to_owned()
        } else {
            format!(
                "TLS failed: {}; name the authority's certificate with sslrootcert, or choose another sslmode",
                one_line(&cause)
            )
        };
        return StoreError::BadAddress { place, why };
    }
    if text.contains("invalid configuration")
        || text.contains("password missing")
        || cause.contains("password")
    {
        let why = format!(
            "{}; check the user and the password in the address",
            one_line(&format!("{text} {cause}"))
        );
        return StoreError::BadAddress { place, why };
    }
    let detail = if cause.is_empty() { one_line(&text) } else { one_line(&cause) };
    StoreError::Unavailable(format!("{place} cannot be reached: {detail}; check that it runs"))
}

/// A stored value that does not read back.
pub fn unreadable(options: &Options, what: &str, why: impl std::fmt::Display) -> StoreError {
    let why = format!("{what}: {why}; stop all daemons and restore a backup");
    StoreError::Corrupt { place: options.place(), why }
}

fn one_line(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}
