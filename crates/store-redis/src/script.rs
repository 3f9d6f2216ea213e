//! The scripts, which are the only place where several keys change in one step.

use std::sync::LazyLock;

/// A script by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    /// Takes the turn.
    Begin,
    /// Writes a turn.
    Commit,
    /// Puts parts of a large commit down.
    Stage,
    /// Carries the next part of a large commit out.
    Apply,
    /// Whether a commit went through.
    Settle,
    /// Ends a turn without writing.
    Abandon,
    /// Reads rows.
    Ask,
    /// Says in which lanes jobs are ready.
    Waiting,
}

struct Loaded {
    text: String,
    hash: String,
}

static LOADED: LazyLock<[Loaded; 8]> = LazyLock::new(|| {
    let carry_out = include_str!("../lua/carry_out.lua");
    let pass_on = include_str!("../lua/pass_on.lua");
    let tell = include_str!("../lua/tell.lua");
    [
        include_str!("../lua/begin.lua").to_owned(),
        [carry_out, pass_on, tell, include_str!("../lua/commit.lua")].join("\n"),
        include_str!("../lua/stage.lua").to_owned(),
        [carry_out, tell, include_str!("../lua/apply.lua")].join("\n"),
        [pass_on, include_str!("../lua/settle.lua")].join("\n"),
        [pass_on, include_str!("../lua/abandon.lua")].join("\n"),
        include_str!("../lua/ask.lua").to_owned(),
        include_str!("../lua/waiting.lua").to_owned(),
    ]
    .map(|text| Loaded { hash: redis::Script::new(&text).get_hash().to_owned(), text })
});

static CARRY_OUT: LazyLock<String> = LazyLock::new(|| {
    bare(&[include_str!("../lua/carry_out.lua"), "carry_out(cmsgpack.unpack(ARGV[1]))"])
});

static CONDITION: LazyLock<String> =
    LazyLock::new(|| bare(&[include_str!("../lua/condition.lua")]));

static TELL: LazyLock<String> = LazyLock::new(|| {
    let prefix = "local prefix = string.sub(KEYS[1], 1, -5)";
    bare(&[prefix, include_str!("../lua/tell.lua"), "tell(ARGV[1], ARGV[2], ARGV[3])"])
});

/// Scripts that travel with each call do so without their comments.
fn bare(parts: &[&str]) -> String {
    let lines = parts.iter().flat_map(|text| text.lines()).map(str::trim);
    let lines: Vec<&str> =
        lines.filter(|line| !line.is_empty() && !line.starts_with("--")).collect();
    lines.join("\n")
}

impl Script {
    /// Carries changes out, in the middle of a transaction. It goes there as text, as the two below: a script that the server
    /// had forgotten would be missing from a transaction that takes place all the same.
    pub fn carry_out() -> &'static str {
        &CARRY_OUT
    }

    /// Whether the transaction behind it may take place.
    pub fn condition() -> &'static str {
        &CONDITION
    }

    /// Wakes the other daemons.
    pub fn tell() -> &'static str {
        &TELL
    }

    /// Every script.
    pub const ALL: [Self; 8] = [
        Self::Begin,
        Self::Commit,
        Self::Stage,
        Self::Apply,
        Self::Settle,
        Self::Abandon,
        Self::Ask,
        Self::Waiting,
    ];

    /// What it does.
    pub fn text(self) -> &'static str {
        &LOADED[self as usize].text
    }

    /// What the server knows it by.
    pub fn hash(self) -> &'static str {
        &LOADED[self as usize].hash
    }
}
