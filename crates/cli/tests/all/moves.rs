//! `move`, `backup` and `migrate`: the real binary between real stores of every kind.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use runcue_core::{
    ErrorKind, JobId, JobSpec, Json, Overlap, Progress, QueueSpec, ScheduleName, ScheduleSpec,
    ServiceSpec, TaskSpec, Timestamp,
};
use runcue_store::{Extend, LogChunk, LogStream, Outcome, Store};
use runcue_store_suite::scene::{
    Scene, attempts, failed, group, id, job, job_after, job_of, job_using, rate, slots, task,
    worker,
};
use tempfile::TempDir;

use crate::sandbox::Sandbox;

const HOUR: Duration = Duration::from_secs(3600);

#[expect(clippy::disallowed_methods, reason = "what is moved is as old as the test")]
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap())
}

pub fn scene(url: &str) -> Scene {
    Scene { store: runcue::open(url).unwrap(), now: now(), worker: worker(7) }
}

async fn take(scene: &Scene, n: u128, start: bool) -> runcue_core::Lease {
    let mut request = scene.request(1);
    (request.only, request.lease, request.start) = (Some(vec![id(n)]), HOUR, start);
    let mut jobs = scene.claim_as(request).await;
    jobs.pop().expect("the job is ready").1
}

/// A small queue with a job in every state, and one of everything else.
async fn fill(scene: &Scene) {
    let api =
        ServiceSpec { rates: vec![rate(3, 3600)], circuit_threshold: Some(5), ..slots("api", 4) };
    scene.services([api, ServiceSpec { paused: true, ..slots("off", 1) }]).await;
    let store = &scene.store;
    let queue = QueueSpec {
        name: runcue_core::QueueName::default(),
        max_queued: Some(3),
        on_full: runcue_core::OnFull::Reject,
        paused: false,
    };
    let nightly = ScheduleSpec {
        overlap: Overlap::Skip,
        ..ScheduleSpec::new(ScheduleName::new("nightly").unwrap(), "0 3 * * *", job(0))
    };
    store.upsert_tasks(scene.now, vec![TaskSpec::new(task("work"))]).await.unwrap();
    store.upsert_schedules(scene.now, vec![nightly]).await.unwrap();
    let once = |n| JobSpec { retry: attempts(1), ..job(n) };
    let keyed = |n| JobSpec { idempotency_key: Some("k".to_owned()), ..once(n) };
    scene.submit([job_using(1, &["api"]), job(2), job(3), once(4), job(10)]).await;
    scene.submit([JobSpec { run_at: Some(scene.now.plus(HOUR)), ..job(5) }]).await;
    scene.submit([JobSpec { priority: 5, ..job_of(7, "g") }, job_after(6, &[7])]).await;
    scene.submit([job_after(12, &[11]), job(11), job_using(8, &["api"]), job(9)]).await;
    scene.submit([keyed(13)]).await;
    let lease = take(scene, 1, true).await;
    let text = "one\ntwo\n".to_owned();
    let (n, attempt, token) = (0, lease.attempt, lease.token);
    let (job, stream, at) = (lease.job, LogStream::Stdout, scene.now);
    let chunk = LogChunk { n, job, attempt, token, stream, at, text };
    store.append_logs(scene.now, vec![chunk]).await.unwrap();
    let result = Some(Json::parse("{\"b\":[1,2.5],\"a\":\"ü\"}").unwrap());
    scene.finish(&lease, Outcome::Done { result, result_key: Some("r".to_owned()) }).await;
    scene.finish(&take(scene, 2, true).await, failed(ErrorKind::Permanent)).await;
    scene.cancel(&[3], false).await;
    scene.finish(&take(scene, 4, true).await, failed(ErrorKind::Transient)).await;
    scene.finish(&take(scene, 13, true).await, failed(ErrorKind::Permanent)).await;
    scene.submit([keyed(14)]).await;
    scene.finish(&take(scene, 10, true).await, failed(ErrorKind::Transient)).await;
    let lease = take(scene, 8, true).await;
    let progress = Some(Progress { percent: 12.5, message: "on it".to_owned() });
    let beat = Extend { lease, lease_for: HOUR, progress };
    store.extend(scene.now, vec![beat]).await.unwrap();
    take(scene, 9, false).await;
    store.set_group_paused(scene.now, group("g"), true).await.unwrap();
    // Fewer than wait in it already: a move asks no cap.
    store.upsert_queues(scene.now, vec![queue]).await.unwrap();
}

/// Everything that can be seen of a queue, but for what belongs to the store itself.
async fn picture(store: &Arc<dyn Store>) -> String {
    let now = now();
    let moved = store.hand_over(now, None, 1_000_000).await.unwrap();
    let mut text = String::new();
    for one in moved.jobs {
        let (spec, life) = (&one.job.spec, &one.job.life);
        let (before, behind) = store.relatives(one.job.id()).await.unwrap();
        let shown = |ids: &[JobId]| ids.iter().map(|id| id.as_u128()).collect::<Vec<_>>();
        writeln!(text, "{spec:?}\n  {life:?}\n  key {}", one.holds_key).unwrap();
        writeln!(text, "  ties {:?} {:?}", shown(&before), shown(&behind)).unwrap();
        if life.attempt > 0 {
            for chunk in store.logs(one.job.id(), 0).await.unwrap() {
                writeln!(text, "  {:?}", LogChunk { n: 0, ..chunk }).unwrap();
            }
        }
    }
    let mut rest = moved.definitions.unwrap();
    // Uses of one instant may be written down one by one or together.
    let mut used: BTreeMap<_, i64> = BTreeMap::new();
    for row in std::mem::take(&mut rest.usage) {
        *used.entry((row.service, row.key, row.at)).or_default() += row.units;
    }
    writeln!(text, "{used:#?}").unwrap();
    rest.services.sort_by_key(|row| row.spec.name.clone());
    rest.tasks = store.tasks().await.unwrap();
    writeln!(text, "{rest:#?}\n{:#?}", store.stats(now).await.unwrap()).unwrap();
    writeln!(text, "{:#?}", store.services(now).await.unwrap()).unwrap();
    text
}

async fn picture_of(url: &str) -> String {
    let store = runcue::open(url).unwrap();
    assert_eq!(store.check(now()).await.unwrap(), Vec::<String>::new(), "{url}");
    let picture = picture(&store).await;
    store.close().await.unwrap();
    picture
}

/// Fresh places of every kind, as long as this lives.
pub struct Places {
    directory: TempDir,
    made: usize,
    #[cfg(feature = "postgres")]
    databases: Vec<runcue_test_servers::Database>,
    #[cfg(feature = "redis")]
    prefixes: Vec<runcue_test_servers::Prefix>,
}

impl Places {
    pub const KINDS: &[&str] = &[
        "sqlite",
        #[cfg(feature = "lmdb")]
        "lmdb",
        #[cfg(feature = "postgres")]
        "postgres",
        #[cfg(feature = "redis")]
        "redis",
    ];

    pub fn new() -> Self {
        Self {
            directory: TempDir::new().unwrap(),
            made: 0,
            #[cfg(feature = "postgres")]
            databases: Vec::new(),
            #[cfg(feature = "redis")]
            prefixes: Vec::new(),
        }
    }

    pub fn fresh(&mut self, kind: &str) -> String {
        self.made += 1;
        let path = self.directory.path().join(self.made.to_string());
        match kind {
            #[cfg(feature = "postgres")]
            "postgres" => {
                let database = runcue_test_servers::postgres().unwrap();
                let url = database.url();
                self.databases.push(database);
                url
            }
            #[cfg(feature = "redis")]
            "redis" => {
                let prefix = runcue_test_servers::redis().unwrap();
                let url = prefix.url();
                self.prefixes.push(prefix);
                url
            }
            "lmdb" => format!("lmdb:{}?size=64MiB", path.display()),
            _ => format!("sqlite:{}.db", path.display()),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_with_every_state_moves_between_any_two_kinds_of_store() {
    let sandbox = Sandbox::new();
    let mut places = Places::new();
    let origin = places.fresh("sqlite");
    let filled = scene(&origin);
    fill(&filled).await;
    filled.store.close().await.unwrap();
    let expected = picture_of(&origin).await;
    for from in Places::KINDS {
        let first = places.fresh(from);
        let told = sandbox.run(&["move", &origin, &first, "--force", "--json"]).json();
        assert_eq!((&told["new"], &told["verified"]), (&14.into(), &14.into()), "{told}");
        assert_eq!(picture_of(&first).await, expected, "sqlite to {from}");
        for to in Places::KINDS {
            let second = places.fresh(to);
            sandbox.run(&["move", &first, &second, "--force"]).ok();
            assert_eq!(picture_of(&second).await, expected, "{from} to {to}");
            assert_eq!(picture_of(&first).await, expected, "{from} is left as it was");
            let again = sandbox.run(&["move", &first, &second, "--force", "--json"]).json();
            assert_eq!((&again["new"], &again["updated"]), (&0.into(), &0.into()), "{again}");
            assert_eq!(picture_of(&second).await, expected, "{from} to {to}, twice");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_changed_since_is_brought_up_to_date_on_every_kind() {
    let sandbox = Sandbox::new();
    let mut places = Places::new();
    for kind in Places::KINDS {
        let (from, to) = (places.fresh("sqlite"), places.fresh(kind));
        let source = scene(&from);
        fill(&source).await;
        source.store.close().await.unwrap();
        sandbox.run(&["move", &from, &to, "--force"]).ok();
        let source = scene(&from);
        source.store.set_group_paused(source.now, group("g"), false).await.unwrap();
        source.done(&take(&source, 7, true).await).await;
        source.retry(&[2, 4]).await;
        source.done(&take(&source, 2, true).await).await;
        take(&source, 11, true).await;
        source.cancel(&[8], false).await;
        source.store.close().await.unwrap();
        let told = sandbox.run(&["move", &from, &to, "--force", "--json"]).json();
        assert_eq!(told["new"], 0, "{kind}: {told}");
        assert_eq!(picture_of(&to).await, picture_of(&from).await, "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_that_was_killed_goes_on_and_doubles_nothing() {
    const JOBS: u128 = 12_000;
    let sandbox = Sandbox::new();
    let mut places = Places::new();
    let others = Places::KINDS.iter().filter(|kind| **kind != "sqlite");
    let back = others.map(|kind| (*kind, "sqlite"));
    for (from, kind) in Places::KINDS.iter().map(|kind| ("sqlite", *kind)).chain(back) {
        let (from, to) = (places.fresh(from), places.fresh(kind));
        let source = scene(&from);
        source.submit((1..=JOBS / 2).map(job)).await;
        source.submit((JOBS / 2 + 1..=JOBS).map(|n| job_after(n, &[n - JOBS / 2]))).await;
        source.store.close().await.unwrap();
        let mut child = sandbox.start(&["move", "-v", &from, &to]);
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let told = lines.map_while(Result::ok).find(|line| line.contains("moved 3000 of 12000"));
        assert!(told.is_some(), "{kind}: it said how far it was");
        child.kill().unwrap();
        assert!(!child.wait().unwrap().success(), "{kind}: it was killed before its end");
        let told = sandbox.run(&["move", &from, &to, "--json"]).json();
        let [new, unchanged] = ["new", "unchanged"].map(|name| told[name].as_u64().unwrap());
        assert!(unchanged >= 3000 && new > 0, "{kind}: {told}");
        assert_eq!((new + unchanged, &told["counts"]["queued"]), (12_000, &12_000.into()));
        let store = runcue::open(&to).unwrap();
        assert_eq!(store.check(now()).await.unwrap(), Vec::<String>::new(), "{kind}");
        let (before, _) = store.relatives(id(JOBS)).await.unwrap();
        assert_eq!(before, [id(JOBS / 2)], "{kind}");
        store.close().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_hold_across_a_move() {
    let sandbox = Sandbox::new();
    let mut places = Places::new();
    for kind in Places::KINDS {
        let (from, to) = (places.fresh("sqlite"), places.fresh(kind));
        let source = scene(&from);
        source.services([ServiceSpec { rates: vec![rate(2, 3600)], ..slots("api", 2) }]).await;
        source.submit((1..=4).map(|n| job_using(n, &["api"]))).await;
        for n in 1..=2 {
            source.done(&take(&source, n, true).await).await;
        }
        source.store.close().await.unwrap();
        sandbox.run(&["move", &from, &to]).ok();
        let target = scene(&to);
        target.assert_nothing_ready().await;
        assert_eq!(target.service("api").await.used[0].1, 2, "{kind}");
        target.store.close().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_that_could_lose_or_mix_up_jobs_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.run(&["add", "--store", "a.db", "--", "true"]).ok();
    sandbox.run(&["add", "--store", "b.db", "--", "true"]).ok();
    let told = sandbox.run(&["move", "a.db", "b.db"]).refused(1);
    assert!(told.contains("b.db holds 1 job"), "{told}");
    let told = sandbox.run(&["move", "a.db", "sqlite:a.db"]).refused(2);
    assert!(told.contains("the same store"), "{told}");
    let told = sandbox.run(&["move", "a.db", "memory:"]).refused(2);
    assert!(told.contains("gone with the process"), "{told}");
    let told = sandbox.run(&["move", "none.db", "c.db"]).refused(1);
    assert!(told.contains("there is no queue at none.db"), "{told}");
    let told = sandbox.run(&["move", "a.db", "c.db"]).ok();
    assert!(told.contains("from now on use --store sqlite:c.db"), "{told}");
    let other = Sandbox::new();
    let strange = format!("sqlite:{}", sandbox.path().join("c.db").display());
    other.run(&["add", "--store", "x.db", "--", "true"]).ok();
    let told = other.run(&["move", "x.db", &strange]).refused(1);
    assert!(told.contains("holds other jobs"), "{told}");
    sandbox.run(&["work", "--store", "c.db", "--drain"]).ok();
    let told = sandbox.run(&["move", "a.db", "c.db"]).refused(1);
    assert!(told.contains("has been used"), "{told}");
    let held = scene(&format!("sqlite:{}", sandbox.path().join("h.db").display()));
    held.submit([job(1)]).await;
    take(&held, 1, true).await;
    held.store.close().await.unwrap();
    let told = sandbox.run(&["move", "h.db", "i.db"]).refused(1);
    assert!(told.contains("1 job") && told.contains("--force"), "{told}");
    assert!(!sandbox.path().join("i.db").exists(), "nothing was made");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_is_a_queue_of_its_own_and_can_be_restored() {
    let sandbox = Sandbox::new();
    let mut places = Places::new();
    for kind in Places::KINDS {
        let from = places.fresh(kind);
        let filled = scene(&from);
        fill(&filled).await;
        filled.store.close().await.unwrap();
        let file = format!("{kind}.backup");
        let words = ["backup", &file, "--store", &from, "--force"];
        let told = sandbox.run(&words).ok();
        assert!(told.contains("backed 14 jobs up"), "{told}");
        let told = sandbox.run(&words).refused(1);
        assert!(told.contains("is there already"), "{told}");
        let copy = format!("sqlite:{}", sandbox.path().join(&file).display());
        let expected = picture_of(&from).await;
        assert_eq!(picture_of(&copy).await, expected, "{kind}");
        if kind != &"sqlite" {
            let back = places.fresh(kind);
            sandbox.run(&["move", &copy, &back, "--force"]).ok();
            assert_eq!(picture_of(&back).await, expected, "{kind}");
        }
    }
    let told = sandbox.run(&["backup", "none", "--store", "none.db"]).refused(1);
    assert!(told.contains("there is no queue"), "{told}");
}

#[test]
fn migrate_says_what_it_did() {
    let sandbox = Sandbox::new();
    sandbox.run(&["add", "--", "true"]).ok();
    let told = sandbox.run(&["migrate"]).ok();
    assert!(told.contains("nothing to do"), "{told}");
    #[cfg(feature = "postgres")]
    {
        let database = runcue_test_servers::postgres().unwrap();
        let words = ["migrate", "--store", &database.url()];
        let told = sandbox.run(&words).ok();
        assert!(told.contains("made the schema, version"), "{told}");
        let told = sandbox.run(&[&words[..], &["--json"]].concat()).json();
        assert_eq!((&told["changed"], &told["found"]), (&false.into(), &told["schema"]), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_knows_the_server_its_clock_and_leases_of_strangers() {
    let sandbox = Sandbox::new();
    let mut places = Places::new();
    for kind in Places::KINDS {
        let url = places.fresh(kind);
        let filled = scene(&url);
        fill(&filled).await;
        filled.store.close().await.unwrap();
        let told = sandbox.run(&["doctor", "--store", &url, "--json"]).json();
        let check = |name: &str| {
            let checks = told["checks"].as_array().unwrap();
            checks.iter().find(|check| check["name"] == name).cloned().unwrap_or_default()
        };
        assert_eq!(check("data")["verdict"], "ok", "{kind}: {told}");
        assert_eq!(check("leases")["verdict"], "warning", "{kind}: {told}");
        let detail = check("leases")["detail"].as_str().unwrap().to_owned();
        assert_eq!(detail, "2 jobs held by workers that are not known here", "{kind}");
        if ["postgres", "redis"].contains(kind) {
            assert_eq!(check("clock")["verdict"], "ok", "{kind}: {told}");
            let server = check("server")["detail"].as_str().unwrap().to_owned();
            let version = if *kind == "postgres" { 8 } else { 3 };
            assert!(server.contains(&format!("schema version {version}")), "{kind}: {server}");
        }
    }
}
