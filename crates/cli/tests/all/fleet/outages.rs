//! What happens to the server, or to the way there, is got over by itself.

use std::time::Duration;

use runcue_test_servers::Fault;

use super::chosen;
use super::scene::Scene;
use super::server::Server;
use crate::crash::arena::now;
use crate::crash::patience;

/// How long a server stands still: much longer than a lease.
const FROST: Duration = Duration::from_secs(10);
/// How long the way to it is lost: longer than anybody waits for a reply.
const PARTED: Duration = Duration::from_secs(12);
/// So many replies to commits are lost before.
const LOST: usize = 3;

fn is_killed_in_mid_load(server: Server) {
    let mut scene = Scene::begin(server);
    for _ in 0..chosen(3, 10) {
        scene.grow(20);
        scene.server.kill_and_restart();
        scene.every_daemon_works_after(now());
    }
    scene.judge();
}

#[test]
fn a_postgres_killed_in_mid_load_loses_nothing_and_work_flows_again() {
    is_killed_in_mid_load(Server::postgres());
}

#[test]
fn a_redis_killed_in_mid_load_loses_nothing_and_work_flows_again() {
    is_killed_in_mid_load(Server::redis());
}

fn is_frozen(server: Server) {
    let mut scene = Scene::begin(server);
    scene.grow(20);
    scene.server.freeze();
    // Nothing can be seen of a server that stands still; the time itself is what is tried here.
    std::thread::sleep(FROST);
    scene.server.thaw();
    scene.every_daemon_works_after(now());
    scene.judge();
}

#[test]
fn a_frozen_postgres_is_waited_for_and_work_flows_again() {
    is_frozen(Server::postgres());
}

#[test]
fn a_frozen_redis_is_waited_for_and_work_flows_again() {
    is_frozen(Server::redis());
}

#[test]
fn terminated_backends_are_replaced_and_work_flows_again() {
    let mut scene = Scene::begin(Server::postgres());
    for _ in 0..chosen(5, 50) {
        scene.grow(20);
        let Server::Postgres(server) = &scene.server else { unreachable!("it was started here") };
        let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                   WHERE application_name = 'runcue'";
        let ended: usize = server.sql(sql).unwrap().parse().unwrap();
        assert!(ended >= 3, "{ended} backends");
        scene.every_daemon_works_after(now());
    }
    scene.judge();
}

/// The others take over what the lonely one held; it comes back by itself.
fn one_daemon_is_cut_off(server: Server) {
    let (proxy, lonely) = server.behind_proxy();
    let url = server.url();
    let mut scene = Scene::begin_with(server, &[&lonely, &url, &url]);
    scene.grow(20);
    proxy.arm(scene.server.commit_marker(), Fault::LoseReply, LOST);
    patience::until("replies are lost", || {
        scene.keep_submitting();
        (proxy.faults() == LOST).then_some(())
    });
    proxy.part();
    std::thread::sleep(PARTED);
    // The others have gone on all the while.
    scene.grow(20);
    proxy.heal();
    scene.every_daemon_works_after(now());
    scene.judge();
}

#[test]
fn a_daemon_cut_off_from_postgres_comes_back_by_itself() {
    one_daemon_is_cut_off(Server::postgres());
}

#[test]
fn a_daemon_cut_off_from_redis_comes_back_by_itself() {
    one_daemon_is_cut_off(Server::redis());
}
