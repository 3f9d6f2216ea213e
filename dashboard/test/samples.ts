// Owns what a plain job looks like in tests.
import type { Job } from '../src/types';

export function aJob(more: Partial<Job>): Job {
  return {
    id: 'a', seq: 1, type: 'resize', params: null, state: 'queued', status: 'pending', priority: 0, worker_id: null, result: null, created_at: 1000, claimed_at: null, heartbeat_at: null,
    completed_at: null, attempts: 0, max_attempts: 3, max_runtime_ms: null, fail_reason: null, fail_history: [], solver_url: null, solver_checksum: null, queue: 'default', group: null, target: null,
    labels: [], project: null, depends_on: [], dependency_timeout: null, idempotency_key: null, retry: null, run_at: null, expires_at: null, requires: null, services: [], key: null, crashes: 0,
    due_at: null, prerequisites_left: 0, lease_expires_at: null, cancel_requested: false, progress: null, ...more,
  };
}
