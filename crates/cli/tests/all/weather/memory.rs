//! A Redis that has as much in memory as it may.

use runcue_test_servers::Redis;

use super::spell::goes_on_after;

#[test]
fn a_redis_without_memory_is_named_and_work_goes_on_when_it_has_some() {
    let server = Redis::settings().durable().start().unwrap();
    let limit = |bytes: &str| {
        assert_eq!(server.command(&["CONFIG", "SET", "maxmemory", bytes]).unwrap(), "+OK");
    };
    let words = ["out of memory", "raise its maxmemory"];
    goes_on_after(&server.url(), || limit("1"), &words, || limit("0"));
}
