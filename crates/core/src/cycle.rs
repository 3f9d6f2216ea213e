//! Cycle detection over a batch of jobs that refer to each other. A job can only depend on jobs that
//! exist or are in its own batch, so a cycle can only lie inside a batch.

use crate::ids::JobId;
use crate::map::Map;

/// A cycle among the jobs, as the ids along it, the first repeated at the end.
pub fn find_cycle<'a>(jobs: impl Iterator<Item = (JobId, &'a [JobId])>) -> Option<Vec<JobId>> {
    let edges: Map<JobId, &[JobId]> = jobs.filter(|(_, on)| !on.is_empty()).collect();
    let mut done: Map<JobId, bool> = Map::default();
    let mut path: Vec<(JobId, usize)> = Vec::new();
    for &start in edges.keys() {
        if done.contains_key(&start) {
            continue;
        }
        done.insert(start, false);
        path.push((start, 0));
        // An explicit path instead of recursion: a chain of 100,000 jobs must not exhaust the stack.
        while let Some((job, next)) = path.last_mut() {
            let Some(&parent) = edges.get(job).and_then(|on| on.get(*next)) else {
                done.insert(*job, true);
                path.pop();
                continue;
            };
            *next += 1;
            match done.get(&parent) {
                Some(true) => {}
                Some(false) => return Some(cycle_through(&path, parent)),
                None => {
                    done.insert(parent, false);
                    path.push((parent, 0));
                }
            }
        }
    }
    None
}

fn cycle_through(path: &[(JobId, usize)], closing: JobId) -> Vec<JobId> {
    let start = path.iter().position(|(job, _)| *job == closing).unwrap_or(0);
    path[start..].iter().map(|(job, _)| *job).chain([closing]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(numbers: &[u128]) -> Vec<JobId> {
        numbers.iter().map(|n| JobId::from_u128(*n)).collect()
    }

    fn cycle_of(edges: &[(u128, &[u128])]) -> Option<Vec<JobId>> {
        let edges: Vec<_> =
            edges.iter().map(|(job, on)| (JobId::from_u128(*job), ids(on))).collect();
        find_cycle(edges.iter().map(|(job, on)| (*job, on.as_slice())))
    }

    #[test]
    fn a_diamond_is_no_cycle() {
        assert_eq!(cycle_of(&[(2, &[1]), (3, &[1]), (4, &[2, 3])]), None);
    }

    #[test]
    fn a_cycle_is_named_from_end_to_end() {
        let cycle = cycle_of(&[(1, &[3]), (2, &[1]), (3, &[2]), (4, &[1])]).unwrap();
        assert_eq!(cycle.first(), cycle.last());
        assert_eq!(cycle.len(), 4);
        assert_eq!(cycle_of(&[(7, &[7])]).unwrap(), ids(&[7, 7]));
    }

    #[test]
    fn a_long_chain_does_not_exhaust_the_stack() {
        let edges: Vec<_> =
            (1..100_000_u128).map(|n| (JobId::from_u128(n), ids(&[n - 1]))).collect();
        assert_eq!(find_cycle(edges.iter().map(|(job, on)| (*job, on.as_slice()))), None);
    }
}
