//! The databases of an environment and the version of what is in them. To change what a row looks like, raise
//! [`FORMAT`] and bring old rows over in [`open`], under the write lock; a released format is never edited.

use heed::types::Bytes;
use heed::{CommitOrAbort, Env, WithoutTls};
use runcue_store::{Result, StoreError};

use crate::connection::{Db, sized};
use crate::failure::{explain, unreadable};
use crate::view::{Table, View};

/// The newest format this version knows.
pub const FORMAT: u32 = 1;

const KEY: &[u8] = b"format";

/// Opens the databases, making them if need be, or says why that cannot be.
pub fn open(env: &Env<WithoutTls>, place: &str, size: u64) -> Result<Vec<Db>> {
    let fail = |error: heed::Error| explain(place, size, &error);
    let tables = match sized(env, find).map_err(fail)? {
        Found::Ours(tables) => tables,
        Found::Nothing => sized(env, make).map_err(fail)?,
        Found::Others => {
            let why =
                "it is an LMDB environment of another program; name another directory with --store";
            return Err(StoreError::BadAddress { place: place.to_owned(), why: why.to_owned() });
        }
    };
    let found = sized(env, |env| version(env, &tables)).map_err(fail)?;
    check(found, place)?;
    Ok(tables)
}

/// What a newer version has written is left alone.
pub fn check(found: u32, place: &str) -> Result<()> {
    if found <= FORMAT {
        return Ok(());
    }
    Err(StoreError::Newer { place: place.to_owned(), found, known: FORMAT })
}

enum Found {
    Ours(Vec<Db>),
    Nothing,
    Others,
}

/// Looks without the write lock, so that opening waits for nobody.
fn find(env: &Env<WithoutTls>) -> heed::Result<Found> {
    const COUNT: usize = Table::ALL.len();
    let found = env.open_databases_and_commit(env.read_txn()?, |opener, txn| {
        let mut tables = Vec::with_capacity(COUNT);
        for table in Table::ALL {
            tables.extend(opener.open_database::<Bytes, Bytes>(txn, Some(table.name()))?);
        }
        if tables.is_empty() {
            let unnamed = opener.open_database::<Bytes, Bytes>(txn, None)?;
            let others = unnamed.map(|unnamed| unnamed.is_empty(txn)).transpose()? == Some(false);
            return Ok(CommitOrAbort::Abort(if others { Found::Others } else { Found::Nothing }));
        }
        match <[_; COUNT]>::try_from(tables) {
            Ok(tables) => Ok(CommitOrAbort::Commit(tables)),
            // They are made in one transaction, but by whoever knew fewer of them.
            Err(_) => Ok(CommitOrAbort::Abort(Found::Nothing)),
        }
    });
    match found {
        Ok(CommitOrAbort::Commit(tables)) => Ok(Found::Ours(tables.into())),
        Ok(CommitOrAbort::Abort(found)) => Ok(found),
        Err(error) => Err(error),
    }
}

fn make(env: &Env<WithoutTls>) -> heed::Result<Vec<Db>> {
    const COUNT: usize = Table::ALL.len();
    let made = env.create_databases_and_commit(env.write_txn()?, |opener, txn| {
        let mut tables = Vec::with_capacity(COUNT);
        for table in Table::ALL {
            tables.push(opener.create_database::<Bytes, Bytes>(txn, Some(table.name()))?);
        }
        let meta = tables[Table::Meta as usize];
        if meta.get(txn, KEY)?.is_none() {
            meta.put(txn, KEY, &FORMAT.to_be_bytes())?;
        }
        match <[_; COUNT]>::try_from(tables) {
            Ok(tables) => Ok(CommitOrAbort::<_, ()>::Commit(tables)),
            Err(_) => Err(unreadable("databases", "not as many as were made")),
        }
    })?;
    match made {
        CommitOrAbort::Commit(tables) => Ok(tables.into()),
        CommitOrAbort::Abort(()) => Ok(Vec::new()),
    }
}

fn version(env: &Env<WithoutTls>, tables: &[Db]) -> heed::Result<u32> {
    let txn = env.read_txn()?;
    stored(View { tables, txn: &txn })
}

/// The format of what a transaction sees.
pub fn stored(view: View<'_>) -> heed::Result<u32> {
    let stored = view.get(Table::Meta, KEY)?;
    let bytes = stored.and_then(|bytes| bytes.try_into().ok());
    bytes.map(u32::from_be_bytes).ok_or_else(|| unreadable("format", "there is none"))
}
