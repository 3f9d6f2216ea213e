//! Definitions: services, queues, groups, tasks and workers. They take effect with the next claim.

use super::*;
use crate::reply::Record;
use crate::request::WorkerSpec;
use runcue_core::{QueueSpec, ServiceSpec, TaskSpec, WorkerId};

impl<T: Tables> Machine<T> {
    /// Defines services or changes their limits.
    pub fn upsert_services(&mut self, now: Timestamp, services: Vec<ServiceSpec>) -> Result<()> {
        let mut changed = false;
        for spec in services {
            if self.board.service(&spec.name).is_some_and(|known| *known.spec() == spec) {
                continue;
            }
            let name = spec.name.clone();
            let paused = spec.paused;
            self.board.define_service(spec);
            self.news.services.insert(name.clone());
            let message = if paused { "paused" } else { "defined" };
            self.emit(Event {
                service: Some(name),
                message: Some(message.to_owned()),
                ..Event::new(EventKind::ServiceStatus, now)
            });
            changed = true;
        }
        if changed { self.rebuild(now) } else { Ok(()) }
    }

    /// Defines queues.
    pub fn upsert_queues(&mut self, queues: Vec<QueueSpec>) -> Result<()> {
        for spec in queues {
            self.board.set_queue_paused(&spec.name, spec.paused);
            let queue = self.queue(&spec.name);
            queue.max_queued = spec.max_queued;
            queue.on_full = spec.on_full;
            queue.paused = spec.paused;
            self.news.queues.insert(spec.name);
            self.news.any = true;
        }
        Ok(())
    }

    /// Pauses or resumes a group; answers whether that changed anything.
    pub fn set_group_paused(
        &mut self,
        now: Timestamp,
        name: GroupName,
        paused: bool,
    ) -> Result<bool> {
        let key = Some(name.clone());
        if self.groups.get(&key).is_some_and(|group| group.info.paused) == paused {
            return Ok(false);
        }
        self.change_group(&key).paused = paused;
        let turn = self.board.turn(Some(&name));
        self.board.set_group(Some(&name), paused, turn);
        let message = if paused { "paused" } else { "resumed" };
        self.emit(Event {
            group: Some(name),
            message: Some(message.to_owned()),
            ..Event::new(EventKind::GroupStatus, now)
        });
        Ok(true)
    }

    /// Keeps records of fronts.
    pub fn put_records(&mut self, records: &[Record]) -> Result<()> {
        for record in records {
            self.tables.put_record(record)?;
            self.news.any = true;
        }
        Ok(())
    }

    /// Stores task definitions.
    pub fn upsert_tasks(&mut self, tasks: &[TaskSpec]) -> Result<()> {
        for task in tasks {
            self.tables.put_task(task)?;
            self.news.any = true;
        }
        Ok(())
    }

    /// Makes a worker instance known.
    pub fn upsert_worker(&mut self, now: Timestamp, worker: &WorkerSpec) -> Result<()> {
        self.tables.put_worker(worker, now)?;
        self.news.any = true;
        Ok(())
    }

    /// A worker instance says goodbye.
    pub fn remove_worker(&mut self, worker: WorkerId) -> Result<()> {
        self.tables.drop_worker(worker)?;
        self.news.any = true;
        Ok(())
    }
}
