//! A look at the databases in one transaction, whether it reads or writes.

use heed::RoTxn;

use crate::connection::Db;

macro_rules! tables {
    ($($(#[$doc:meta])* $table:ident = $name:literal,)*) => {
        /// The databases of an environment.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Table {
            $($(#[$doc])* $table,)*
        }

        impl Table {
            /// Every one, in order.
            pub const ALL: &[Self] = &[$(Self::$table),*];

            /// Its name in the environment.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$table => $name,)*
                }
            }
        }
    };
}

tables! {
    /// The format, the revision and the numbers a store counts on with.
    Meta = "meta",
    /// A job's place → what a claim, a heartbeat and a finish touch.
    Job = "job",
    /// A job's place → what was asked for, as JSON.
    Body = "body",
    /// A job's place → what came of it, as JSON, if there is anything to say.
    Outcome = "outcome",
    /// A job's id → its place.
    Id = "id",
    /// Lane, priority, place → units, of jobs that wait for their turn.
    Ready = "ready",
    /// Kind, instant, place → for held jobs lane and worker.
    Due = "due",
    /// Instant, place of queued jobs with a deadline.
    Deadline = "deadline",
    /// A hash of an idempotency key → [[key, place], …].
    Idempotency = "idempotency",
    /// Prerequisite, dependent.
    Tie = "tie",
    /// Dependent, prerequisite.
    Tied = "tied",
    /// A lane → stamp, key as JSON.
    Lane = "lane",
    /// A hash of a lane's canonical form → [[form, lane], …].
    LaneId = "lane_id",
    /// Stamp, lane.
    LaneStamp = "lane_stamp",
    /// A group → stamp, JSON.
    Group = "group",
    /// A queue → stamp, JSON.
    Queue = "queue",
    /// A service → stamp, JSON.
    Service = "service",
    /// A number → instant, count, uses as JSON.
    Usage = "usage",
    /// A task → JSON.
    Task = "task",
    /// The key of a record of a front → JSON.
    Record = "record",
    /// A worker instance → JSON.
    Worker = "worker",
    /// A schedule → JSON.
    Schedule = "schedule",
    /// Instant, name of schedules that fire.
    Firing = "firing",
    /// The last number of a run of events → the first, the instant, the run as JSON.
    Event = "event",
    /// Place, number → output as JSON.
    Log = "log",
}

/// A look at the databases.
#[derive(Clone, Copy)]
pub struct View<'t> {
    /// The databases.
    pub tables: &'t [Db],
    /// The transaction.
    pub txn: &'t RoTxn<'t>,
}

impl<'t> View<'t> {
    /// A value.
    pub fn get(self, table: Table, key: &[u8]) -> heed::Result<Option<&'t [u8]>> {
        self.tables[table as usize].get(self.txn, key)
    }

    /// Entries whose key begins with something, in order.
    pub fn prefix(
        self,
        table: Table,
        prefix: &[u8],
    ) -> heed::Result<impl Iterator<Item = heed::Result<(&'t [u8], &'t [u8])>> + use<'t>> {
        self.tables[table as usize].prefix_iter(self.txn, prefix)
    }

    /// Entries from a key on, in order.
    pub fn from(
        self,
        table: Table,
        key: &[u8],
    ) -> heed::Result<impl Iterator<Item = heed::Result<(&'t [u8], &'t [u8])>> + use<'t>> {
        let bounds = (std::ops::Bound::Included(key), std::ops::Bound::Unbounded);
        self.tables[table as usize].range(self.txn, &bounds)
    }

    /// Entries before a key, the last of them first.
    pub fn before(
        self,
        table: Table,
        key: &[u8],
    ) -> heed::Result<impl Iterator<Item = heed::Result<(&'t [u8], &'t [u8])>> + use<'t>> {
        let bounds = (std::ops::Bound::Unbounded, std::ops::Bound::Excluded(key));
        self.tables[table as usize].rev_range(self.txn, &bounds)
    }

    /// All entries, in order.
    pub fn all(
        self,
        table: Table,
    ) -> heed::Result<impl Iterator<Item = heed::Result<(&'t [u8], &'t [u8])>> + use<'t>> {
        self.tables[table as usize].iter(self.txn)
    }

    /// The last entry.
    pub fn last(self, table: Table) -> heed::Result<Option<(&'t [u8], &'t [u8])>> {
        self.tables[table as usize].last(self.txn)
    }

    /// How many entries there are.
    pub fn count(self, table: Table) -> heed::Result<u64> {
        self.tables[table as usize].len(self.txn)
    }
}
