// What events do to jobs on the screen, and the story of a job.
import { describe, expect, test } from 'vitest';
import { story, stretches } from '../src/attempts';
import { applyEvents, canCancel, canRetry, runSeconds, subject } from '../src/jobs';
import type { HubEvent } from '../src/types';
import { aJob } from './samples';

const event = (type: string, more: Partial<HubEvent> = {}): HubEvent => ({ seq: 1, type, at: 5000, job: 'a', ...more });

describe('events', () => {
  test('that concern no job in sight leave the very same array', () => {
    const jobs = [aJob({ id: 'a' })];
    expect(applyEvents(jobs, [event('work_started', { job: 'b' }), event('service_status', { job: undefined, service: 's' })])).toBe(jobs);
  });

  test('move one job and leave the others as they are', () => {
    const jobs = [aJob({ id: 'a' }), aJob({ id: 'b' })];
    const next = applyEvents(jobs, [event('work_started', { state: 'running', attempt: 1, worker_id: 'w' })]);
    expect(next[0]).toMatchObject({ state: 'running', attempts: 1, worker_id: 'w', claimed_at: 5000 });
    expect(next[1]).toBe(jobs[1]);
    expect(jobs[0]!.state).toBe('queued');
  });

  test('of a whole life follow each other', () => {
    const life = [
      event('work_leased', { attempt: 1, worker_id: 'w', at: 900 }),
      event('work_started', { attempt: 1, worker_id: 'w', at: 1000 }),
      event('work_progress', { percent: 40, message: 'step 2', at: 2000 }),
      event('work_retrying', { error: 'boom', retry_at: 9000, at: 3000 }),
      event('work_started', { attempt: 2, worker_id: 'v', at: 9000 }),
      event('work_completed', { state: 'completed', took: 1, at: 10_000 }),
    ];
    const states = life.map((_, n) => applyEvents([aJob({ id: 'a' })], life.slice(0, n + 1))[0]!);
    expect(states.map((job) => job.state)).toEqual(['leased', 'running', 'running', 'queued', 'running', 'completed']);
    expect(states[0]).toMatchObject({ worker_id: 'w', claimed_at: 900 });
    expect(states[2]!.progress).toEqual({ percent: 40, message: 'step 2' });
    expect(states[3]).toMatchObject({ fail_reason: 'boom', due_at: 9000, worker_id: null });
    expect(states[5]).toMatchObject({ attempts: 2, worker_id: 'v', completed_at: 10_000 });
  });

  test('that say quarantined are believed over their type', () => {
    expect(applyEvents([aJob({ id: 'a' })], [event('work_failed', { state: 'quarantined' })])[0]!.state).toBe('quarantined');
  });

  test('of an unknown type change nothing of the state', () => {
    expect(applyEvents([aJob({ id: 'a' })], [event('work_painted')])[0]!.state).toBe('queued');
  });
});

test('what can be cancelled and what can be retried', () => {
  const states = ['queued', 'leased', 'running', 'completed', 'failed', 'cancelled', 'quarantined'] as const;
  expect(states.filter((state) => canCancel({ state }))).toEqual(['queued', 'leased', 'running']);
  expect(states.filter((state) => canRetry({ state }))).toEqual(['failed', 'cancelled', 'quarantined']);
});

test('a job runs from its claim to its end, or until now', () => {
  expect(runSeconds(aJob({ state: 'queued' }), 9000)).toBeNull();
  expect(runSeconds(aJob({ state: 'running', claimed_at: 4000 }), 9000)).toBe(5);
  expect(runSeconds(aJob({ state: 'completed', claimed_at: 4000, completed_at: 6000 }), 9000)).toBe(2);
});

test('the subject is the target, or the command', () => {
  expect(subject({ target: 'moon', params: { run: ['echo', 'hi'] } })).toBe('moon');
  expect(subject({ target: null, params: { run: ['echo', 'hi'] } })).toBe('echo hi');
  expect(subject({ target: null, params: [1] })).toBe('');
});

describe('the story', () => {
  const failure = { reason: 'boom', worker_id: 'w', ts: 3000, kind: 'transient', attempt: 1 };

  test('of a job that failed once and waits names the next attempt', () => {
    const titles = story(aJob({ attempts: 1, fail_history: [failure], due_at: 9000 })).map((moment) => moment.title);
    expect(titles).toEqual(['Submitted', 'Attempt 1 failed, may go better next time', 'Attempt 2 is due']);
  });

  test('of a quarantined job does not say that its last attempt began again', () => {
    const titles = story(aJob({ state: 'quarantined', attempts: 1, claimed_at: 2000, completed_at: 3000, fail_history: [failure] })).map((moment) => moment.title);
    expect(titles).toEqual(['Submitted', 'Attempt 1 failed, may go better next time', 'Set aside (quarantined)']);
  });

  test('of a completed job ends well and is in the order of time', () => {
    const moments = story(aJob({ state: 'completed', attempts: 2, claimed_at: 5000, completed_at: 7000, fail_history: [failure] }));
    expect(moments.map((moment) => moment.title)).toEqual(['Submitted', 'Attempt 1 failed, may go better next time', 'Attempt 2 began', 'Completed']);
    expect(moments.map((moment) => moment.at)).toEqual([1000, 3000, 5000, 7000]);
  });

  test('divides into waiting and running', () => {
    expect(stretches(aJob({ state: 'completed', claimed_at: 2000, completed_at: 5000 }), 9000)).toEqual([{ kind: 'wait', share: 0.25, seconds: 1 }, { kind: 'run', share: 0.75, seconds: 3 }]);
    expect(stretches(aJob({}), 3000)).toEqual([{ kind: 'wait', share: 1, seconds: 2 }]);
    expect(stretches(aJob({}), 1000)).toEqual([]);
  });
});
