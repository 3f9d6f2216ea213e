"""What schemathesis may not do to a hub that is being tested: wait. Everything else it sends as it likes."""

import schemathesis


@schemathesis.hook
def before_call(context, case, kwargs):
    # A claim may wait a minute for work, and the output of a job is followed until the job ends.
    if isinstance(case.body, dict):
        wait = case.body.get("wait")
        if isinstance(wait, (int, float)) and not isinstance(wait, bool) and wait > 0:
            case.body["wait"] = 0
    if case.query and str(case.query.get("follow")).lower() == "true":
        case.query["follow"] = "false"


@schemathesis.serializer("application/x-ndjson")
def as_lines(context, value):
    return str(value).encode(errors="surrogatepass")
