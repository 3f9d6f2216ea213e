//! Records: what fronts keep with a queue. Stores keep them apart by kind and name and do not look inside.

use runcue_core::{Json, TaskSpec};
use runcue_store::Record;

use crate::Maker;
use crate::scene::*;

fn record(kind: &str, name: &str, value: Option<&str>) -> Record {
    let value = value.map(Json::trusted);
    Record { kind: kind.to_owned(), name: name.to_owned(), value }
}

async fn put(s: &Scene, records: Vec<Record>) {
    s.store.put_records(s.now, records).await.unwrap();
}

/// A record is found under its kind and its name alone, the latest value counts, and one without a value is gone.
pub async fn they_are_kept_by_kind_and_name_replaced_and_taken_away(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    let first = record("token", "b", Some("{\"role\":\"read\"}"));
    let other = record("token", "a", Some("1"));
    let apart = record("tokens", "a", Some("2"));
    put(&s, vec![first.clone(), other.clone(), apart.clone()]).await;
    assert_eq!(s.store.records("token").await.unwrap(), [other.clone(), first.clone()]);
    assert_eq!(s.store.records("tokens").await.unwrap(), [apart]);
    assert_eq!(s.store.records("tok").await.unwrap(), []);
    let changed = record("token", "b", Some("[\"ü\\n\"]"));
    put(&s, vec![changed.clone(), record("token", "a", None)]).await;
    assert_eq!(s.store.records("token").await.unwrap(), [changed]);
    put(&s, vec![record("token", "never there", None)]).await;
    put(&s, vec![record("token", "b", None)]).await;
    assert_eq!(s.store.records("token").await.unwrap(), []);
}

/// Whoever asks for tasks is told of tasks only.
pub async fn tasks_know_nothing_of_them(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    put(&s, vec![record("token", "t", Some("{}")), record("token", "gone", None)]).await;
    assert_eq!(s.store.tasks().await.unwrap(), []);
    s.store.upsert_tasks(s.now, vec![TaskSpec::new(task("token"))]).await.unwrap();
    assert_eq!(s.store.tasks().await.unwrap().len(), 1);
    assert_eq!(s.store.records("token").await.unwrap().len(), 1);
}

/// They are there after a restart, and for whoever else has the queue open.
pub async fn they_survive_a_restart_and_others_see_them(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    put(&s, vec![record("token", "t", Some("1"))]).await;
    let other = s.beside(&maker).await;
    assert_eq!(other.store.records("token").await.unwrap().len(), 1);
    put(&other, vec![record("token", "t", None), record("token", "u", Some("2"))]).await;
    drop(other);
    let s = s.reopened(&maker).await;
    assert_eq!(s.store.records("token").await.unwrap(), [record("token", "u", Some("2"))]);
}
