// Owns the story of one job as a list of moments: created, attempts, ends, what comes next. Pure.
import type { Failure, Job } from './types';
import { isFinal } from './jobs';

export type Tone = 'plain' | 'run' | 'good' | 'bad' | 'wait';
export interface Moment { at: number | null; tone: Tone; title: string; detail?: string; worker?: string | null; attempt?: number }

const KIND: Record<string, string> = { transient: 'failed, may go better next time', permanent: 'failed for good', timeout: 'ran longer than it may', crash: 'lost its worker' };

function failureMoment(failure: Failure): Moment {
  const how = KIND[failure.kind ?? ''] ?? 'failed';
  return { at: failure.ts, tone: 'bad', title: failure.attempt ? `Attempt ${failure.attempt} ${how}` : `It ${how}`, detail: failure.reason, worker: failure.worker_id, attempt: failure.attempt ?? undefined };
}

export function story(job: Job): Moment[] {
  const moments: Moment[] = [{ at: job.created_at, tone: 'plain', title: 'Submitted' }];
  moments.push(...job.fail_history.map(failureMoment));
  const lastFailed = job.fail_history.at(-1);
  const failedInThisAttempt = lastFailed !== undefined && lastFailed.attempt === job.attempts && job.attempts > 0;
  if (job.claimed_at != null && job.attempts > 0 && job.state !== 'queued' && !failedInThisAttempt) {
    moments.push({ at: job.claimed_at, tone: 'run', title: `Attempt ${job.attempts} began`, worker: job.worker_id, attempt: job.attempts });
  }
  if (job.state === 'completed') moments.push({ at: job.completed_at, tone: 'good', title: 'Completed', worker: job.worker_id });
  else if (job.state === 'cancelled') moments.push({ at: job.completed_at, tone: 'plain', title: 'Cancelled', detail: job.fail_reason && job.fail_reason !== 'cancelled' ? job.fail_reason : undefined });
  else if (job.state === 'quarantined') moments.push({ at: job.completed_at, tone: 'bad', title: 'Set aside (quarantined)', detail: 'Its last attempt failed. Somebody must look at it; retry sends it round again.' });
  else if (job.state === 'failed') moments.push({ at: job.completed_at, tone: 'bad', title: 'Failed, will not be tried again', detail: failedInThisAttempt ? undefined : job.fail_reason ?? undefined });
  else if (job.cancel_requested) moments.push({ at: null, tone: 'wait', title: 'Asked to stop', detail: 'The worker hears of it with its next heartbeat.' });
  else if (job.state === 'queued' && job.due_at != null) moments.push({ at: job.due_at, tone: 'wait', title: job.attempts > 0 ? `Attempt ${job.attempts + 1} is due` : 'Due' });
  const timed = moments.filter((moment) => moment.at != null).sort((a, b) => a.at! - b.at!);
  return [...timed, ...moments.filter((moment) => moment.at == null)];
}

export interface Stretch { kind: 'wait' | 'run'; share: number; seconds: number }

/** How the life of the job so far divides into waiting and running. Only the latest attempt's beginning is known. */
export function stretches(job: Job, now: number): Stretch[] {
  const end = job.completed_at ?? (isFinal(job.state) ? null : now);
  if (end == null || end <= job.created_at) return [];
  const whole = end - job.created_at;
  const began = job.state === 'queued' || job.claimed_at == null ? end : Math.min(Math.max(job.claimed_at, job.created_at), end);
  const parts: Stretch[] = [
    { kind: 'wait', share: (began - job.created_at) / whole, seconds: (began - job.created_at) / 1000 },
    { kind: 'run', share: (end - began) / whole, seconds: (end - began) / 1000 },
  ];
  return parts.filter((part) => part.seconds > 0);
}
