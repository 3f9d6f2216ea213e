//! Statements that go to the server together, without waiting for each other's answers.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::future::join_all;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row, Statement};

use crate::failure::is_aftermath;

/// A value for a statement, with its type, so that nothing has to be asked about it.
pub type Value<'a> = (&'a (dyn ToSql + Sync), Type);

/// A column of rows as a value. No rows are nothing at all: the server takes each array apart that it is given for a
/// function, and most commits leave a hundred empty.
pub fn column<T>(rows: &Vec<T>, of: Type) -> Value<'_>
where
    T: ToSql + Sync,
{
    if rows.is_empty() { (&None::<Vec<T>>, of) } else { (rows, of) }
}

type Answer<'a> = Pin<Box<dyn Future<Output = Result<Vec<Row>, Error>> + 'a>>;

/// A statement as the connection knows it.
#[derive(Clone)]
pub enum Text {
    /// Parsed once, and after a few times planned once.
    Prepared(Statement),
    /// Parsed and planned each time: behind a pooler the next transaction may run on another connection.
    Plain(Arc<str>),
}

impl Text {
    /// Runs it.
    pub async fn query(&self, client: &Client, values: &[Value<'_>]) -> Result<Vec<Row>, Error> {
        match self {
            Self::Prepared(statement) => {
                let values: Vec<&(dyn ToSql + Sync)> =
                    values.iter().map(|(value, _)| *value).collect();
                client.query(statement, &values).await
            }
            Self::Plain(sql) => client.query_typed(sql, values).await,
        }
    }
}

/// Statements that have not been sent yet.
pub struct Flight<'a> {
    client: &'a Client,
    statements: Vec<Answer<'a>>,
}

/// The rows of every statement, in the order they were added.
pub struct Landed(std::vec::IntoIter<Vec<Row>>);

impl Landed {
    /// The rows of the next statement.
    pub fn next(&mut self) -> Vec<Row> {
        self.0.next().unwrap_or_default()
    }

    /// The next statement had no rows that matter.
    pub fn skip(&mut self) {
        self.0.next();
    }
}

impl<'a> Flight<'a> {
    pub fn new(client: &'a Client) -> Self {
        Self { client, statements: Vec::new() }
    }

    /// Adds a statement without values and rows.
    pub fn plain(&mut self, sql: &'a str) {
        let client = self.client;
        self.statements
            .push(Box::pin(async move { client.batch_execute(sql).await.map(|()| Vec::new()) }));
    }

    /// Adds a statement.
    pub fn ask(&mut self, text: &'a Text, values: Vec<Value<'a>>) {
        let client = self.client;
        self.statements.push(Box::pin(async move { text.query(client, &values).await }));
    }

    /// Sends all of them and waits for the answers. An error is that of the statement that failed first; those
    /// after it in the same transaction were not run.
    pub async fn land(self) -> Result<Landed, Error> {
        let mut rows = Vec::with_capacity(self.statements.len());
        let mut failed: Option<Error> = None;
        for answer in join_all(self.statements).await {
            match answer {
                Ok(answer) => rows.push(answer),
                Err(error) if failed.as_ref().is_none_or(is_aftermath) => failed = Some(error),
                Err(_) => {}
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(Landed(rows.into_iter())),
        }
    }
}
