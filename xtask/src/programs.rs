//! Programs that the tests call, and getting those that are missing.
//!
//! Installs only where nobody has to be asked: as root or with a sudo that wants no password, and with
//! apt-get. Everywhere else it names the package and stops.

use std::env;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::Trouble;
use crate::cargo;

/// A program, the Debian package it comes in, and who calls it.
struct Program {
    name: &'static str,
    package: &'static str,
    used_for: &'static str,
}

const PROGRAMS: [Program; 15] = [
    Program { name: "cc", package: "build-essential", used_for: "building SQLite" },
    Program {
        name: "sqlite3",
        package: "sqlite3",
        used_for: "tests that read a queue from outside",
    },
    Program { name: "tmux", package: "tmux", used_for: "tests of the full screen" },
    Program { name: "script", package: "bsdutils", used_for: "tests that need a terminal" },
    Program {
        name: "postgres",
        package: "postgresql",
        used_for: "tests of the PostgreSQL store, which start servers of their own",
    },
    Program {
        name: "redis-server",
        package: "redis-server",
        used_for: "tests of the Redis store, which start servers of their own",
    },
    Program {
        name: "pgbouncer",
        package: "pgbouncer",
        used_for: "tests of the PostgreSQL store behind a pooler",
    },
    Program {
        name: "openssl",
        package: "openssl",
        used_for: "tests of encrypted connections, which make certificates of their own",
    },
    Program { name: "curl", package: "curl", used_for: "the example of a worker in bash" },
    Program { name: "jq", package: "jq", used_for: "the example of a worker in bash" },
    Program { name: "npm", package: "npm", used_for: "building and testing the dashboard" },
    Program {
        name: "node",
        package: "nodejs",
        used_for: "building and testing the dashboard, and other queues that are measured",
    },
    Program {
        name: "chromium",
        package: "chromium",
        used_for: "tests of the dashboard in a browser",
    },
    Program {
        name: "python3",
        package: "python3-venv",
        used_for: "property-based tests of the hub over HTTP",
    },
    Program {
        name: "flock",
        package: "util-linux",
        used_for: "ending those servers after the last test",
    },
];

/// Packages that come with a service of the same name.
const SERVICES: [&str; 3] = ["postgresql", "redis-server", "pgbouncer"];

/// Parts of the toolchain: the subcommand, and the rustup component it comes in.
const COMPONENTS: [(&str, &str); 2] = [("fmt", "rustfmt"), ("clippy", "clippy")];

/// Makes sure that everything the steps need is there, or says what is not.
pub fn ensure(root: &Path) -> Result<(), Trouble> {
    let lacking = COMPONENTS.iter().filter(|(subcommand, _)| !cargo::has(root, subcommand));
    let lacking: Vec<&str> = lacking.map(|(_, component)| *component).collect();
    if !lacking.is_empty() {
        let names = lacking.join(" ");
        return Err(Trouble::Refused(format!(
            "the toolchain lacks {names}: rustup component add {names}"
        )));
    }
    install_missing(&missing(is_there))
}

/// Makes sure that everything is there which these words of a benchmark ask for: the servers of the parts that are
/// named, of all if none is, and what the other queues run on if they are to be measured.
pub fn ensure_measured(words: &[String]) -> Result<(), Trouble> {
    let mut missing = missing(is_there);
    missing.retain(|program| is_measured(program.name, words));
    install_missing(&missing)
}

fn is_measured(program: &str, words: &[String]) -> bool {
    let has = |wanted: &str| words.iter().any(|word| word == wanted);
    let parts: &[&str] = match program {
        "postgres" => &["postgres"],
        "redis-server" => &["redis"],
        "npm" | "node" if has("--peers") => &["postgres", "redis"],
        "python3" if has("--peers") => &["engine"],
        _ => return false,
    };
    words.iter().all(|word| word.starts_with("--")) || parts.iter().any(|part| has(part))
}

fn install_missing(missing: &[&Program]) -> Result<(), Trouble> {
    if missing.is_empty() {
        return Ok(());
    }
    let Some(prefix) = may_install() else { return Err(Trouble::Refused(advice(missing))) };
    println!("xtask: installing {} with apt-get", packages(missing).join(" "));
    install(prefix, missing)
}

fn missing(is_there: impl Fn(&str) -> bool) -> Vec<&'static Program> {
    PROGRAMS.iter().filter(|program| !is_there(program.name)).collect()
}

/// Of the programs that were to be installed: what else this machine lacks is not what was asked for.
fn still_missing<'a>(wanted: &[&'a Program], is_there: impl Fn(&str) -> bool) -> Vec<&'a Program> {
    wanted.iter().copied().filter(|program| !is_there(program.name)).collect()
}

/// Whether a program is on the path, or where Debian keeps servers: off the path of users who are not root.
fn is_there(name: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let versions = Path::new("/usr/lib/postgresql").read_dir().into_iter().flatten().flatten();
    let mut places = env::split_paths(&path)
        .chain(versions.map(|version| version.path().join("bin")))
        .chain(["/usr/sbin".into(), "/sbin".into()]);
    let found = places.any(|directory| directory.join(name).is_file());
    // Debian's Python comes without what makes a directory for packages.
    found && (name != "python3" || succeeded(&quietly(name, &["-c", "import ensurepip, venv"])))
}

fn packages(missing: &[&Program]) -> Vec<&'static str> {
    missing.iter().map(|program| program.package).collect()
}

fn advice(missing: &[&Program]) -> String {
    let mut text = String::new();
    for program in missing {
        text.push_str(&format!(
            "{} is missing, for {}: install the package {}\n",
            program.name, program.used_for, program.package
        ));
    }
    text + &format!("on Debian: apt-get install {}", packages(missing).join(" "))
}

/// The words before apt-get, if it may be called without asking anyone.
fn may_install() -> Option<&'static [&'static str]> {
    if !is_there("apt-get") {
        return None;
    }
    let answer = quietly("id", &["-u"]).ok()?;
    if answer.stdout.trim_ascii() == b"0" {
        return Some(&[]);
    }
    let free = quietly("sudo", &["-n", "true"]).is_ok_and(|output| output.status.success());
    free.then_some(&["sudo", "-n"])
}

fn install(prefix: &[&str], missing: &[&Program]) -> Result<(), Trouble> {
    let mut words = vec!["install", "-y", "-qq", "--no-install-recommends"];
    words.extend(packages(missing));
    let mut done = apt(prefix, &words);
    if !succeeded(&done) {
        // A new machine has no package lists yet.
        let _ = apt(prefix, &["update", "-qq"]);
        done = apt(prefix, &words);
    }
    let left = still_missing(missing, is_there);
    if succeeded(&done) && left.is_empty() {
        stop_services(prefix, missing);
        return Ok(());
    }
    let why = match &done {
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    Err(Trouble::Refused(format!("apt-get did not help: {why}\n{}", advice(&left))))
}

/// Packages of servers start them. The tests start their own, so what was only installed for them stays off.
fn stop_services(prefix: &[&str], installed: &[&Program]) {
    for service in SERVICES.iter().filter(|service| packages(installed).contains(service)) {
        println!("xtask: the service {service} is stopped, the tests start servers of their own");
        let _ = sudo(prefix, &["service", service, "stop"]);
        let _ = sudo(prefix, &["systemctl", "disable", service]);
    }
}

fn sudo(prefix: &[&str], words: &[&str]) -> std::io::Result<Output> {
    let line: Vec<&str> = prefix.iter().chain(words).copied().collect();
    quietly(line[0], &line[1..])
}

fn apt(prefix: &[&str], words: &[&str]) -> std::io::Result<Output> {
    let line: Vec<&str> =
        ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"].iter().chain(words).copied().collect();
    sudo(prefix, &line)
}

fn quietly(program: &str, words: &[&str]) -> std::io::Result<Output> {
    Command::new(program).args(words).stdin(Stdio::null()).output()
}

fn succeeded(done: &std::io::Result<Output>) -> bool {
    done.as_ref().is_ok_and(|output| output.status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_package() {
        let missing = missing(|name| name != "script" && name != "sqlite3");
        let advice = advice(&missing);
        assert!(advice.contains("script is missing"), "{advice}");
        assert!(advice.ends_with("apt-get install sqlite3 bsdutils"), "{advice}");
    }

    #[test]
    fn servers_are_named_with_the_packages_they_come_in() {
        let missing = missing(|name| name != "postgres" && name != "redis-server");
        let advice = advice(&missing);
        assert!(advice.contains("redis-server is missing"), "{advice}");
        assert!(advice.ends_with("apt-get install postgresql redis-server"), "{advice}");
    }

    #[test]
    fn a_benchmark_needs_the_servers_of_the_parts_that_are_named() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert!(is_measured("redis-server", &words("--peers redis engine")));
        assert!(!is_measured("postgres", &words("--peers redis engine")));
        assert!(is_measured("postgres", &words("--quick")), "everything is measured");
        assert!(!is_measured("chromium", &words("")));
    }

    #[test]
    fn other_queues_need_what_they_run_on_if_they_are_to_be_measured() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for program in ["npm", "node"] {
            for line in ["--peers", "--quick --peers", "redis --peers", "--peers engine postgres"] {
                assert!(is_measured(program, &words(line)), "{program}: {line}");
            }
            for line in ["", "--quick", "redis", "--peers engine", "--peers latency"] {
                assert!(!is_measured(program, &words(line)), "{program}: {line}");
            }
        }
        assert!(is_measured("python3", &words("--peers engine")));
        assert!(!is_measured("python3", &words("engine")));
        assert!(!is_measured("python3", &words("--peers redis")));
    }

    #[test]
    fn npm_and_node_are_named_with_the_packages_they_come_in() {
        let advice = advice(&missing(|name| name != "npm" && name != "node"));
        assert!(advice.contains("node is missing"), "{advice}");
        assert!(advice.ends_with("apt-get install npm nodejs"), "{advice}");
    }

    #[test]
    fn an_installation_is_judged_by_what_it_was_to_install() {
        let wanted = missing(|name| name != "redis-server");
        assert!(still_missing(&wanted, |name| name == "redis-server").is_empty());
        assert_eq!(packages(&still_missing(&wanted, |_| false)), ["redis-server"]);
    }

    #[test]
    fn a_program_is_looked_for_on_the_path() {
        assert!(is_there("sh"));
        assert!(!is_there("no-such-program-anywhere"));
    }
}
