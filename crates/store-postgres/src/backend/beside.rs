//! Reading beside a commit, on a connection of its own: the server can do both at once, and the writer's thread decodes
//! what was read while it waits for the commit anyway.
//!
//! What is read counts only if it is of the revision that the commit follows, or of the commit's own. Whatever goes wrong
//! here costs time and nothing else: the jobs are then asked for when they are needed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use runcue_core::Job;
use runcue_store::overlay::ReadyQuestion;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Statement};

use super::SETTINGS;
use super::questions::{AFTER_JOB, READY_OF_ONE, ReadyColumns};
use crate::connection::Options;
use crate::rows::{self, unsigned};

/// How long a commit that is done waits for what is read beside it.
const PATIENCE: Duration = Duration::from_millis(50);
/// After a connection that could not be opened, none is for so long.
const PAUSE: Duration = Duration::from_secs(60);

/// A connection that only reads.
struct Ready {
    client: Client,
    statement: Statement,
}

/// Jobs as of a revision.
struct Read {
    revision: u64,
    jobs: Vec<Job>,
}

/// What a task beside the commit is for.
enum Task {
    Connecting(JoinHandle<Option<Ready>>),
    Reading(JoinHandle<Option<Read>>, u64),
}

/// The connection beside the writer's.
#[derive(Default)]
pub(super) struct Beside {
    ready: Option<Arc<Ready>>,
    task: Option<Task>,
    not_before: Option<Instant>,
}

impl Beside {
    /// Begins to read. The first time it only connects.
    pub fn begin(
        &mut self,
        runtime: &Runtime,
        options: &Options,
        question: &ReadyQuestion,
        known: u64,
    ) {
        // What was read beside a commit that came to nothing is not an answer to this.
        self.task.take_if(|task| matches!(task, Task::Reading(..)));
        if options.pooler() || self.not_before.is_some_and(|at| at > Instant::now()) {
            return;
        }
        self.ready.take_if(|ready| ready.client.is_closed());
        match (&self.ready, &self.task) {
            (None, Some(Task::Connecting(_))) => {}
            (None, _) => {
                let options = options.clone();
                self.task = Some(Task::Connecting(runtime.spawn(connect(options))));
            }
            (Some(ready), _) => {
                let (ready, mut columns) = (Arc::clone(ready), ReadyColumns::default());
                columns.add(question);
                self.task = Some(Task::Reading(runtime.spawn(read(ready, columns)), known));
            }
        }
    }

    /// Whether nobody has to wait for what came of it.
    pub fn is_done(&self) -> bool {
        match &self.task {
            Some(Task::Reading(task, _)) => task.is_finished(),
            Some(Task::Connecting(task)) => task.is_finished(),
            None => false,
        }
    }

    /// Whether there is a connection to read over.
    pub fn is_ready(&self) -> bool {
        self.ready.as_ref().is_some_and(|ready| !ready.client.is_closed())
    }

    /// What was read since it began, if it can be relied on.
    pub fn end(&mut self, runtime: &Runtime) -> Option<Vec<Job>> {
        match self.task.take()? {
            // It goes on with the next commit.
            Task::Connecting(task) if !task.is_finished() => {
                self.task = Some(Task::Connecting(task));
                None
            }
            Task::Connecting(task) => {
                self.ready = runtime.block_on(task).ok().flatten().map(Arc::new);
                self.not_before = self.ready.is_none().then(|| Instant::now() + PAUSE);
                None
            }
            Task::Reading(task, known) => {
                let read = runtime.block_on(async { tokio::time::timeout(PATIENCE, task).await });
                let Ok(Ok(Some(read))) = read else {
                    self.ready = None;
                    return None;
                };
                (known..=known + 1).contains(&read.revision).then_some(read.jobs)
            }
        }
    }

    /// Forgets the connection, as after the loss of the writer's own.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

async fn connect(options: Options) -> Option<Ready> {
    let (client, connection) = options.connect_with(&SETTINGS).await.ok()??;
    tokio::spawn(connection);
    let revision = "1::bigint, (SELECT max(revision) FROM runcue.turn)";
    let with_revision = READY_OF_ONE.replacen("1::bigint", revision, 1);
    let sql = options.sql(&with_revision);
    let statement = client.prepare_typed(&sql, &[const { Type::INT8 }; 4]).await.ok()?;
    Some(Ready { client, statement })
}

/// Every row says which revision the statement saw; without one nothing can be relied on.
async fn read(ready: Arc<Ready>, columns: ReadyColumns) -> Option<Read> {
    let values = columns.values().map(|(value, _)| value as &(dyn ToSql + Sync));
    let rows = ready.client.query(&ready.statement, &values).await.ok()?;
    let revision = rows.first().map_or(0, |row| unsigned(row.get(AFTER_JOB + 1)));
    let jobs = rows.iter().map(rows::job).collect::<Result<Vec<Job>, _>>().ok()?;
    Some(Read { revision, jobs })
}
