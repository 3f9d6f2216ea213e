//! What happens to a daemon on one machine does not matter to the others.

use super::chosen;
use super::scene::Scene;
use super::server::Server;
use crate::crash::arena::Arena;
use crate::crash::freeze::is_frozen_past_its_lease;

fn one_of_three_is_killed_again_and_again(server: Server) {
    let mut scene = Scene::begin(server);
    for n in 0..chosen(20, 100) {
        scene.grow(12);
        scene.replace(n % 3);
    }
    scene.every_daemon_works_after(scene.kills.last().unwrap().at);
    scene.judge();
    scene.arena.is_untroubled();
}

#[test]
fn a_daemon_killed_again_and_again_loses_nothing_on_postgres() {
    one_of_three_is_killed_again_and_again(Server::postgres());
}

#[test]
fn a_daemon_killed_again_and_again_loses_nothing_on_redis() {
    one_of_three_is_killed_again_and_again(Server::redis());
}

#[test]
fn a_daemon_frozen_past_its_lease_changes_nothing_on_postgres() {
    let server = Server::postgres();
    is_frozen_past_its_lease(&Arena::on(&server.url()));
}

#[test]
fn a_daemon_frozen_past_its_lease_changes_nothing_on_redis() {
    let server = Server::redis();
    is_frozen_past_its_lease(&Arena::on(&server.url()));
}
