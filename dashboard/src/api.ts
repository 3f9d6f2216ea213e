// The only place that fetches. One function per route of docs/http.md that the dashboard uses; every failure is an ApiError.
import type { BulkFilter, Group, Job, Json, Log, Me, NewJob, Node, QueueView, Role, Schedule, Series, Service, Status, TaskView, TokenView, WholeJob, Worker } from './types';

export class ApiError extends Error {
  constructor(readonly status: number, readonly code: string, message: string, readonly help: string | null = null, readonly retryAfter: number | null = null) {
    super(message);
  }
}

let unauthorized: () => void = () => {};
/** Who is told when the hub no longer knows us. */
export function onUnauthorized(tell: () => void): void {
  unauthorized = tell;
}

/** The hub was not reached at all. The page says so once, for everything on it. */
export function isAway(error: unknown): boolean {
  return error instanceof ApiError && error.status === 0;
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'AbortError';
}

async function send(method: string, path: string, body?: unknown, signal?: AbortSignal, headers: Record<string, string> = {}): Promise<Response> {
  const all: Record<string, string> = { Accept: 'application/json', ...headers };
  if (method !== 'GET') all['X-Requested-With'] = 'runcue';
  if (body !== undefined) all['Content-Type'] = 'application/json';
  let response: Response;
  try {
    response = await fetch(path, { method, headers: all, body: body === undefined ? undefined : JSON.stringify(body), signal, credentials: 'same-origin', cache: 'no-store' });
  } catch (error) {
    if (isAbort(error)) throw error;
    throw new ApiError(0, 'offline', 'The hub cannot be reached.', 'Is `runcue serve` running? This page tries again by itself.');
  }
  if (response.ok) return response;
  const problem = await readProblem(response);
  if (problem.status === 401 && path !== '/api/login') unauthorized();
  throw problem;
}

async function readProblem(response: Response): Promise<ApiError> {
  const retryAfter = Number(response.headers.get('Retry-After')) || null;
  try {
    const { error } = (await response.json()) as { error: { code: string; message: string; help?: string | null } };
    return new ApiError(response.status, error.code, error.message, error.help ?? null, retryAfter);
  } catch {
    return new ApiError(response.status, 'unreadable', `The hub answered ${response.status} ${response.statusText}.`, null, retryAfter);
  }
}

async function json<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const response = await send(method, path, body, signal);
  return (response.status === 204 ? null : await response.json()) as T;
}

const get = <T>(path: string, signal?: AbortSignal): Promise<T> => json<T>('GET', path, undefined, signal);
const post = <T>(path: string, body: unknown = {}): Promise<T> => json<T>('POST', path, body);
const name = encodeURIComponent;

/** An open event stream. */
export async function openStream(path: string, lastEventId: string | null, signal: AbortSignal): Promise<ReadableStream<Uint8Array>> {
  const headers: Record<string, string> = { Accept: 'text/event-stream' };
  if (lastEventId !== null) headers['Last-Event-ID'] = lastEventId;
  const response = await send('GET', path, undefined, signal, headers);
  if (!response.body) throw new ApiError(0, 'offline', 'The event stream has no body.');
  return response.body;
}

// Who
export const me = (): Promise<Me> => get('/api/me');
export const login = (token: string): Promise<Me> => post('/api/login', { token });
export const logout = (): Promise<null> => post('/api/logout');
export const tokens = (signal?: AbortSignal): Promise<TokenView[]> => get('/api/tokens', signal);
export const createToken = (body: { name: string; role: Role }): Promise<{ name: string; role: Role; token: string }> => post('/api/tokens', body);
export const revokeToken = (token: string): Promise<null> => json('DELETE', `/api/tokens/${name(token)}`);

// Jobs
export interface Page { jobs: Job[]; next: string | null }
export async function jobs(query: URLSearchParams, signal?: AbortSignal): Promise<Page> {
  const response = await send('GET', `/api/jobs?${query}`, undefined, signal);
  return { jobs: (await response.json()) as Job[], next: response.headers.get('X-Next-Before') };
}
export const job = (id: string, signal?: AbortSignal): Promise<WholeJob> => get(`/api/jobs/${name(id)}`, signal);
export const submitJob = (body: NewJob): Promise<{ id: string; status: string }> => post('/api/jobs', body);
export const cancelJob = (id: string, cascade = false): Promise<Job> => post(`/api/jobs/${name(id)}/cancel`, { cascade });
export const retryJob = (id: string): Promise<Job> => post(`/api/jobs/${name(id)}/retry`);
export const logs = (id: string, after: number, signal?: AbortSignal): Promise<{ logs: Log[]; next: number | null }> => get(`/api/jobs/${name(id)}/logs?after=${after}`, signal);

export type BulkVerb = 'cancel' | 'retry' | 'replay';
export interface BulkRequest { filter: BulkFilter; cascade?: boolean; all?: boolean; dry_run?: boolean }
export const bulk = (verb: BulkVerb, body: BulkRequest): Promise<{ count: number }> => post(verb === 'replay' ? '/api/quarantine/replay' : `/api/jobs/${verb}`, body);

// Everything else
export const status = (signal?: AbortSignal): Promise<Status> => get('/api/status', signal);
export const series = (signal?: AbortSignal): Promise<Series> => get('/api/series', signal);
export const tasks = (signal?: AbortSignal): Promise<TaskView[]> => get('/api/tasks', signal);
export const groups = (signal?: AbortSignal): Promise<Group[]> => get('/api/groups', signal);
export const pauseGroup = (group: string, paused: boolean): Promise<unknown> => post(`/api/groups/${name(group)}/${paused ? 'pause' : 'resume'}`);
export const queues = (signal?: AbortSignal): Promise<QueueView[]> => get('/api/queues', signal);
export const setQueue = (queue: string, body: Partial<QueueView>): Promise<unknown> => json('PUT', `/api/queues/${name(queue)}`, body);
export const services = (signal?: AbortSignal): Promise<Service[]> => get('/api/services', signal);
export type Limits = Partial<Pick<Service, 'max_concurrent' | 'rates' | 'per_key' | 'circuit_threshold' | 'circuit_timeout' | 'paused'>>;
export const putService = (service: string, limits: Limits): Promise<unknown> => json('PUT', `/api/services/${name(service)}`, limits);
export const patchService = (service: string, limits: Limits): Promise<unknown> => json('PATCH', `/api/services/${name(service)}`, limits);
export const workers = (signal?: AbortSignal): Promise<Worker[]> => get('/api/workers', signal);
export const fleet = (signal?: AbortSignal): Promise<Node[]> => get('/api/fleet', signal);
export const schedules = (signal?: AbortSignal): Promise<Schedule[]> => get('/api/schedules', signal);
export interface ScheduleBody { cron: string; zone?: string; missed?: string; overlap?: string; paused?: boolean; job: { type: string; params?: Json; target?: string; group?: string; queue?: string } }
export const putSchedule = (schedule: string, body: ScheduleBody): Promise<unknown> => json('PUT', `/api/schedules/${name(schedule)}`, body);
export const pauseSchedule = (schedule: string, paused: boolean): Promise<unknown> => post(`/api/schedules/${name(schedule)}/${paused ? 'pause' : 'resume'}`);
export const removeSchedule = (schedule: string): Promise<null> => json('DELETE', `/api/schedules/${name(schedule)}`);
