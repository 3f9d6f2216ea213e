//! What the standard variables of OpenTelemetry say. Owns their names and defaults; what cannot be followed is told in
//! words and never stops anybody.

use crate::sampler::Sampler;

/// Where traces go below an endpoint for everything.
const PATH: &str = "v1/traces";
/// What we are called unless we are told.
const SERVICE: &str = "runcue";

/// How traces are made and where they go.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The address that spans are posted to.
    pub endpoint: String,
    /// Headers that go with them.
    pub headers: Vec<(String, String)>,
    /// What is said of this process: its name, and whatever else.
    pub resource: Vec<(String, String)>,
    /// Which traces are kept.
    pub sampler: Sampler,
    /// What was asked for and is done otherwise, in words.
    pub notices: Vec<String>,
}

impl Settings {
    /// Reads the environment; nothing if there is no endpoint or tracing is switched off.
    pub fn read(env: &dyn Fn(&str) -> Option<String>) -> Option<Self> {
        let get =
            |name: &str| env(name).map(|text| text.trim().to_owned()).filter(|t| !t.is_empty());
        let either = |own: &str, all: &str| get(own).or_else(|| get(all));
        let is_off = get("OTEL_SDK_DISABLED").is_some_and(|word| word.eq_ignore_ascii_case("true"))
            || get("OTEL_TRACES_EXPORTER").is_some_and(|word| word == "none");
        let endpoint =
            match (get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), get("OTEL_EXPORTER_OTLP_ENDPOINT")) {
                (Some(own), _) => own,
                (None, Some(all)) => format!("{}/{PATH}", all.trim_end_matches('/')),
                (None, None) => return None,
            };
        if is_off {
            return None;
        }
        let mut notices = Vec::new();
        let protocol = either("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL");
        notices.extend(protocol.and_then(|word| other_protocol(&word)));
        let headers = either("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS");
        let headers = headers.map(|text| pairs("headers", &text, &mut notices)).unwrap_or_default();
        let resource = get("OTEL_RESOURCE_ATTRIBUTES");
        let mut resource = resource
            .map(|text| pairs("OTEL_RESOURCE_ATTRIBUTES", &text, &mut notices))
            .unwrap_or_default();
        name_service(&mut resource, get("OTEL_SERVICE_NAME"));
        let sampler = sampler(get("OTEL_TRACES_SAMPLER"), get("OTEL_TRACES_SAMPLER_ARG"));
        let sampler = sampler.unwrap_or_else(|notice| {
            notices.push(notice);
            Sampler::default()
        });
        Some(Self { endpoint, headers, resource, sampler, notices })
    }
}

/// What is told about a protocol that is not ours. Collectors take JSON on the port where they take protobuf.
fn other_protocol(word: &str) -> Option<String> {
    match word {
        "http/json" => None,
        "grpc" => Some(
            "OTEL_EXPORTER_OTLP_PROTOCOL is grpc, which runcue does not speak: spans go as http/json, and \
             OTEL_EXPORTER_OTLP_ENDPOINT must name the collector's HTTP port, which is usually 4318 (4317 is that of grpc)"
                .to_owned(),
        ),
        other => Some(format!(
            "OTEL_EXPORTER_OTLP_PROTOCOL is {other}; runcue speaks http/json, which collectors take on the same port \
             (4318)"
        )),
    }
}

fn sampler(name: Option<String>, argument: Option<String>) -> Result<Sampler, String> {
    let Some(name) = name else { return Ok(Sampler::default()) };
    Sampler::from_words(&name, argument.as_deref()).ok_or_else(|| {
        let argument = argument.unwrap_or_default();
        format!(
            "OTEL_TRACES_SAMPLER={name} with OTEL_TRACES_SAMPLER_ARG={argument} is not known; parentbased_always_on is \
             taken"
        )
    })
}

/// The service has a name, and that of its own variable comes first.
fn name_service(resource: &mut Vec<(String, String)>, name: Option<String>) {
    const KEY: &str = "service.name";
    if name.is_some() {
        resource.retain(|(key, _)| key != KEY);
    }
    if resource.iter().all(|(key, _)| key != KEY) {
        resource.insert(0, (KEY.to_owned(), name.unwrap_or_else(|| SERVICE.to_owned())));
    }
}

/// `a=1,b=two%20words`, as in the header `baggage`.
fn pairs(what: &str, text: &str, notices: &mut Vec<String>) -> Vec<(String, String)> {
    let mut read = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        match part.split_once('=').map(|(key, value)| (key.trim(), value.trim())) {
            Some((key, value)) if !key.is_empty() => read.push((key.to_owned(), unescaped(value))),
            // It may be a secret, so it is not repeated.
            _ => notices.push(format!("{what}: an entry that is not NAME=VALUE is left out")),
        }
    }
    read
}

fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let digits = after.get(..2).filter(|_| *first == b'%');
        let digits = digits.and_then(|two| std::str::from_utf8(two).ok());
        match digits.and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(byte) => (bytes.push(byte), rest = &after[2..]).1,
            None => (bytes.push(*first), rest = after).1,
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Option<Settings> {
        Settings::read(&|name| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    const ALL: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/");

    fn texts(pairs: &[(String, String)]) -> Vec<(&str, &str)> {
        pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
    }

    #[test]
    fn without_an_endpoint_there_are_no_traces() {
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[("OTEL_SERVICE_NAME", "x")]), None);
        assert_eq!(read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")]), None);
        assert_eq!(read(&[ALL, ("OTEL_SDK_DISABLED", "TRUE")]), None);
        assert_eq!(read(&[ALL, ("OTEL_TRACES_EXPORTER", "none")]), None);
    }

    #[test]
    fn one_endpoint_is_for_everything_and_one_for_traces_alone() {
        let settings = read(&[ALL]).unwrap();
        assert_eq!(settings.endpoint, "http://collector:4318/v1/traces");
        assert_eq!(texts(&settings.resource), [("service.name", "runcue")]);
        assert_eq!((settings.headers.len(), settings.notices.len()), (0, 0));
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://x/here");
        assert_eq!(read(&[ALL, own]).unwrap().endpoint, "https://x/here");
    }

    #[test]
    fn headers_and_resource_are_lists_with_escapes() {
        let settings = read(&[
            ALL,
            ("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%20a=b, x-team = blue"),
            (
                "OTEL_RESOURCE_ATTRIBUTES",
                "deployment.environment=%C3%BC,service.name=other,100%=5%",
            ),
            ("OTEL_SERVICE_NAME", "fleet"),
        ])
        .unwrap();
        assert_eq!(texts(&settings.headers), [("Authorization", "Bearer a=b"), ("x-team", "blue")]);
        let expected = [("service.name", "fleet"), ("deployment.environment", "ü"), ("100%", "5%")];
        assert_eq!(texts(&settings.resource), expected);
    }

    #[test]
    fn what_cannot_be_followed_is_told_and_the_rest_counts() {
        let settings = read(&[
            ALL,
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
            ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "secret"),
        ])
        .unwrap();
        assert_eq!(settings.sampler, Sampler::default());
        let told = settings.notices.join("\n");
        assert!(told.contains("http/json") && told.contains("4318"), "{told}");
        assert!(told.contains("jaeger_remote") && !told.contains("secret"), "{told}");
        let grpc = read(&[ALL, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]).unwrap().notices;
        assert!(grpc[0].contains("grpc") && grpc[0].contains("4318"), "{grpc:?}");
        assert!(
            read(&[ALL, ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")]).unwrap().notices.is_empty()
        );
    }

    #[test]
    fn the_sampler_is_the_standard_one() {
        let settings = read(&[
            ALL,
            ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
        ]);
        let expected = Sampler::from_words("parentbased_traceidratio", Some("0.25"));
        assert_eq!(settings.map(|settings| settings.sampler), expected);
    }
}
