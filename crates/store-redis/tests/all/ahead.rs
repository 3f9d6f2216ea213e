//! Claims that are made before they are asked for, on Redis.

use runcue_store_redis::{RedisStore, open_url};
use runcue_test_servers::Redis;

fn pair() -> (Redis, RedisStore, RedisStore) {
    let server = Redis::settings().start().unwrap();
    let (one, two) = (open_url(&server.url()).unwrap(), open_url(&server.url()).unwrap());
    (server, one, two)
}

runcue_store_suite::ahead_suite!(pair());
