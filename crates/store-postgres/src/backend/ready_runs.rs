//! Ready jobs that are written as one row together: those of a lane that were submitted together, and to which nothing has
//! happened. A job that was ready has a row of its own or is in a run; which of them only the server knows.

use std::collections::BTreeMap;

use runcue_core::{Job, Seq};
use tokio_postgres::types::Type;

use super::flight::{Value, column};
use crate::rows::{rank_of, signed};

/// Jobs in a run at the most, as the schema has it, which refuses more.
const MOST: usize = 64;

/// Where ready jobs are found: a lane, and the order in it.
type Place = (i64, i64);

/// The place of a job among the ready ones.
pub fn place(job: &Job) -> Place {
    (signed(job.lane.0), rank_of(job.spec.priority))
}

/// Jobs by where they are found, by column: of each place so many, from one on in the list of all.
#[derive(Default)]
pub struct Runs {
    lane: Vec<i64>,
    rank: Vec<i64>,
    at: Vec<i32>,
    jobs: Vec<i32>,
    seqs: Vec<i64>,
}

impl Runs {
    /// All jobs of each place, which are in order.
    pub fn whole(places: BTreeMap<Place, Vec<Seq>>) -> Self {
        let mut runs = Self::default();
        places.iter().for_each(|(place, seqs)| runs.add(*place, seqs));
        runs
    }

    /// The same in pieces of which each is a row.
    pub fn in_rows(places: BTreeMap<Place, Vec<Seq>>) -> Self {
        let mut runs = Self::default();
        for (place, seqs) in places {
            seqs.chunks(MOST).for_each(|seqs| runs.add(place, seqs));
        }
        runs
    }

    fn add(&mut self, (lane, rank): Place, seqs: &[Seq]) {
        self.lane.push(lane);
        self.rank.push(rank);
        self.at.push(i32::try_from(self.seqs.len() + 1).unwrap_or(i32::MAX));
        self.jobs.push(i32::try_from(seqs.len()).unwrap_or(i32::MAX));
        self.seqs.extend(seqs.iter().map(|seq| signed(seq.0)));
    }

    pub fn values(&self) -> [Value<'_>; 5] {
        [
            column(&self.lane, Type::INT8_ARRAY),
            column(&self.rank, Type::INT8_ARRAY),
            column(&self.at, Type::INT4_ARRAY),
            column(&self.jobs, Type::INT4_ARRAY),
            column(&self.seqs, Type::INT8_ARRAY),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_of_a_place_are_as_many_rows_as_they_need() {
        let seqs = |from: u64, to: u64| (from..=to).map(Seq).collect::<Vec<_>>();
        let places = || BTreeMap::from([((1, 0), seqs(1, 130)), ((1, -5), seqs(131, 132))]);
        let rows = Runs::in_rows(places());
        assert_eq!((rows.rank, rows.jobs), (vec![-5, 0, 0, 0], vec![2, 64, 64, 2]));
        assert_eq!(rows.at, [1, 3, 67, 131]);
        let whole = Runs::whole(places());
        assert_eq!((whole.jobs, whole.at), (vec![2, 130], vec![1, 3]));
        assert_eq!((whole.seqs[0], whole.seqs[2], whole.seqs.len()), (131, 1, 132));
    }
}
