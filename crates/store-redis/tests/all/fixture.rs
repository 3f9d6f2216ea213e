//! Queues of earlier versions are opened for ever. `tests/fixtures/schema-N.txt` was written by the last version with
//! that schema, from [`fixture::write`], as the commands that make its keys. To write the one of the present schema
//! anew:
//!
//! ```text
//! RUNCUE_FIXTURE=$PWD/crates/store-redis/tests/fixtures/schema-3.txt cargo nextest run -p runcue-store-redis fixture
//! ```

use std::path::Path;

use redis::{Commands, Connection};
use runcue_store_redis::SCHEMA;
use runcue_store_suite::fixture;
use runcue_test_servers::Redis;

fn open(server: &Redis) -> runcue_store_redis::RedisStore {
    runcue_store_redis::open_url(&format!("{}?clock=caller", server.url())).unwrap()
}

/// All keys as commands, a line each. What expires by itself is left out.
fn dump(connection: &mut Connection) -> String {
    let mut keys: Vec<Vec<u8>> = connection.keys("*").unwrap();
    keys.sort();
    let mut lines = String::new();
    let mut line = |words: &[&[u8]]| {
        let words: Vec<String> = words
            .iter()
            .map(|word| word.escape_ascii().to_string().replace(' ', "\\x20"))
            .collect();
        lines.push_str(&words.join(" "));
        lines.push('\n');
    };
    for key in keys {
        let key = &key[..];
        if connection.ttl::<_, i64>(key).unwrap() >= 0 {
            continue;
        }
        let kind: String = redis::cmd("TYPE").arg(key).query(connection).unwrap();
        match kind.as_str() {
            "hash" => {
                let mut rows: Vec<(Vec<u8>, Vec<u8>)> = connection.hgetall(key).unwrap();
                rows.sort();
                rows.iter().for_each(|(name, value)| line(&[b"HSET", key, name, value]));
            }
            "zset" => {
                let rows: Vec<(Vec<u8>, Vec<u8>)> =
                    connection.zrange_withscores(key, 0, -1).unwrap();
                rows.iter().for_each(|(member, score)| line(&[b"ZADD", key, score, member]));
            }
            "set" => {
                let mut rows: Vec<Vec<u8>> = connection.smembers(key).unwrap();
                rows.sort();
                rows.iter().for_each(|member| line(&[b"SADD", key, member]));
            }
            "list" => {
                let rows: Vec<Vec<u8>> = connection.lrange(key, 0, -1).unwrap();
                rows.iter().for_each(|one| line(&[b"RPUSH", key, one]));
            }
            "stream" => {
                let rows: Vec<(Vec<u8>, Vec<Vec<u8>>)> =
                    redis::cmd("XRANGE").arg(key).arg("-").arg("+").query(connection).unwrap();
                for (id, fields) in &rows {
                    let mut words: Vec<&[u8]> = vec![b"XADD", key, id];
                    words.extend(fields.iter().map(Vec::as_slice));
                    line(&words);
                }
            }
            other => panic!("{other} {}", key.escape_ascii()),
        }
    }
    lines
}

/// Does what a dump says.
fn load(connection: &mut Connection, lines: &str) {
    for line in lines.lines() {
        let mut words = line.split(' ').map(unescaped);
        let verb = words.next().unwrap();
        let mut command = redis::cmd(std::str::from_utf8(&verb).unwrap());
        for word in words {
            command.arg(word);
        }
        command.exec(connection).unwrap();
    }
}

fn unescaped(word: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = word.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'\\' => match rest.next().unwrap() {
                b'x' => {
                    let digits = [rest.next().unwrap(), rest.next().unwrap()];
                    u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
                }
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                other => other,
            },
            byte => byte,
        });
    }
    bytes
}

fn connection(server: &Redis) -> Connection {
    redis::Client::open(server.url()).unwrap().get_connection().unwrap()
}

#[tokio::test]
async fn this_version_writes_a_queue_that_it_can_read_and_work_off() {
    let server = Redis::settings().start().unwrap();
    fixture::write(&open(&server)).await;
    let written = dump(&mut connection(&server));
    fixture::read_and_work_off(&open(&server)).await;
    if let Some(kept) = std::env::var_os("RUNCUE_FIXTURE") {
        std::fs::write(kept, written).unwrap();
    }
}

#[tokio::test]
async fn queues_of_every_schema_so_far_open_and_are_worked_off() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    for schema in 1..=SCHEMA {
        let path = fixtures.join(format!("schema-{schema}.txt"));
        let lines = std::fs::read_to_string(&path)
            .unwrap_or_else(|_| panic!("{} is missing; see the head of this file", path.display()));
        let server = Redis::settings().start().unwrap();
        load(&mut connection(&server), &lines);
        assert_eq!(dump(&mut connection(&server)), lines, "{}", path.display());
        fixture::read_and_work_off(&open(&server)).await;
        let now: u32 = connection(&server).hget("runcue:{default}:meta", "schema").unwrap();
        assert_eq!(now, SCHEMA);
    }
}
