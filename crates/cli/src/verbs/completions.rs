//! `runcue completions`: a script for a shell. Verbs and flags are static; ids, groups, tasks and services
//! are asked of `runcue __complete` where the shell allows it.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::app::App;
use crate::cli::Cli;
use crate::exit::Exit;
use crate::trouble::Trouble;

/// Verbs whose words are job ids.
const ID_VERBS: &str = "show logs why retry cancel";

/// Flags of `completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  runcue completions bash > ~/.local/share/bash-completion/completions/runcue
  runcue completions zsh > ~/.zfunc/_runcue
  runcue completions fish > ~/.config/fish/completions/runcue.fish")]
pub struct Args {
    /// The shell
    shell: Shell,
}

/// Prints the script.
pub async fn run(args: Args, app: &App) -> Result<Exit, Trouble> {
    app.out.raw(&script(args.shell))?;
    Ok(Exit::Ok)
}

/// The script of a shell.
fn script(shell: Shell) -> String {
    let mut bytes = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "runcue", &mut bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    match shell {
        // The generator lists hidden verbs as well.
        Shell::Bash => text.replace(" __complete help", " help") + &bash(),
        Shell::Fish => text + &fish(),
        Shell::Zsh => zsh(&text),
        _ => text,
    }
}

/// Wraps the generated function: its words, and ours where a name of the queue is expected.
fn bash() -> String {
    format!(
        r#"
_runcue_names() {{
    local cur prev kind=""
    cur="${{COMP_WORDS[COMP_CWORD]}}"
    prev="${{COMP_WORDS[COMP_CWORD-1]}}"
    _runcue "$@"
    case "$prev" in
        --after|--before) kind=ids ;;
        --group|pause|resume) kind=groups ;;
        --task) kind=tasks ;;
        --service) kind=services ;;
        *)
            if [[ "$cur" != -* && " {ID_VERBS} " == *" ${{COMP_WORDS[1]}} "* ]]; then kind=ids; fi ;;
    esac
    if [[ -n "$kind" ]]; then
        local IFS=$'\n'
        COMPREPLY=($(runcue __complete "$kind" "$cur" 2>/dev/null))
    fi
}}
complete -F _runcue_names -o bashdefault -o default runcue
"#
    )
}

fn fish() -> String {
    let ask = |kind: &str| format!("(runcue __complete --describe {kind} (commandline -ct))");
    let mut lines = format!(
        "complete -c runcue -n \"__fish_seen_subcommand_from {ID_VERBS}\" -f -a \"{}\"\n",
        ask("ids")
    );
    lines += &format!(
        "complete -c runcue -n \"__fish_seen_subcommand_from pause resume\" -f -a \"{}\"\n",
        ask("groups")
    );
    for (flag, kind) in
        [("group", "groups"), ("task", "tasks"), ("service", "services"), ("after", "ids")]
    {
        lines += &format!("complete -c runcue -l {flag} -x -a \"{}\"\n", ask(kind));
    }
    lines
}

/// The generated script asks `_default` for ids; here it asks us.
fn zsh(text: &str) -> String {
    let ask = r#"
_runcue_ids() {
    local -a ids
    ids=(${(f)"$(runcue __complete ids "$PREFIX" 2>/dev/null)"})
    compadd -a ids
}
"#;
    let asked: Vec<String> = text.lines().map(zsh_line).collect();
    let (first, rest) = asked
        .split_first()
        .map_or((String::new(), String::new()), |(first, rest)| (first.clone(), rest.join("\n")));
    format!("{first}\n{ask}{rest}\n")
}

fn zsh_line(line: &str) -> String {
    let names_a_job = [":id --", "::id --", "*::ids --"].iter().any(|mark| line.contains(mark));
    if names_a_job { line.replace(":_default'", ":_runcue_ids'") } else { line.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_gets_a_script_and_three_ask_for_ids() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish, Shell::PowerShell] {
            let text = script(shell);
            assert!(text.contains("idempotency-key"), "{shell}: a flag of a verb");
            let asks = matches!(shell, Shell::Bash | Shell::Zsh | Shell::Fish);
            assert_eq!(text.contains("runcue __complete "), asks, "{shell}");
        }
    }

    #[test]
    fn zsh_asks_for_ids_wherever_a_job_is_named() {
        let text = script(Shell::Zsh);
        let asking = text.lines().filter(|line| line.contains(":_runcue_ids'")).count();
        assert_eq!(asking, ID_VERBS.split(' ').count());
    }
}
