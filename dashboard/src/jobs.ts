// Owns what events do to jobs already on the screen. Pure; the hub stays the truth, and a page is fetched again soon after.
import { STATES } from './types';
import type { HubEvent, Job, State } from './types';

const FINAL: readonly State[] = ['completed', 'failed', 'cancelled', 'quarantined'];

export function isFinal(state: State): boolean {
  return FINAL.includes(state);
}

export function canCancel(job: Pick<Job, 'state'>): boolean {
  return !isFinal(job.state);
}

export function canRetry(job: Pick<Job, 'state'>): boolean {
  return job.state === 'failed' || job.state === 'cancelled' || job.state === 'quarantined';
}

function isState(word: string | undefined): word is State {
  return word !== undefined && (STATES as readonly string[]).includes(word);
}

/** What the type of an event says about the state, where the event does not name it. */
const STATE_AFTER: Record<string, State> = { work_queued: 'queued', work_leased: 'leased', work_started: 'running', work_progress: 'running', work_completed: 'completed', work_failed: 'failed', work_retrying: 'queued', work_cancelled: 'cancelled' };

export function applyEvent(job: Job, event: HubEvent): Job {
  const state = isState(event.state) ? event.state : STATE_AFTER[event.type];
  if (!state) return job;
  const next: Job = { ...job, state };
  if (event.attempt !== undefined) next.attempts = event.attempt;
  if (event.worker_id !== undefined) next.worker_id = event.worker_id;
  if (event.error !== undefined) next.fail_reason = event.error;
  switch (event.type) {
    case 'work_leased':
    case 'work_started':
      next.claimed_at = event.at;
      next.progress = null;
      break;
    case 'work_progress':
      next.progress = { percent: event.percent ?? null, message: event.message ?? null };
      break;
    case 'work_retrying':
      next.due_at = event.retry_at ?? null;
      next.worker_id = null;
      break;
    case 'work_completed':
    case 'work_failed':
    case 'work_cancelled':
      next.completed_at = event.at;
      break;
  }
  return next;
}

/** The same array if no event concerns any of its jobs, so that nothing is drawn again. */
export function applyEvents<T extends Job>(jobs: T[], events: HubEvent[]): T[] {
  const places = new Map(jobs.map((job, place) => [job.id, place]));
  let next: T[] | null = null;
  for (const event of events) {
    const place = event.job === undefined ? undefined : places.get(event.job);
    if (place === undefined) continue;
    next ??= [...jobs];
    next[place] = { ...next[place]!, ...applyEvent(next[place]!, event) };
  }
  return next ?? jobs;
}

/** Seconds a job has run or ran; null if it has not. */
export function runSeconds(job: Job, now: number): number | null {
  if (job.claimed_at == null || job.state === 'queued') return null;
  const end = job.completed_at ?? (isFinal(job.state) ? null : now);
  return end == null ? null : Math.max(0, (end - job.claimed_at) / 1000);
}

/** What a job is about, in a few words: its target, or the command it runs. */
export function subject(job: Pick<Job, 'target' | 'params'>): string {
  if (job.target) return job.target;
  const params = job.params;
  if (params && typeof params === 'object' && !Array.isArray(params)) {
    const run = params['run'];
    if (Array.isArray(run)) return run.join(' ');
    if (typeof run === 'string') return run;
  }
  return '';
}
