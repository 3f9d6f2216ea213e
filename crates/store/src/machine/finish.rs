//! finish: the end of attempts. Frees services, moves breakers, resolves dependents, all in the same
//! transaction.

use super::*;
use crate::reply::Finished;
use crate::request::{Finish, Outcome};
use runcue_core::submission::{Invalid, MAX_PAYLOAD};
use runcue_core::{ErrorKind, Json};

/// The longest error text kept, in bytes.
const MAX_ERROR: usize = 16 * 1024;

impl<T: Tables> Machine<T> {
    /// Ends attempts, one answer per entry.
    pub fn finish(&mut self, now: Timestamp, ends: Vec<Finish>) -> Result<Vec<Finished>> {
        let mut answers = Vec::with_capacity(ends.len());
        for end in ends {
            answers.push(self.finish_one(now, end)?);
            self.resolve(now)?;
        }
        Ok(answers)
    }

    fn finish_one(&mut self, now: Timestamp, end: Finish) -> Result<Finished> {
        let lease = &end.lease;
        let Some(mut job) = self.load(lease.job)? else { return Ok(Finished::Lost) };
        let applied = match end.outcome {
            Outcome::Done { result, result_key } => match oversize(result.as_ref()) {
                None => {
                    self.apply(now, &mut job, Input::Complete { lease, result, result_key }, None)?
                }
                Some(error) => {
                    let input =
                        Input::Fail { lease, error, kind: ErrorKind::Permanent, code: None };
                    self.apply(now, &mut job, input, None)?
                }
            },
            Outcome::Failed { error, kind, code, service } => {
                let error = shortened(error);
                let input = Input::Fail { lease, error, kind, code };
                self.apply(now, &mut job, input, service.as_ref())?
            }
            Outcome::RateLimited { retry_after, service } => {
                self.rate_limited(now, &mut job, lease, now.plus(retry_after), service)?
            }
            Outcome::HandBack => {
                self.apply(now, &mut job, Input::HandBack { lease, begun: true }, None)?
            }
            Outcome::Unstarted => {
                self.apply(now, &mut job, Input::HandBack { lease, begun: false }, None)?
            }
            Outcome::Stopped => self.apply(now, &mut job, Input::Stopped { lease }, None)?,
        };
        Ok(match applied {
            Ok(()) => Finished::Now { state: job.life.state.word(), retry_at: retry_at(&job) },
            Err(Refused::Repeated) => Finished::Repeated,
            Err(_) => {
                self.held.remove(&job.id());
                Finished::Lost
            }
        })
    }

    /// The services wait, so that no other job runs into the same wall; a job without any waits itself.
    fn rate_limited(
        &mut self,
        now: Timestamp,
        job: &mut Job,
        lease: &runcue_core::Lease,
        until: Timestamp,
        service: Option<ServiceName>,
    ) -> Result<std::result::Result<(), Refused>> {
        let uses = |name: &ServiceName| job.spec.services.iter().any(|used| used.service == *name);
        let held: Vec<ServiceName> = match service.filter(uses) {
            Some(name) => vec![name],
            None => job.spec.services.iter().map(|used| used.service.clone()).collect(),
        };
        let alone = held.is_empty().then_some(until);
        let applied = self.apply(now, job, Input::RateLimited { lease, until: alone }, None)?;
        if applied.is_ok() {
            for name in held {
                self.board.hold(&name, until);
                self.news.services.insert(name.clone());
                self.emit(Event {
                    service: Some(name),
                    message: Some("rate_limited".to_owned()),
                    retry_at: Some(until),
                    ..Event::new(EventKind::ServiceStatus, now)
                });
            }
        }
        Ok(applied)
    }
}

fn retry_at(job: &Job) -> Option<Timestamp> {
    match job.life.state {
        State::Queued(Wait::Until(at)) => Some(at),
        _ => None,
    }
}

fn oversize(result: Option<&Json>) -> Option<String> {
    let len = result?.as_str().len();
    let fix = "; put large data in a file or object store and return its address";
    let error = Invalid::TooLarge { field: "result", len, max: MAX_PAYLOAD, unit: "bytes", fix };
    (len > MAX_PAYLOAD).then(|| error.to_string())
}

fn shortened(mut error: String) -> String {
    if error.len() > MAX_ERROR {
        let cut = (0..=MAX_ERROR).rev().find(|n| error.is_char_boundary(*n)).unwrap_or(0);
        error.truncate(cut);
        error.push('…');
    }
    error
}
