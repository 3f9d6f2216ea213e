//! How a hub is reached: through TLS, with the variables of the founding document, and without a secret in any log.

use runcue_test_servers::Authority;
use serde_json::{Value, json};

use super::scene::{Files, Process, Scene, call, call_with, serve_as};
use crate::sandbox::Sandbox;

fn state(sandbox: &Sandbox, id: &str) -> Value {
    sandbox.run(&["show", id, "--json"]).json()["state"].clone()
}

#[test]
fn an_agent_works_for_a_hub_through_tls_if_it_knows_who_signed_for_it() {
    let (ours, other) = (Authority::new().unwrap(), Authority::new().unwrap());
    let signed = ours.sign("IP:127.0.0.1").unwrap();
    let (certificate, key) =
        (signed.certificate.display().to_string(), signed.key.display().to_string());
    let scene = Scene::new(&["--tls-cert", &certificate, "--tls-key", &key]);
    let url = format!("https://127.0.0.1:{}", scene.port());
    let agent = |name: &str, authority: &Authority| {
        let log = std::fs::File::create(scene.sandbox.path().join(format!("{name}.log"))).unwrap();
        let words = ["worker", "--id", name, "--hub", &url, "--allow-commands"];
        let mut command = scene.sandbox.command(&words);
        let command = command.env("SSL_CERT_FILE", authority.certificate());
        Process(command.stdout(std::process::Stdio::null()).stderr(log).spawn().unwrap())
    };
    let id = scene.sandbox.add(&["--", "echo", "hello"]);
    let _distrustful = agent("distrustful", &other);
    scene.until("the refusal of the one who does not know it", |scene| {
        scene.sandbox.read("distrustful.log").contains("no jobs can be claimed")
    });
    assert_eq!(state(&scene.sandbox, &id), "queued");
    let _agent = agent("trusting", &ours);
    scene.until("the job through TLS", |scene| state(&scene.sandbox, &id) == "completed");
    // What is said in the clear is not answered.
    let in_the_clear = call(scene.port(), "GET", "/healthz", None);
    assert_eq!(in_the_clear.map_or(0, |(status, _)| status), 0);
}

#[test]
fn a_certificate_that_does_not_go_with_its_key_is_named_at_start() {
    let authority = Authority::new().unwrap();
    let (one, other) =
        (authority.sign("IP:127.0.0.1").unwrap(), authority.sign("IP:127.0.0.1").unwrap());
    let sandbox = Sandbox::new();
    let (certificate, key) =
        (one.certificate.display().to_string(), other.key.display().to_string());
    let words = ["serve", "--listen", "127.0.0.1:0", "--tls-cert", &certificate, "--tls-key", &key];
    let refused = sandbox.run(&words).refused(1);
    assert!(refused.contains(&certificate) && refused.contains("--tls-key"), "{refused}");
}

#[test]
fn the_variables_of_the_founding_document_set_up_a_hub_and_its_worker() {
    let sandbox = Sandbox::new();
    let file = sandbox.path().join("forge-monitor.sqlite");
    let sandbox = sandbox
        .with_env("HUB_MODE", "true")
        .with_env("PORT", "0")
        .with_env("SQLITE_PATH", &file.display().to_string())
        .with_env("FORGE_INGEST_SECRET", "founding-secret");
    let (_hub, port) = serve_as(&sandbox, &[]);
    assert!(file.exists(), "the queue is where SQLITE_PATH says");
    assert_eq!(call(port, "GET", "/api/jobs", None).unwrap().0, 401);
    let bearer = "Authorization: Bearer founding-secret\r\n";
    let ask = |method: &str, path: &str, body: Option<&Value>| {
        call_with(port, method, path, bearer, body).unwrap()
    };
    let files = Files::offer("echo \"\\\"$NODE_ID\\\"\"");
    let mut body = files.job(&json!({}));
    body["requires"] = json!({"cores": 7, "ram_gb": 11.5, "tags": ["gpu"]});
    let (status, answer) = ask("POST", "/api/jobs", Some(&body));
    assert_eq!(status, 201, "{answer}");
    let id = answer["id"].as_str().unwrap().to_owned();
    body["type"] = json!("other");
    let (_, other) = ask("POST", "/api/jobs", Some(&body));

    let cache = sandbox.path().join("solvers");
    let mut worker = sandbox.command(&["worker"]);
    worker.envs([
        ("HUB_URL", format!("http://127.0.0.1:{port}")),
        ("NODE_ID", "worker-01".to_owned()),
        ("NODE_NAME", "Worker 01".to_owned()),
        ("WORKER_CORES", "7".to_owned()),
        ("WORKER_RAM_GB", "11.5".to_owned()),
        ("WORKER_TAGS", "[\"gpu\"]".to_owned()),
        ("WORKER_TYPES", "[\"solve\"]".to_owned()),
        ("SOLVER_CACHE_DIR", cache.display().to_string()),
        ("PUSH_INTERVAL_MS", "200".to_owned()),
    ]);
    let quiet = || std::process::Stdio::null();
    let _worker = Process(worker.stdout(quiet()).stderr(quiet()).spawn().unwrap());
    let show = |id: &str| ask("GET", &format!("/api/jobs/{id}"), None).1;
    let until = |what: &str, holds: &dyn Fn() -> bool| {
        let bound = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !holds() {
            assert!(std::time::Instant::now() < bound, "{what} did not come");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    };
    until("the result", &|| show(&id)["state"] == "completed");
    let job = show(&id);
    assert_eq!((&job["result"], &job["worker_id"]), (&json!("worker-01"), &json!("worker-01")));
    assert!(cache.join(&files.checksum).exists(), "the solver is kept where it was said");
    assert_eq!(show(other["id"].as_str().unwrap())["state"], "queued", "not one of its types");
    until("the machine's metrics", &|| {
        let (_, fleet) = ask("GET", "/api/fleet", None);
        fleet[0]["node"] == "worker-01"
            && fleet[0]["name"] == "Worker 01"
            && !fleet[0]["latest"].is_null()
    });
}

#[test]
fn no_token_and_no_secret_is_in_any_log() {
    let sandbox = Sandbox::new()
        .with_env("RUNCUE_TOKEN", "the-token-of-the-hub")
        .with_env("RUNCUE_WEBHOOK_SECRET", "the-secret-of-the-webhook")
        .with_env("RUST_LOG", "trace");
    let scene = Scene::on(sandbox, &[]);
    let ask = |token: &str, method: &str, path: &str, body: &Value| {
        let bearer = format!("Authorization: Bearer {token}\r\n");
        call_with(scene.port(), method, path, &bearer, Some(body)).unwrap()
    };
    let (status, made) =
        ask("the-token-of-the-hub", "POST", "/api/tokens", &json!({"name": "ci", "role": "work"}));
    assert_eq!(status, 201);
    let kept = made["token"].as_str().unwrap().to_owned();
    assert_eq!(ask(&kept, "POST", "/api/workers/register", &json!({"worker_id": "w"})).0, 204);
    assert_eq!(ask("a-wrong-guess", "GET", "/api/jobs", &json!({})).0, 401);
    for (token, status) in [("another-wrong-guess", 401), ("the-token-of-the-hub", 200)] {
        let login = json!({"token": token});
        assert_eq!(call(scene.port(), "POST", "/api/login", Some(&login)).unwrap().0, status);
    }
    scene.sandbox.run(&["webhook", "add", "http://127.0.0.1:9/hook"]).ok();
    let mut agent = scene.agent("n1", &["--allow-commands"]);
    let id = scene.sandbox.add(&["--", "true"]);
    scene.until("a job by an agent that has the token", |scene| {
        state(&scene.sandbox, &id) == "completed"
    });
    agent.signal("-TERM");
    agent.ended();
    let secrets = [
        "the-token-of-the-hub",
        "the-secret-of-the-webhook",
        "a-wrong-guess",
        "another-wrong-guess",
        &kept,
    ];
    for log in ["hub.log", "n1.log"] {
        let text = scene.sandbox.read(log);
        assert!(!text.is_empty(), "{log} has nothing in it: this proves nothing");
        for secret in secrets {
            assert!(!text.contains(secret), "{secret} is in {log}");
        }
    }
}
