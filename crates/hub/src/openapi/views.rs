//! What the shapes look like that other crates define: the views that every front shows, and what they hold.

use runcue_core::service::KeyLimits;
use runcue_core::{Capabilities, Progress, Rate};
use runcue_store::Counts;
use runcue_view::{
    GroupView, LogView, QueueView, RateView, ReasonView, ScheduleView, ServiceView, StatusView,
    UseView, WorkerView,
};

use super::schema::{
    Described, Schema, an_id, any, count, count32, count64, flag, instant, list_of, may, must,
    named, number, object, read_as, seconds, signed32, text, word,
};
use crate::wire::state;

impl Described for Counts {
    const NAME: &'static str = "Counts";

    fn schema() -> Schema {
        let states =
            ["queued", "leased", "running", "completed", "failed", "cancelled", "quarantined"];
        object(states.map(|state| must(state, count()))).says("Jobs by state.")
    }
}

impl Described for Progress {
    const NAME: &'static str = "Progress";

    fn schema() -> Schema {
        read_as::<Self>([
            must("percent", number().with("minimum", 0).up_to(100)),
            may("message", text().up_to(crate::wire::MAX_MESSAGE)),
        ])
    }
}

impl Described for Rate {
    const NAME: &'static str = "Rate";

    fn schema() -> Schema {
        read_as::<Self>([
            must("rate_limit", count64().with("minimum", 1).says("Units.")),
            must("rate_window", number().with("exclusiveMinimum", 0).says("Seconds.")),
        ])
    }
}

impl Described for KeyLimits {
    const NAME: &'static str = "KeyLimits";

    fn schema() -> Schema {
        read_as::<Self>([
            may("max_concurrent", count32().or_null()),
            may("rates", list_of(named::<Rate>())),
        ])
        .says("Limits that each key has to itself.")
    }
}

impl Described for UseView {
    const NAME: &'static str = "Use";

    fn schema() -> Schema {
        object([must("service", text()), must("units", count())])
    }
}

impl Described for LogView {
    const NAME: &'static str = "Log";

    fn schema() -> Schema {
        object([
            must("n", count()),
            must("job", an_id()),
            must("attempt", count()),
            must("stream", word(&["stdout", "stderr", "note"])),
            must("at", instant()),
            must("text", text()),
        ])
    }
}

impl Described for ReasonView {
    const NAME: &'static str = "Reason";

    fn schema() -> Schema {
        object([
            must(
                "reason",
                word(&[
                    "not_waiting",
                    "prerequisites",
                    "not_yet",
                    "group_paused",
                    "queue_paused",
                    "service",
                    "no_worker_fits",
                    "no_worker",
                    "behind",
                    "next",
                ]),
            ),
            must("words", text().says("The same for people.")),
            may("until", instant().says("When it ends by itself.")),
            may("state", state()),
            may("error", text()),
            may("left", count()),
            may("jobs", list_of(an_id())),
            may("retry", flag()),
            may("group", text()),
            may("queue", text()),
            may("service", text()),
            may("block", text()),
            may("ahead", count()),
        ])
    }
}

impl Described for GroupView {
    const NAME: &'static str = "Group";

    fn schema() -> Schema {
        object([
            must("name", text().or_null().says("`null` for the jobs without a group.")),
            must("paused", flag()),
            must("turn", count().says("The lowest is served next.")),
            must("counts", named::<Counts>()),
        ])
    }
}

impl Described for QueueView {
    const NAME: &'static str = "Queue";

    fn schema() -> Schema {
        object([
            must("name", text()),
            must("queued", count()),
            must("max_queued", count().or_null()),
            must("on_full", word(&["reject", "drop_oldest", "block"])),
            must("paused", flag()),
        ])
    }
}

impl Described for Capabilities {
    const NAME: &'static str = "Capabilities";

    fn schema() -> Schema {
        object([must("cores", count()), must("ram_gb", number()), must("tags", list_of(text()))])
    }
}

impl Described for WorkerView {
    const NAME: &'static str = "WorkerInstance";

    fn schema() -> Schema {
        object([
            must("id", an_id()),
            must("name", text()),
            must("host", text()),
            must("pid", count()),
            must("alive", flag()),
            must("slots", count()),
            must("held", count()),
            must("offers", named::<Capabilities>()),
            must("started_at", instant()),
            must("seen_at", instant()),
        ])
    }
}

impl Described for RateView {
    const NAME: &'static str = "RateInUse";

    fn schema() -> Schema {
        object([
            must("rate_limit", count()),
            must("rate_window", seconds()),
            must("used", count().says("Units used in the window that ends now.")),
        ])
    }
}

impl Described for ServiceView {
    const NAME: &'static str = "Service";

    fn schema() -> Schema {
        object([
            must("name", text()),
            must(
                "status",
                word(&[
                    "ok",
                    "full",
                    "rate_limited",
                    "held",
                    "circuit_open",
                    "circuit_half_open",
                    "paused",
                ]),
            ),
            must("status_until", instant().or_null()),
            must("in_use", count()),
            must("max_concurrent", count().or_null()),
            must("rates", list_of(named::<RateView>())),
            must("per_key", named::<KeyLimits>().or_null()),
            must("circuit_threshold", count().or_null()),
            must("circuit_timeout", seconds()),
            must("circuit_failures", count()),
            must("probe", an_id().or_null()),
            must("paused", flag()),
        ])
    }
}

impl Described for ScheduleView {
    const NAME: &'static str = "Schedule";

    fn schema() -> Schema {
        object([
            must("name", text()),
            must("cron", text()),
            must("zone", text()),
            must("missed", word(&["skip", "once", "all"])),
            must("overlap", word(&["allow", "skip"])),
            must("paused", flag()),
            must("task", text().says("The type of its jobs.")),
            must("queue", text()),
            must("group", text().or_null()),
            must("priority", signed32()),
            must("target", text().or_null()),
            must("params", any()),
            must("next_at", list_of(instant()).says("Its next firings; none while it is paused.")),
            must("last_at", instant().or_null()),
            must("last_job", an_id().or_null()),
            must("fired", count()),
            must("last_error", text().or_null()),
        ])
    }
}

impl Described for StatusView {
    const NAME: &'static str = "Glance";

    fn schema() -> Schema {
        object([
            must("store", text()),
            must("durability", text().says("What an acknowledged write survives.")),
            must("at", instant()),
            must("counts", named::<Counts>()),
            must("ready", count()),
            must("delayed", count()),
            must("blocked", count()),
            must("oldest_ready_at", instant().or_null()),
            must("last_served_group", text().or_null()),
            must("workers", list_of(named::<WorkerView>())),
            must("blocked_services", list_of(named::<ServiceView>())),
            must("paused_groups", list_of(text())),
            must("hint", text().or_null().says("What to do next, if anything.")),
        ])
    }
}
