//! Large files, and files that only look small.

use super::*;

#[test]
fn a_file_over_the_limit_is_refused_by_its_size_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("huge.yaml");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(100_000_000).unwrap();
    let error = load(&path).unwrap_err();
    assert!(matches!(error, FileError::TooLarge { size: 100_000_000, .. }), "{error}");
    assert!(error.to_string().contains("100000000 bytes, and the limit is 16777216"));
}

#[test]
fn a_yaml_bomb_is_refused() {
    let mut text = "x0: &x0 [a, a, a, a, a, a, a, a, a]\n".to_owned();
    for n in 1..10 {
        let aliases = vec![format!("*x{}", n - 1); 9].join(", ");
        text.push_str(&format!("x{n}: &x{n} [{aliases}]\n"));
    }
    text.push_str("jobs: []\n");
    let report = refused(&text);
    assert!(report.contains("aliases (*name) repeat more than"), "{report}");
}

#[test]
fn too_deep_nesting_is_refused() {
    let deep = format!("jobs: {}{}\n", "[".repeat(100_000), "]".repeat(100_000));
    let report = refused(&deep);
    assert!(report.starts_with("f.yaml:1: "), "{report}");
}

#[test]
fn an_expansion_over_a_million_jobs_is_refused_before_it_is_made() {
    let report = refused(
        "jobs:\n- {run: [a], grid: {a: {from: 1, to: 1000}, b: {from: 1, to: 1000}, c: [1, 2]}}\n",
    );
    assert!(report.contains("more than 1000000 jobs after expansion"), "{report}");
    let wide: String = (0..40).map(|n| format!("a{n}: [1, 2, 3, 4], ")).collect();
    let report = refused(&format!("jobs: [{{run: [a], grid: {{{wide}}}}}]\n"));
    assert!(report.contains("more than 1000000 jobs after expansion"), "{report}");
    let report = refused("jobs: [{run: [a], grid: {n: {from: 1, to: 99999999999}}}]\n");
    assert!(report.contains("has more than 1000000 values"), "{report}");
}

#[test]
fn all_of_many_on_all_of_many_is_refused() {
    let report = refused(
        "jobs:\n- {id: a, run: [x], grid: {n: {from: 1, to: 10000}}}\n- {id: b, run: [x], grid: {n: {from: 1, to: 10000}}, depends_on: a}\n",
    );
    assert!(report.contains("more than 5000000 dependencies"), "{report}");
}

#[test]
fn a_chain_of_a_hundred_thousand_jobs_is_checked_without_recursion() {
    let mut text = "{\"jobs\": [{\"id\": \"0\", \"run\": [\"x\"]}".to_owned();
    for n in 1..100_000 {
        text.push_str(&format!(",{{\"id\":\"{n}\",\"run\":[\"x\"],\"depends_on\":\"{}\"}}", n - 1));
    }
    text.push_str("]}");
    let file = parse(&text, Format::Json, "f.json").unwrap();
    assert_eq!(file.jobs.len(), 100_000);
    assert_eq!(file.jobs[99_999].depends_on, ["99998"]);
    let circle =
        text.replacen("\"run\": [\"x\"]", "\"run\": [\"x\"], \"depends_on\": \"99999\"", 1);
    let report = parse(&circle, Format::Json, "f.json").unwrap_err().to_string();
    assert!(report.contains("goes round in a circle: 0 -> 99999 -> 99998"), "{report}");
    assert!(report.contains(" -> … -> 0"), "{report}");
}
