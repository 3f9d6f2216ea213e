//! Spans as the JSON of OTLP, the protocol of OpenTelemetry: names in camel case, ids in hexadecimal digits, times as
//! decimal texts of nanoseconds, enumerations as numbers. Owns that form and nothing else.

use runcue_core::Timestamp;
use serde::Serialize;

use crate::span::{Ended, Kind, Value};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    resource_spans: [ResourceSpans<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceSpans<'a> {
    resource: Resource<'a>,
    scope_spans: [ScopeSpans<'a>; 1],
}

#[derive(Serialize)]
struct Resource<'a> {
    attributes: Vec<Attribute<'a>>,
}

#[derive(Serialize)]
struct ScopeSpans<'a> {
    scope: Scope,
    spans: Vec<OneSpan<'a>>,
}

#[derive(Serialize)]
struct Scope {
    name: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OneSpan<'a> {
    trace_id: String,
    span_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_span_id: Option<String>,
    name: &'a str,
    kind: u8,
    start_time_unix_nano: String,
    end_time_unix_nano: String,
    attributes: Vec<Attribute<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status<'a>>,
}

#[derive(Serialize)]
struct Status<'a> {
    code: u8,
    message: &'a str,
}

#[derive(Serialize)]
struct Attribute<'a> {
    key: &'a str,
    value: AnyValue<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum AnyValue<'a> {
    StringValue(&'a str),
    IntValue(String),
}

const PRODUCER: u8 = 4;
const CONSUMER: u8 = 5;
const ERROR: u8 = 2;

/// The body of one request.
pub(crate) fn body(resource: &[(String, String)], spans: &[Ended]) -> Vec<u8> {
    let attributes = resource.iter();
    let attributes =
        attributes.map(|(key, value)| Attribute { key, value: AnyValue::StringValue(value) });
    let scope = Scope { name: "runcue", version: env!("CARGO_PKG_VERSION") };
    let request = Request {
        resource_spans: [ResourceSpans {
            resource: Resource { attributes: attributes.collect() },
            scope_spans: [ScopeSpans { scope, spans: spans.iter().map(one).collect() }],
        }],
    };
    // Texts and numbers under names that are texts: there is nothing in it that JSON does not have.
    serde_json::to_vec(&request).unwrap_or_default()
}

fn one(span: &Ended) -> OneSpan<'_> {
    let details = &span.details;
    OneSpan {
        trace_id: format!("{:032x}", span.place.trace()),
        span_id: format!("{:016x}", span.place.span()),
        parent_span_id: span.parent.map(|id| format!("{id:016x}")),
        name: &details.name,
        kind: match details.kind {
            Kind::Producer => PRODUCER,
            Kind::Consumer => CONSUMER,
        },
        start_time_unix_nano: nanos(span.began),
        end_time_unix_nano: nanos(span.ended),
        attributes: details.attributes.iter().map(|(key, value)| attribute(key, value)).collect(),
        status: details.error.as_deref().map(|message| Status { code: ERROR, message }),
    }
}

fn attribute<'a>(key: &'a str, value: &'a Value) -> Attribute<'a> {
    let value = match value {
        Value::Text(text) => AnyValue::StringValue(text),
        Value::Number(number) => AnyValue::IntValue(number.to_string()),
    };
    Attribute { key, value }
}

fn nanos(at: Timestamp) -> String {
    format!("{}", i128::from(at.as_micros()) * 1_000)
}

#[cfg(test)]
mod tests {
    use runcue_core::TraceParent;
    use serde_json::json;

    use super::*;
    use crate::span::Details;

    /// The ids, times and attributes of `opentelemetry-proto/examples/trace.json`.
    #[test]
    fn a_span_looks_as_in_the_example_of_the_protocol() {
        let place = TraceParent::new(
            0x5b8e_fff7_9803_8103_d269_b633_813f_c60c,
            0xeee1_9b7e_c3c1_b174,
            true,
        );
        let span = Ended {
            place: place.unwrap(),
            parent: Some(0xeee1_9b7e_c3c1_b173),
            began: Timestamp::from_micros(1_544_712_660_000_000),
            ended: Timestamp::from_micros(1_544_712_661_000_000),
            details: Details {
                name: "run t".to_owned(),
                kind: Kind::Consumer,
                attributes: vec![("my.span.attr", "some value".into()), ("n", 2_u32.into())],
                error: Some("exit 1".to_owned()),
            },
        };
        let root = Ended {
            parent: None,
            details: Details {
                kind: Kind::Producer,
                error: None,
                attributes: vec![],
                ..span.details.clone()
            },
            ..span.clone()
        };
        let resource = [("service.name".to_owned(), "my.service".to_owned())];
        let written: serde_json::Value =
            serde_json::from_slice(&body(&resource, &[span, root])).unwrap();
        let expected = json!({
            "resourceSpans": [{
                "resource": {
                    "attributes": [{"key": "service.name", "value": {"stringValue": "my.service"}}]
                },
                "scopeSpans": [{
                    "scope": {"name": "runcue", "version": env!("CARGO_PKG_VERSION")},
                    "spans": [
                        {
                            "traceId": "5b8efff798038103d269b633813fc60c",
                            "spanId": "eee19b7ec3c1b174",
                            "parentSpanId": "eee19b7ec3c1b173",
                            "name": "run t",
                            "kind": 5,
                            "startTimeUnixNano": "1544712660000000000",
                            "endTimeUnixNano": "1544712661000000000",
                            "attributes": [
                                {"key": "my.span.attr", "value": {"stringValue": "some value"}},
                                {"key": "n", "value": {"intValue": "2"}}
                            ],
                            "status": {"code": 2, "message": "exit 1"}
                        },
                        {
                            "traceId": "5b8efff798038103d269b633813fc60c",
                            "spanId": "eee19b7ec3c1b174",
                            "name": "run t",
                            "kind": 4,
                            "startTimeUnixNano": "1544712660000000000",
                            "endTimeUnixNano": "1544712661000000000",
                            "attributes": []
                        }
                    ]
                }]
            }]
        });
        assert_eq!(written, expected);
    }
}
