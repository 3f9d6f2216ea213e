# Keeps a server for as long as anybody uses it: each user holds a shared lock on the file "users". Whoever
# comes takes the lock on "gate" first, so that a server is never ended under somebody who just came.
# Arguments: the directory with both files, the server's own directory in it, then its command.
place=$1
own=$2
shift 2
"$@" </dev/null >>"$own/log" 2>&1 &
server=$!
# Whatever goes wrong here, the server does not stay behind.
trap 'kill -KILL "$server" 2>/dev/null' EXIT
echo "$server"
exec >/dev/null 2>&1

while :; do
    flock -x "$place/users" true
    # The next test of the same run may be about to start.
    sleep 5
    exec 9>"$place/gate"
    flock -x 9
    if flock -n -x "$place/users" true; then
        kill -INT "$server"
        wait "$server"
        trap - EXIT
        if [ "$(sed -n 1p "$place/state")" = "$own" ]; then
            rm -rf "$place"
        else
            rm -rf "$own"
        fi
        exit 0
    fi
    exec 9>&-
done
