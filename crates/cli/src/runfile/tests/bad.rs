//! Files that are refused, and the words they are refused with.

use super::*;

/// A file around one job.
fn job(fields: &str) -> String {
    format!(
        "services: {{api: {{rate: 60/min}}}}\ntasks:\n  fetch: {{run: [echo, hi]}}\njobs:\n- {{id: x, task: fetch, {fields}}}\n"
    )
}

#[test]
fn mistakes_in_a_schedule_name_it_and_the_fix() {
    let head = "services: {api: {rate: 60/min}}\ntasks:\n  fetch: {run: [echo, \"{target}\"]}\nschedules:\n";
    for (fields, expected) in [
        ("run: [ls]", "f.yaml:5: schedules.x: cron is missing; say when"),
        (
            "cron: often, run: [ls]",
            "f.yaml:5: schedules.x: cron cannot be used: \"often\" is not a cron",
        ),
        ("cron: '0 0 30 2 *', run: [ls]", "never comes"),
        (
            "cron: '@daily', zone: Berlin, run: [ls]",
            "zone cannot be used: there is no time zone \"Berlin\"",
        ),
        ("cron: '@daily'", "has neither task nor run"),
        (
            "cron: '@daily', task: fetsch, target: x",
            "task \"fetsch\" is not in tasks; did you mean",
        ),
        (
            "cron: '@daily', task: fetch",
            "run of its task \"fetch\" has {target}, but the job has no target",
        ),
        ("cron: '@daily', run: [ls], services: apj", "services names \"apj\""),
        (
            "cron: '@daily', run: [ls], missed: al",
            "missed is \"al\"; it must be one of skip, once, all",
        ),
        (
            "cron: '@daily', run: [ls], overlap: none",
            "overlap is \"none\"; it must be one of allow, skip",
        ),
        ("cron: '@daily', run: [ls], depends_on: y", "unknown field \"depends_on\""),
        ("cron: '@daily', run: [ls], in: 5m", "unknown field \"in\""),
    ] {
        let text = format!("{head}  x: {{{fields}}}\n");
        let told = refused(&text);
        assert!(told.contains(expected), "{fields}: {told}");
    }
}

#[test]
fn mistakes_inside_one_job_name_the_line_the_job_and_the_fix() {
    for (fields, expected) in [
        (
            "tiemout: 5",
            "f.yaml:5: jobs[0] (id \"x\"): unknown field \"tiemout\"; did you mean \"timeout\"?",
        ),
        ("colour: 5", "unknown field \"colour\"; the fields here are id, task, run"),
        ("timeout: soon", "timeout is \"soon\", which is no duration; write seconds"),
        ("timeout: [5]", "timeout must be a duration like 30, 500ms or 1h30m, but it is a list"),
        ("timeout: 0", "timeout is 0; it must be above 0"),
        ("timeout: -5", "timeout is -5; a duration cannot be negative"),
        ("target: [a]", "target must be text, but it is a list"),
        ("params: 5", "jobs[0] (id \"x\").params: must be a map, but it is the number 5"),
        ("retry: {max_crashes: 0}", "max_crashes is 0; it must be from 1"),
        ("max_attempts: 0", "max_attempts is 0; it must be from 1"),
        ("max_attempts: many", "max_attempts must be a whole number, but it is the text \"many\""),
        ("max_attempts: 2.5", "max_attempts must be a whole number, but it is the number 2.5"),
        ("retry: 3, max_attempts: 4", "max_attempts is 4, but retry says 3; keep one"),
        (
            "retry: {backof: fixed}",
            "jobs[0] (id \"x\").retry: unknown field \"backof\"; did you mean \"backoff\"?",
        ),
        (
            "retry: {backoff: liner}",
            "backoff is \"liner\"; it must be fixed, linear or exponential; did you mean \"linear\"?",
        ),
        ("retry: {jitter: maybe}", "jitter must be true or false, but it is the text \"maybe\""),
        ("retry: {base_delay: 9, max_delay: 1}", "base_delay is longer than max_delay"),
        ("priority: 99999999", "priority is 99999999; it must be from -1000000 to 1000000"),
        (
            "priority: urgent",
            "priority must be a whole number, or low (0), normal (50), high (100) or critical (200)",
        ),
        ("run: [ls]", "task and run are both set; keep one"),
        ("in: 5, run_at: 2027-01-01T00:00:00Z", "run_at and in are both set; keep one"),
        ("run_at: tomorrow", "run_at is \"tomorrow\"; write an instant with its offset"),
        (
            "services: apj",
            "services names \"apj\", which is not in services; did you mean \"api\"?",
        ),
        ("services: {api: 61}", "costs 61 of \"api\", whose limit is 60/min; it could never start"),
        ("services: api, cost: 0", "cost must be a whole number of units from 1"),
        (
            "services: api, cost: '{params.n}', params: {n: many}",
            "cost of api comes out of {params.n} as \"many\"",
        ),
        ("cost: 5", "cost is set, but there are no services to spend it on"),
        ("services: api, cost: {s3: 5}", "cost names \"s3\", which is not among the services used"),
        ("depends_on: y", "depends_on names \"y\", which no job has"),
        ("depends_on: x", "depends_on goes round in a circle: x -> x"),
        ("depends_on: {a: b}", "depends_on must be text or a list of texts, but it is a map"),
        ("for_each: []", "for_each has no values, so there would be no job"),
        ("for_each: [[1]]", "for_each must be a list of plain values"),
        ("for_each: [a], glob: '*'", "for_each and glob are both set; keep one"),
        ("grid: {}", "grid is empty"),
        ("grid: {id: [1]}", "grid.id would hide the placeholder {id}"),
        ("grid: {'a b': [1]}", "grid.a b cannot be a placeholder"),
        ("grid: {n: {from: 1}}", "to is missing; a range is {from: 1, to: 5}"),
        (
            "grid: {n: [1]}, params: {n: 2}",
            "params.n is also what the expansion gives as {n}; rename one",
        ),
        ("for_each: [a, a]", "two jobs of this expansion get the id \"x-a\""),
        (
            "for_each: [a, b], idempotency_key: k",
            "idempotency_key \"k\" is that of job \"x-a\" too; put {id} in it",
        ),
        ("glob: 'no-such-*.csv'", "glob \"no-such-*.csv\" matches no file in ."),
        (
            "target: 'a/{itm}', for_each: [a]",
            "target has {itm}, which names nothing here; did you mean \"item\"? there is item and task; write {{itm}} for literal braces",
        ),
        ("params: {p: '{target}'}", "params.p has {target}, which names nothing here"),
        ("group: \"a\\tb\"", "group has a control character"),
    ] {
        let report = refused(&job(fields));
        assert!(report.contains(expected), "{fields}\n{report}");
        assert_eq!(report.lines().count(), 1, "{fields}\n{report}");
        assert!(report.starts_with("f.yaml:5: jobs[0] (id \"x\")"), "{report}");
    }
}

#[test]
fn mistakes_in_services_are_named() {
    for (fields, expected) in [
        ("rate: 0/s", "f.yaml:1: services.api: rate is \"0/s\"; the count must be at least 1"),
        ("rate: -5/min", "rate is \"-5/min\"; the count must be at least 1"),
        ("rate: 60", "rate is \"60\", which is no rate; write 60/min"),
        ("rate: [0, 60]", "rate is \"0/60\"; the count must be at least 1"),
        ("rate: [60, 0]", "rate is \"60/0\"; the window must be longer than 0"),
        ("rate_limit: 0", "rate_limit is 0; it must be at least 1"),
        ("rate_limit: -1", "rate_limit is -1; it must be at least 1"),
        ("rate_limit: 5, rate_window: 0", "rate_window is 0; it must be above 0"),
        ("rate_window: 5", "rate_window needs a rate_limit beside it"),
        ("max_concurrent: 0", "max_concurrent is 0; it must be at least 1"),
        ("limits: 5", "limits must be a list"),
        (
            "limits: [{rate_limit: 5, window: 3}]",
            "services.api.limits[0]: unknown field \"window\"",
        ),
        ("per_key: {rate: x}", "services.api.per_key: rate is \"x\", which is no rate"),
        ("max_concurent: 3", "unknown field \"max_concurent\"; did you mean \"max_concurrent\"?"),
    ] {
        let report = refused(&format!("services: {{api: {{{fields}}}}}\njobs: []\n"));
        assert!(report.contains(expected), "{fields}\n{report}");
    }
}

#[test]
fn mistakes_in_tasks_are_named() {
    for (task, expected) in [
        ("{}", "f.yaml:1: tasks.t: has no run; add run: [program, argument]"),
        ("{run: []}", "tasks.t: run is empty; write the program and its arguments"),
        ("{run: ['']}", "tasks.t: run is empty"),
        ("{run: ' '}", "tasks.t: run is empty; write the command to run"),
        ("{run: {a: b}}", "run must be a list of arguments or a shell string, but it is a map"),
        ("{run: [echo, [a]]}", "run[1] must be text (put quotes around it), but it is a list"),
        ("{run: [echo, null]}", "run[1] must be text (put quotes around it), but it is nothing"),
        (
            "{run: \"echo '{target}'\"}",
            "run: {target} stands inside single quotes, where a value cannot be quoted",
        ),
        (
            "{run: [echo, '{params.xy}']}",
            "jobs[0] (id \"a\"): run of its task \"t\" has {params.xy}, which names nothing here; did you mean \"params.x\"?",
        ),
        (
            "{run: [echo, '{target}']}",
            "run of its task \"t\" has {target}, but the job has no target; add target: …",
        ),
        (
            "{run: [echo], env: {A: '{nope}'}}",
            "env.A of its task \"t\" has {nope}, which names nothing here; there is id",
        ),
        ("{run: [echo], cwd: '{nope}'}", "cwd of its task \"t\" has {nope}"),
        ("{run: [echo], key: '{nope}'}", "key has {nope}, which names nothing here"),
        (
            "{run: [echo], services: [s3]}",
            "tasks.t: services names \"s3\", which is not in services; the services are nothing",
        ),
        ("{run: [echo], requires: {cores: 0}}", "tasks.t.requires: cores is 0"),
        ("{run: [echo], requires: {ram_gb: -1}}", "ram_gb is -1; it must be above 0"),
        ("{run: [echo], env: {'A=B': x}}", "tasks.t.env: the variable name \"A=B\" is not valid"),
        ("5", "tasks.t: must be a map, but it is the number 5"),
    ] {
        let text = format!("tasks: {{t: {task}}}\njobs: [{{id: a, task: t, params: {{x: 1}}}}]\n");
        let report = refused(&text);
        assert!(report.contains(expected), "{task}\n{report}");
        assert_eq!(report.lines().count(), 1, "{task}\n{report}");
    }
}

#[test]
fn mistakes_of_the_whole_file_are_named() {
    for (text, expected) in [
        ("jbos: []\n", "f.yaml:1: unknown field \"jbos\"; did you mean \"jobs\"?"),
        ("tasks: {}\n", "f.yaml: there are no jobs; add a list \"jobs\""),
        ("", "there are no jobs"),
        ("hello", "must be a map, but it is the text \"hello\""),
        ("jobs: {a: 1}\n", "jobs must be a list of jobs, but it is a map"),
        ("jobs: [5]\n", "jobs[0]: must be a map, but it is the number 5"),
        ("jobs: [{id: a}]\n", "jobs[0] (id \"a\"): has neither task nor run"),
        ("jobs: []\nmax_parallel: 0\n", "f.yaml:2: max_parallel is 0"),
        ("jobs: []\nname: [\n", "not valid YAML"),
        ("jobs: []\njobs: []\n", "f.yaml:2: the key \"jobs\" is written twice, first on line 1"),
        (
            "tasks: {fetch: {run: [a]}}\njobs: [{task: fetsh}]\n",
            "f.yaml:2: jobs[0]: task \"fetsh\" is not in tasks; did you mean \"fetch\"?",
        ),
        ("jobs: [{task: t}]\n", "task \"t\" is not in tasks; the tasks are nothing"),
        (
            "tasks: {\"a\\tb\": {run: [a]}}\njobs: []\n",
            "tasks: the name \"a\\tb\" has a control character",
        ),
    ] {
        let report = refused(text);
        assert!(report.contains(expected), "{text}\n{report}");
    }
}

#[test]
fn ids_are_checked() {
    let with_id = |id: &str| refused(&format!("jobs: [{{id: \"{id}\", run: [a]}}]\n"));
    assert!(with_id(&"x".repeat(201)).contains("id is 201 characters long; at most 200"));
    assert!(with_id("a\\nb").contains("(id \"a\\nb\"): id has a control character"));
    assert!(with_id(" ").contains("id is empty"));
    let report = refused("jobs:\n- {id: a, run: [a]}\n- {id: b, run: [a]}\n- {id: a, run: [a]}\n");
    assert_eq!(
        report,
        "f.yaml:4: jobs[2] (id \"a\"): the id \"a\" is taken by jobs[0]; ids must be unique"
    );
    let long = refused(&format!("jobs: [{{run: [a], for_each: [{}]}}]\n", "y".repeat(300)));
    assert!(long.contains("the id made from the values is 304 characters long"), "{long}");
}

#[test]
fn a_cycle_is_printed_as_it_runs() {
    let report = refused(
        "jobs:\n- {id: s, run: [x], depends_on: a}\n- {id: a, run: [x], depends_on: b}\n- {id: b, run: [x], depends_on: [free, c]}\n- {id: c, run: [x], depends_on: a}\n- {id: free, run: [x]}\n",
    );
    assert_eq!(
        report,
        "f.yaml:3: jobs[1] (id \"a\"): depends_on goes round in a circle: a -> b -> c -> a; remove one of these"
    );
}

#[test]
fn several_mistakes_are_reported_together() {
    let report = refused(
        "services: {api: {rate: 0/s}}\ntasks: {t: {run: [a], timout: 3}}\njobs:\n- {task: t, prio: 3}\n- {id: you, task: t, depends_on: z}\n",
    );
    assert_eq!(
        report.lines().collect::<Vec<_>>(),
        [
            "f.yaml:1: services.api: rate is \"0/s\"; the count must be at least 1 (pause the group to stop work)",
            "f.yaml:2: tasks.t: unknown field \"timout\"; did you mean \"timeout\"?",
            "f.yaml:4: jobs[0]: unknown field \"prio\"; the fields here are id, task, run, target, params, depends_on, for_each, glob, grid, group, priority, labels, project, queue, timeout, dependency_timeout, run_at, in, expires_in, idempotency_key, retry, max_attempts, services, cost and key",
            "f.yaml:5: jobs[1] (id \"you\"): depends_on names \"z\", which no job has",
        ]
    );
}

#[test]
fn an_expansion_with_a_mistake_reports_it_once() {
    let report = refused(
        "tasks: {t: {run: [echo, '{params.q}']}}\njobs:\n- {task: t, grid: {n: {from: 1, to: 1000}}, depends_on: nope}\n",
    );
    assert_eq!(report.lines().count(), 2, "{report}");
}

#[test]
fn toml_and_json_mistakes_have_lines_too() {
    let toml = "[tasks.t]\nrun = ['a']\n[[jobs]]\ntask = 't'\ntarget = [1]\n";
    let report = parse(toml, Format::Toml, "f.toml").unwrap_err().to_string();
    assert_eq!(report, "f.toml:5: jobs[0]: target must be text, but it is a list");
    let json = "{\"jobs\": [\n{\"run\": [\"a\"],\n\"priority\": \"x\"}]}";
    let report = parse(json, Format::Json, "f.json").unwrap_err().to_string();
    assert!(report.starts_with("f.json:3: jobs[0]: priority must be"), "{report}");
    let broken = parse("{\"jobs\": [}", Format::Json, "f.json").unwrap_err();
    assert!(broken.to_string().starts_with("f.json:1: not valid JSON: "), "{broken}");
    let broken = parse("a = ", Format::Toml, "f.toml").unwrap_err();
    assert!(broken.to_string().starts_with("f.toml:1: not valid TOML: "), "{broken}");
}

#[test]
fn a_file_that_is_not_there_or_not_text_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let missing = load(&dir.path().join("no.yaml")).unwrap_err();
    assert!(missing.to_string().contains("no.yaml: cannot read it: "), "{missing}");
    let binary = dir.path().join("bin.yaml");
    std::fs::write(&binary, b"jobs:\n- \xff\xfe\n").unwrap();
    let error = load(&binary).unwrap_err().to_string();
    assert!(error.contains("bin.yaml:2: not UTF-8 text"), "{error}");
    assert!(matches!(load(dir.path()), Err(FileError::Read { .. })));
}

#[test]
fn a_dependency_with_a_slip_gets_the_name_that_was_meant() {
    let report =
        refused("jobs:\n- {id: fetch, run: [a]}\n- {id: parse, run: [a], depends_on: fecth}\n");
    assert_eq!(
        report,
        "f.yaml:3: jobs[1] (id \"parse\"): depends_on names \"fecth\", which no job has; did you mean \"fetch\"?"
    );
}
