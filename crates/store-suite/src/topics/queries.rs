//! Queries: jobs, pages, counts, groups, queues, services, tasks, workers.

use std::collections::HashSet;

use runcue_core::{Capabilities, ClaimFilter, ErrorKind, JobFilter, JobSpec, StateWord, TaskSpec};
use runcue_store::{ClaimRequest, Counts, ListRequest, Outcome, ProjectInfo, WorkerSpec};

use crate::Maker;
use crate::scene::*;

/// In the order asked, nothing where there is none.
pub async fn jobs_by_id_come_in_the_order_asked(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit((1..=3).map(job)).await;
    let found = s.store.get(vec![id(3), id(9), id(1), id(3)]).await.unwrap();
    let ids: Vec<_> = found.into_iter().map(|job| job.map(|job| job.id().as_u128())).collect();
    assert_eq!(ids, [Some(3), None, Some(1), Some(3)]);
}

/// In their own order, whatever that of their submission, with both ends and no more than asked for.
pub async fn ids_between_two_are_found_in_their_order(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    let high = 1 << 120;
    s.submit([job(5), job(high + 1), job(3), job(high), job(9)]).await;
    let found = async |first: u128, last: u128, limit: usize| -> Vec<u128> {
        let found = s.store.ids_between(id(first), id(last), limit).await.unwrap();
        found.into_iter().map(|id| id.as_u128()).collect()
    };
    assert_eq!(found(3, 9, 10).await, [3, 5, 9]);
    assert_eq!(found(4, high, 10).await, [5, 9, high]);
    assert_eq!(found(0, u128::MAX, 2).await, [3, 5]);
    assert_eq!(found(10, high - 1, 10).await, [] as [u128; 0]);
}

async fn list(s: &Scene, filter: JobFilter) -> Vec<u128> {
    let page = s.store.list(ListRequest { filter, before: None, limit: 100 }).await.unwrap();
    page.rows.iter().map(|job| job.id().as_u128()).collect()
}

/// Newest first, by any word of the filter and by several.
pub async fn jobs_are_listed_by_filter_newest_first(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit([job(1), job_of(2, "g"), JobSpec { task: task("build"), ..job_of(3, "g") }]).await;
    s.submit([JobSpec { queue: queue("q"), labels: words(&["x"]), ..job(4) }]).await;
    s.submit([JobSpec { project: Some("p".to_owned()), ..job(5) }]).await;
    s.cancel(&[2], false).await;
    let any = JobFilter::default;
    assert_eq!(list(&s, any()).await, [5, 4, 3, 2, 1]);
    assert_eq!(list(&s, JobFilter::of_group(group("g"))).await, [3, 2]);
    assert_eq!(list(&s, any().in_states([StateWord::Cancelled])).await, [2]);
    assert_eq!(list(&s, JobFilter { task: Some(task("build")), ..any() }).await, [3]);
    assert_eq!(list(&s, JobFilter { queue: Some(queue("q")), ..any() }).await, [4]);
    assert_eq!(list(&s, JobFilter { label: Some("x".to_owned()), ..any() }).await, [4]);
    assert_eq!(list(&s, JobFilter { project: Some("p".to_owned()), ..any() }).await, [5]);
    assert_eq!(list(&s, JobFilter::of_ids([id(1), id(4), id(77)])).await, [4, 1]);
    let both = JobFilter::of_group(group("g")).in_states([StateWord::Queued]);
    assert_eq!(list(&s, both).await, [3]);
}

/// Pages neither repeat nor miss a job while others come in.
pub async fn pages_hold_while_jobs_come_in(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit((1..=95).map(job)).await;
    let (mut seen, mut before, mut fresh) = (Vec::new(), None, 1_000);
    loop {
        let request = ListRequest { before, limit: 10, ..ListRequest::default() };
        let page = s.store.list(request).await.unwrap();
        assert!(page.rows.len() <= 10);
        seen.extend(page.rows.iter().map(|job| job.id().as_u128()));
        s.submit([job(fresh)]).await;
        fresh += 1;
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    assert_eq!(seen, (1..=95).rev().collect::<Vec<_>>());
}

/// The counts are those of a recount, after everything that can happen.
pub async fn counts_equal_a_recount(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    s.submit((1..=40).map(|n| if n % 3 == 0 { job_of(n, "g") } else { job(n) })).await;
    s.submit([job_after(41, &[40]), JobSpec { run_at: Some(at(500)), ..job(42) }]).await;
    let outcomes = [done(), failed(ErrorKind::Permanent), failed(ErrorKind::Transient)];
    for (n, lease) in s.claim(20).await.iter().enumerate() {
        if n < 15 {
            s.finish(lease, outcomes[n % 3].clone()).await;
        }
    }
    s.cancel(&[30, 31], false).await;
    s.wait(31);
    s.reap().await;
    let page = ListRequest { limit: 1_000, ..ListRequest::default() };
    let jobs = s.store.list(page).await.unwrap().rows;
    let mut counts = Counts::default();
    for job in &jobs {
        *counts.of(job.life.state.word()) += 1;
    }
    let stats = s.store.stats(s.now).await.unwrap();
    assert_eq!(stats.counts, counts);
    let mut by_group = Counts::default();
    for info in s.store.groups().await.unwrap() {
        by_group.add(&info.counts);
    }
    assert_eq!(by_group, counts);
    s.check().await;
}

/// Ready and claimed jobs are counted by project, and those that are claimed can be listed.
pub async fn ready_and_claimed_jobs_are_counted_by_project(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    let of = |n, project: &str| JobSpec { project: Some(project.to_owned()), ..job(n) };
    s.submit([of(1, "a"), of(2, "a"), of(3, "a"), of(4, "b"), job(5)]).await;
    s.submit([JobSpec { run_at: Some(at(500)), ..of(6, "b") }]).await;
    s.submit([JobSpec { project: Some("b".to_owned()), ..job_after(7, &[1]) }]).await;
    let filter = ClaimFilter { project: Some("a".to_owned()), ..ClaimFilter::default() };
    let request = ClaimRequest { filter, ..ClaimRequest::new(s.worker, 2) };
    let leases = s.store.claim(s.now, request).await.unwrap().jobs;
    let counts = async || {
        let infos = s.store.projects().await.unwrap();
        let row = |info: ProjectInfo| (info.name, info.ready, info.waiting, info.claimed);
        infos.into_iter().map(row).collect::<Vec<_>>()
    };
    let name = |name: &str| Some(name.to_owned());
    let expected = [(None, 1, 0, 0), (name("a"), 1, 0, 2), (name("b"), 1, 2, 0)];
    assert_eq!(counts().await, expected);
    let claimed = JobFilter { project: name("a"), ..JobFilter::default() }
        .in_states([StateWord::Leased, StateWord::Running]);
    assert_eq!(list(&s, claimed).await, [2, 1]);
    // One is done, the other is handed back.
    s.done(&leases[0].1).await;
    s.finish(&leases[1].1, Outcome::HandBack).await;
    let expected = [(None, 1, 0, 0), (name("a"), 2, 0, 0), (name("b"), 2, 1, 0)];
    assert_eq!(counts().await, expected);
}

/// The oldest job that waits only for its turn.
pub async fn the_oldest_ready_job_is_known(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    assert_eq!(s.store.stats(s.now).await.unwrap().oldest_ready, None);
    s.submit([job(1)]).await;
    s.wait(5);
    s.submit([JobSpec { priority: 9, ..job(2) }]).await;
    assert_eq!(s.store.stats(s.now).await.unwrap().oldest_ready, Some(at(0)));
    s.claim(1).await;
    assert_eq!(s.store.stats(s.now).await.unwrap().oldest_ready, Some(at(0)));
    s.claim(1).await;
    assert_eq!(s.store.stats(s.now).await.unwrap().oldest_ready, None);
}

/// Services are listed with their limits and use.
pub async fn services_are_listed_with_their_use(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    let both = runcue_core::ServiceSpec { max_concurrent: Some(4), ..rated("api", 9, 10) };
    s.services([both.clone(), unlimited("db")]).await;
    s.submit([job_costing(1, "api", 3), job_costing(2, "api", 2)]).await;
    let lease = s.take_job(1).await;
    s.wait(5);
    s.take_job(2).await;
    s.done(&lease).await;
    let info = s.service("api").await;
    assert_eq!((info.spec, info.in_use), (both, 1));
    assert_eq!(info.used, [(rate(9, 10), 5)]);
    s.wait(5);
    assert_eq!(s.service("api").await.used, [(rate(9, 10), 2)]);
    assert_eq!(s.store.services(s.now).await.unwrap().len(), 2);
}

/// Task definitions are kept and replaced.
pub async fn task_definitions_are_kept(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    let mut spec = TaskSpec::new(task("build"));
    s.store.upsert_tasks(s.now, vec![spec.clone(), TaskSpec::new(task("test"))]).await.unwrap();
    spec.timeout = Some(secs(9));
    spec.definition = runcue_core::Json::parse(r#"{"run":"make"}"#).unwrap();
    s.store.upsert_tasks(s.now, vec![spec.clone()]).await.unwrap();
    let tasks = s.store.tasks().await.unwrap();
    assert_eq!(tasks.len(), 2);
    assert!(tasks.contains(&spec));
}

/// Workers come, are heard of, hold jobs, and go.
pub async fn workers_are_known_while_they_are_there(maker: impl Maker) {
    let mut s = Scene::new(&maker).await;
    let spec = |n: u32| WorkerSpec {
        id: worker(u128::from(n)),
        name: format!("w{n}"),
        host: "h".to_owned(),
        pid: n,
        slots: 4,
        offers: Capabilities { cores: 2, ram_gb: 1.5, tags: words(&["gpu"]) },
    };
    s.store.upsert_worker(s.now, spec(1)).await.unwrap();
    s.store.upsert_worker(s.now, spec(2)).await.unwrap();
    s.submit([job(1), job(2)]).await;
    s.claim(2).await;
    s.wait(5);
    s.store.upsert_worker(s.now, spec(1)).await.unwrap();
    let workers = s.store.workers().await.unwrap();
    let one = workers.iter().find(|info| info.spec.id == worker(1)).unwrap();
    assert_eq!((one.started_at, one.seen_at, one.held), (at(0), at(5), 2));
    assert_eq!(one.spec, spec(1));
    s.store.remove_worker(s.now, worker(2)).await.unwrap();
    let left: HashSet<_> =
        s.store.workers().await.unwrap().into_iter().map(|info| info.spec.id).collect();
    assert_eq!(left, [worker(1)].into());
}

/// A claim that finds nothing and a question change nothing, and wake nobody.
pub async fn what_changes_nothing_is_no_news(maker: impl Maker) {
    let s = Scene::new(&maker).await;
    s.submit([job(1)]).await;
    let claimed = s.store.claim(s.now, ClaimRequest::new(worker(1), 5)).await.unwrap();
    assert_eq!(claimed.jobs.len(), 1);
    let version = s.store.changed(0).await;
    for _ in 0..3 {
        s.store.claim(s.now, ClaimRequest::new(worker(1), 5)).await.unwrap();
        s.store.stats(s.now).await.unwrap();
    }
    assert_eq!(s.store.changed(0).await, version);
}
