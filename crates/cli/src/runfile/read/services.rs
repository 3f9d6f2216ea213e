//! The `services` section, and the `services` and `cost` fields of tasks and jobs.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::error::Problems;
use super::super::fields::Fields;
use super::super::model::{Cost, KeyLimits, ServiceDef};
use super::super::rate::{self, Rate};
use super::super::template::Template;
use super::super::tree::{Kind, Node};

const SERVICE_FIELDS: [&str; 8] = [
    "rate",
    "rate_limit",
    "rate_window",
    "limits",
    "max_concurrent",
    "circuit_threshold",
    "circuit_timeout",
    "per_key",
];
const KEY_FIELDS: [&str; 5] = ["rate", "rate_limit", "rate_window", "limits", "max_concurrent"];
const LIMIT_FIELDS: [&str; 3] = ["rate", "rate_limit", "rate_window"];
/// The window of a `rate_limit` without `rate_window`, as in the founding document.
const DEFAULT_WINDOW: Duration = Duration::from_secs(60);

/// One service.
pub(super) fn service(node: &Node, place: &str, problems: &mut Problems) -> Option<ServiceDef> {
    let fields = Fields::open(node, place, &SERVICE_FIELDS, problems)?;
    Some(ServiceDef {
        max_concurrent: fields.count("max_concurrent", problems),
        limits: limits(&fields, problems),
        circuit_threshold: fields.count("circuit_threshold", problems),
        circuit_timeout: fields.span("circuit_timeout", problems),
        per_key: fields
            .get("per_key")
            .and_then(|node| key_limits(node, &fields.path("per_key"), problems)),
    })
}

fn key_limits(node: &Node, place: &str, problems: &mut Problems) -> Option<KeyLimits> {
    let fields = Fields::open(node, place, &KEY_FIELDS, problems)?;
    Some(KeyLimits {
        max_concurrent: fields.count("max_concurrent", problems),
        limits: limits(&fields, problems),
    })
}

/// All spellings of a limit together: `rate`, `rate_limit` + `rate_window`, `limits`.
fn limits(fields: &Fields<'_>, problems: &mut Problems) -> Vec<Rate> {
    let mut all = rates(fields, problems);
    all.extend(rate_limit(fields, problems));
    let Some(node) = fields.get("limits") else {
        return all;
    };
    let Kind::List(items) = &node.kind else {
        let expected = "a list like [60/min, {rate_limit: 1000, rate_window: 3600}]";
        let _: Option<()> = fields.wrong("limits", node, expected, problems);
        return all;
    };
    for (index, item) in items.iter().enumerate() {
        let place = fields.path(&format!("limits[{index}]"));
        match &item.kind {
            Kind::Map(_) => {
                if let Some(limit) = Fields::open(item, &place, &LIMIT_FIELDS, problems) {
                    all.extend(rates(&limit, problems));
                    all.extend(rate_limit(&limit, problems));
                }
            }
            _ => all.extend(one_rate(fields, "limits", item, problems)),
        }
    }
    all
}

/// `rate: 60/min`, `rate: [60/min, 1000/h]` or `rate: [60, 60]`.
fn rates(fields: &Fields<'_>, problems: &mut Problems) -> Vec<Rate> {
    let Some(node) = fields.get("rate") else {
        return Vec::new();
    };
    match &node.kind {
        Kind::List(items) if is_pair(items) => {
            pair(fields, "rate", items, problems).into_iter().collect()
        }
        Kind::List(items) => {
            items.iter().filter_map(|item| one_rate(fields, "rate", item, problems)).collect()
        }
        _ => one_rate(fields, "rate", node, problems).into_iter().collect(),
    }
}

fn one_rate(
    fields: &Fields<'_>,
    field: &str,
    node: &Node,
    problems: &mut Problems,
) -> Option<Rate> {
    if let Kind::List(items) = &node.kind
        && is_pair(items)
    {
        return pair(fields, field, items, problems);
    }
    let Some(text) = node.text() else {
        return fields.wrong(field, node, "a rate like 60/min", problems);
    };
    match rate::parse(text) {
        Ok(rate) => Some(rate),
        Err(error) => {
            problems.add(node.line, &fields.place, format!("{field} {error}"));
            None
        }
    }
}

/// Two plain values without a slash: so many in so many seconds.
fn is_pair(items: &[Node]) -> bool {
    let plain = |node: &Node| node.plain().is_some_and(|text| !text.contains('/'));
    items.len() == 2 && items.iter().all(plain)
}

fn pair(fields: &Fields<'_>, field: &str, items: &[Node], problems: &mut Problems) -> Option<Rate> {
    let [limit, window] = items else {
        return None;
    };
    let text = format!("{}/{}", limit.text()?, window.text()?);
    match rate::parse(&text) {
        Ok(rate) => Some(rate),
        Err(error) => {
            problems.add(limit.line, &fields.place, format!("{field} {error}"));
            None
        }
    }
}

/// `rate_limit` with `rate_window`, or `rate_limit: [60, 60]`.
fn rate_limit(fields: &Fields<'_>, problems: &mut Problems) -> Option<Rate> {
    let Some(node) = fields.get("rate_limit") else {
        if fields.get("rate_window").is_some() {
            fields.refuse("rate_window", problems, "needs a rate_limit beside it");
        }
        return None;
    };
    if let Kind::List(items) = &node.kind
        && is_pair(items)
    {
        if fields.get("rate_window").is_some() {
            fields.refuse("rate_window", problems, "is already in the pair of rate_limit");
        }
        return pair(fields, "rate_limit", items, problems);
    }
    let limit = fields
        .whole("rate_limit", 1, i64::MAX, problems)
        .and_then(|limit| u64::try_from(limit).ok());
    let window = match fields.get("rate_window") {
        Some(_) => fields.span("rate_window", problems)?,
        None => DEFAULT_WINDOW,
    };
    limit.map(|limit| Rate { limit, window })
}

/// The `services` field of a task or job: which, and the units of each.
pub(crate) type ServicesField = BTreeMap<String, Cost>;

/// The `cost` field.
#[derive(Debug, Clone)]
pub(crate) enum CostField {
    /// One number, for the only service.
    Only(Cost),
    /// A number for each.
    Each(BTreeMap<String, Cost>),
}

/// Reads `services: openai`, `[openai, s3]` or `{openai: 500}`.
pub(super) fn used(fields: &Fields<'_>, problems: &mut Problems) -> Option<ServicesField> {
    let node = fields.get("services")?;
    match &node.kind {
        Kind::Map(entries) => Some(
            entries
                .iter()
                .filter_map(|entry| {
                    let cost = match entry.value.is_null() {
                        true => Some(Cost::Units(1)),
                        false => units(fields, "services", &entry.value, problems),
                    };
                    cost.map(|cost| (entry.key.clone(), cost))
                })
                .collect(),
        ),
        _ => fields.words("services", problems).map(|names| {
            let each = names.into_iter().map(|name| (name, Cost::Units(1)));
            each.collect()
        }),
    }
}

/// Reads `cost: 500`, `cost: "{params.tokens}"` or `cost: {openai: 500}`.
pub(super) fn cost(fields: &Fields<'_>, problems: &mut Problems) -> Option<CostField> {
    let node = fields.get("cost")?;
    match &node.kind {
        Kind::Map(entries) => Some(CostField::Each(
            entries
                .iter()
                .filter_map(|entry| {
                    let cost = units(fields, "cost", &entry.value, problems);
                    cost.map(|cost| (entry.key.clone(), cost))
                })
                .collect(),
        )),
        _ => units(fields, "cost", node, problems).map(CostField::Only),
    }
}

fn units(fields: &Fields<'_>, field: &str, node: &Node, problems: &mut Problems) -> Option<Cost> {
    let text = node.text().unwrap_or_default();
    let template = Template::parse(text);
    if !template.is_literal() {
        return Some(Cost::From(template));
    }
    match text.parse::<u64>() {
        Ok(count) if count > 0 => Some(Cost::Units(count)),
        _ => fields.wrong(
            field,
            node,
            "a whole number of units from 1, or a placeholder like \"{params.tokens}\"",
            problems,
        ),
    }
}

/// Applies `cost` to `services`; a cost for a service that is not used is a problem.
pub(crate) fn apply_cost(services: &mut ServicesField, cost: CostField) -> Result<(), String> {
    match cost {
        CostField::Only(cost) => {
            let mut all = services.values_mut();
            match (all.next(), all.next()) {
                (Some(only), None) => *only = cost,
                (None, _) => return Err("is set, but there are no services to spend it on".into()),
                _ => {
                    return Err(
                        "is one number for several services; write cost: {service: n}".into()
                    );
                }
            }
        }
        CostField::Each(costs) => {
            for (name, cost) in costs {
                match services.get_mut(&name) {
                    Some(units) => *units = cost,
                    None => {
                        return Err(format!(
                            "names \"{name}\", which is not among the services used; add it to services"
                        ));
                    }
                }
            }
        }
    }
    Ok(())
}
