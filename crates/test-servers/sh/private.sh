# Keeps a server for one process and ends it with that process: standard input is a pipe from there, and
# its end is the sign. A line through it before that says that the process lives and cleans up by itself.
# Arguments: the server's directory, then its command. Says the server's pid.
directory=$1
shift
"$@" </dev/null >>"$directory/log" 2>&1 &
server=$!
# The kernel hangs up on a process group that loses its last parent while a process in it is stopped. The
# pipe ends a moment before that, so the server may be stopped by then, and whoever keeps it must live on.
trap '' HUP
echo "$server"
exec >/dev/null

# The server's own children, which would outlive it if they were frozen.
children() {
    for stat in /proc/[0-9]*/stat; do
        { read -r line <"$stat"; } 2>/dev/null || continue
        pid=${line%% *}
        set -- ${line##*) }
        [ "$2" = "$server" ] && echo "$pid"
    done
}

read -r owner
if kill -STOP "$server" 2>/dev/null; then
    for pid in $(children); do
        kill -KILL "$pid" 2>/dev/null
    done
    kill -KILL "$server" 2>/dev/null
fi
wait "$server" 2>/dev/null
[ -z "$owner" ] && rm -rf "$directory"
exit 0
