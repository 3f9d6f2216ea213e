// Owns what a person typed about a new job: how it is read, what is wrong with it, and how a job is turned back into a form. Pure.
import { parseSpan, typedSpan } from './format';
import type { Job, Json, NewJob } from './types';

export interface Form { type: string; params: string; priority: string; target: string; group: string; queue: string; project: string; labels: string; depends_on: string; services: string; key: string; idempotency_key: string; max_attempts: string; max_runtime: string; delay: string; expires: string }

export const EMPTY_FORM: Form = { type: '', params: '{}', priority: '', target: '', group: '', queue: '', project: '', labels: '', depends_on: '', services: '', key: '', idempotency_key: '', max_attempts: '', max_runtime: '', delay: '', expires: '' };

export function readJson(text: string): { value: Json; wrong: string | null } {
  if (text.trim() === '') return { value: null, wrong: null };
  try {
    return { value: JSON.parse(text) as Json, wrong: null };
  } catch (error) {
    return { value: null, wrong: `Not JSON: ${error instanceof Error ? error.message : String(error)}` };
  }
}

const list = (text: string): string[] => text.split(/[\s,]+/).filter(Boolean);

function readServices(text: string): { service: string; units: number }[] {
  return list(text).map((part) => {
    const [service = '', units] = part.split(':');
    return { service, units: units === undefined ? 1 : Number(units) };
  });
}

export type Wrong = Partial<Record<keyof Form, string>>;

/** The job as the hub wants it, and what is wrong, field by field. */
export function readForm(form: Form, now: number): { job: NewJob; wrong: Wrong } {
  const wrong: Wrong = {};
  const job: NewJob = { type: form.type.trim() };
  if (!job.type) wrong.type = 'Name the task that runs it.';
  const params = readJson(form.params);
  if (params.wrong) wrong.params = params.wrong;
  else if (params.value !== null) job.params = params.value;
  for (const field of ['target', 'group', 'queue', 'project', 'key', 'idempotency_key'] as const) if (form[field].trim()) job[field] = form[field].trim();
  if (form.labels.trim()) job.labels = list(form.labels);
  if (form.depends_on.trim()) {
    job.depends_on = list(form.depends_on);
    if (!job.depends_on.every((id) => /^[0-9a-f]{32}$/.test(id))) wrong.depends_on = 'Ids of jobs: 32 hexadecimal digits each.';
  }
  if (form.services.trim()) {
    job.services = readServices(form.services);
    if (!job.services.every((one) => one.service && Number.isInteger(one.units) && one.units > 0)) wrong.services = 'Names, or name:units.';
  }
  if (form.priority.trim()) {
    job.priority = Number(form.priority);
    if (!Number.isInteger(job.priority)) wrong.priority = 'A whole number.';
  }
  if (form.max_attempts.trim()) {
    job.max_attempts = Number(form.max_attempts);
    if (!(Number.isInteger(job.max_attempts) && job.max_attempts > 0)) wrong.max_attempts = 'A whole number from 1.';
  }
  const spans = { max_runtime: (seconds: number) => { job.max_runtime_ms = seconds * 1000; }, delay: (seconds: number) => { job.run_at = now + seconds * 1000; }, expires: (seconds: number) => { job.expires_at = now + seconds * 1000; } };
  for (const field of ['max_runtime', 'delay', 'expires'] as const) {
    if (!form[field].trim()) continue;
    const seconds = parseSpan(form[field]);
    if (seconds === null || seconds <= 0) wrong[field] = 'A span such as 30s, 5m or 2h.';
    else spans[field](seconds);
  }
  return { job, wrong };
}

/** A form that submits a job like this one. Keys that make it the same job are left out. */
export function formLike(job: Job): Form {
  return {
    ...EMPTY_FORM,
    type: job.type,
    params: job.params === null ? '' : JSON.stringify(job.params, null, 2),
    priority: job.priority ? String(job.priority) : '',
    target: job.target ?? '',
    group: job.group ?? '',
    queue: job.queue === 'default' ? '' : job.queue,
    project: job.project ?? '',
    labels: (job.labels ?? []).join(' '),
    services: (job.services ?? []).map((one) => (one.units === 1 ? one.service : `${one.service}:${one.units}`)).join(' '),
    key: job.key ?? '',
    max_attempts: job.max_attempts ? String(job.max_attempts) : '',
    max_runtime: typedSpan(job.max_runtime_ms == null ? null : job.max_runtime_ms / 1000),
  };
}
