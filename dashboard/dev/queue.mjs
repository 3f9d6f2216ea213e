// Owns the state of the fake hub: jobs and what happens to them, in memory. A development tool: no durability, no fairness,
// no fencing beyond "does this worker hold the job". What the real hub does is described in docs/http.md.
import { randomBytes } from 'node:crypto';

const FINAL = new Set(['completed', 'failed', 'cancelled', 'quarantined']);
const STATES = ['queued', 'leased', 'running', 'completed', 'failed', 'cancelled', 'quarantined'];
const STATUS = { queued: 'pending', leased: 'assigned', running: 'running', completed: 'completed', failed: 'failed', cancelled: 'failed', quarantined: 'quarantined' };
const LEASE_MS = 30_000;
const KEEP_EVENTS = 20_000;
/** Jobs that a search for text looks at before it gives up for this page. */
const SEARCHED = 50_000;
const SERIES_STEP = 5;

export class Trouble extends Error {
  constructor(status, code, message, help) {
    super(message);
    Object.assign(this, { status, code, help });
  }
}

const emptyCounts = () => Object.fromEntries(STATES.map((state) => [state, 0]));
const median = (values, share) => (values.length ? values.sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * share))] : null);

export class Queue {
  constructor(saved = {}) {
    this.jobs = new Map((saved.jobs ?? []).map((job) => [job.id, job]));
    this.order = [...this.jobs.keys()];
    this.logs = new Map(saved.logs ?? []);
    this.events = saved.events ?? [];
    this.seq = saved.seq ?? 0;
    this.eventSeq = saved.eventSeq ?? 0;
    this.groups = new Map(saved.groups ?? []);
    this.queues = new Map(saved.queues ?? [['default', { name: 'default', max_queued: null, on_full: 'reject', paused: false }]]);
    this.services = new Map(saved.services ?? []);
    this.schedules = new Map(saved.schedules ?? []);
    this.workers = new Map(saved.workers ?? []);
    this.nodes = new Map(saved.nodes ?? []);
    this.tokens = new Map(saved.tokens ?? []);
    this.points = [];
    this.window = { submitted: 0, started: 0, completed: 0, failed: 0, waits: [], runs: [] };
    this.listeners = new Set();
    this.logListeners = new Set();
  }

  saved() {
    const maps = ['logs', 'groups', 'queues', 'services', 'schedules', 'workers', 'nodes', 'tokens'];
    return { jobs: [...this.jobs.values()], events: this.events, seq: this.seq, eventSeq: this.eventSeq, ...Object.fromEntries(maps.map((name) => [name, [...this[name]]])) };
  }

  emit(type, job, more = {}) {
    const about = job ? { job: job.id, task: job.type, group: job.group ?? undefined, queue: job.queue, attempt: job.attempts || undefined, worker: job.worker_id ?? undefined, worker_id: job.worker_id ?? undefined, state: job.state } : {};
    const event = { seq: ++this.eventSeq, type, at: Date.now(), ...about, ...more };
    this.events.push(event);
    if (this.events.length > KEEP_EVENTS) this.events.splice(0, this.events.length - KEEP_EVENTS);
    for (const listener of this.listeners) listener(event);
  }

  // --- submitting ---

  submit(spec) {
    if (!spec || typeof spec.type !== 'string' || spec.type === '') throw new Trouble(400, 'bad_request', '`type` is missing', 'name the task: {"type": "resize"}');
    const known = (spec.id && this.jobs.get(spec.id)) || (spec.idempotency_key && [...this.jobs.values()].find((job) => job.idempotency_key === spec.idempotency_key));
    if (known) return { job: known, fresh: false };
    const queue = spec.queue ?? 'default';
    if (!this.queues.has(queue)) this.queues.set(queue, { name: queue, max_queued: null, on_full: 'reject', paused: false });
    for (const id of spec.depends_on ?? []) if (!this.jobs.has(id)) throw new Trouble(422, 'invalid', `depends_on names ${id}, and there is no such job`, 'submit the prerequisite first');
    const now = Date.now();
    const left = (spec.depends_on ?? []).filter((id) => this.jobs.get(id).state !== 'completed').length;
    const job = {
      id: spec.id ?? randomBytes(16).toString('hex'), seq: ++this.seq, type: spec.type, params: spec.params ?? null, priority: spec.priority ?? 0,
      worker_id: null, result: null, result_hash: null, created_at: now, claimed_at: null, heartbeat_at: null, completed_at: null, attempts: 0,
      max_attempts: spec.max_attempts ?? 3, max_runtime_ms: spec.max_runtime_ms ?? null, fail_reason: null, fail_history: [], solver_url: spec.solver_url ?? null,
      solver_checksum: spec.solver_checksum ?? null, state: 'queued', queue, group: spec.group ?? null, target: spec.target ?? null, labels: spec.labels ?? [],
      project: spec.project ?? null, depends_on: spec.depends_on ?? [], dependency_timeout: spec.dependency_timeout ?? null, idempotency_key: spec.idempotency_key ?? null,
      retry: spec.retry ?? null, run_at: spec.run_at ?? null, expires_at: spec.expires_at ?? null, requires: spec.requires ?? { cores: null, ram_gb: null, tags: [] },
      services: (spec.services ?? []).map((one) => (typeof one === 'string' ? { service: one, units: 1 } : one)), key: spec.key ?? null, crashes: 0,
      due_at: spec.run_at ?? null, prerequisites_left: left, lease_expires_at: null, cancel_requested: false, progress: null,
    };
    this.jobs.set(job.id, job);
    this.order.push(job.id);
    if (job.group && !this.groups.has(job.group)) this.groups.set(job.group, { name: job.group, paused: false, turn: this.groups.size });
    this.window.submitted++;
    this.emit('work_queued', job);
    return { job, fresh: true };
  }

  job(id) {
    const job = this.jobs.get(id);
    if (!job) throw new Trouble(404, 'not_found', `there is no job ${id}`, 'GET /api/jobs lists what there is');
    return job;
  }

  // --- looking ---

  view(job) {
    return { ...job, status: STATUS[job.state], fail_reason: job.state === 'cancelled' ? 'cancelled' : job.fail_reason };
  }

  whole(job) {
    const relative = (id) => { const other = this.job(id); return { id, type: other.type, state: other.state, status: STATUS[other.state] }; };
    const dependents = this.order.filter((id) => this.jobs.get(id)?.depends_on.includes(job.id));
    return { ...this.view(job), prerequisites: job.depends_on.map(relative), dependents: dependents.map(relative), why: this.why(job) };
  }

  matches(job, filter) {
    const among = (wanted, value) => wanted == null || wanted === '' || [wanted].flat().join(',').split(',').includes(value ?? '');
    if (filter.ids && !filter.ids.includes(job.id)) return false;
    if (!among(filter.state, job.state) || !among(filter.status, STATUS[job.state])) return false;
    for (const field of ['type', 'group', 'queue', 'project']) if (!among(filter[field], job[field])) return false;
    if (filter.label && !job.labels.includes(filter.label)) return false;
    if (filter.q) {
      const text = [job.id, job.type, job.target, job.group, job.fail_reason].join('\n').toLowerCase();
      if (!text.includes(filter.q.toLowerCase())) return false;
    }
    return true;
  }

  list(filter) {
    const limit = Math.min(Number(filter.limit ?? 50), 500);
    const from = filter.before ? this.job(filter.before).seq : Infinity;
    const page = [];
    let [looked, last] = [0, null];
    for (let index = this.order.length - 1; index >= 0; index--) {
      const job = this.jobs.get(this.order[index]);
      if (!job || job.seq >= from) continue;
      if (filter.q && ++looked > SEARCHED) return { page, next: last };
      last = job.id;
      if (!this.matches(job, filter)) continue;
      if (page.length === limit) return { page, next: page.at(-1).id };
      page.push(this.view(job));
    }
    return { page, next: null };
  }

  serviceBlock(name) {
    const service = this.services.get(name);
    if (!service) return null;
    const view = this.serviceView(service);
    return view.status === 'ok' ? null : { status: view.status, until: view.status_until };
  }

  why(job) {
    if (FINAL.has(job.state)) return [{ reason: 'not_waiting', state: job.state, error: job.fail_reason ?? undefined, words: `it does not wait: it is ${job.state}` }];
    if (job.state !== 'queued') return [{ reason: 'not_waiting', state: job.state, words: `it does not wait: worker ${job.worker_id} has it` }];
    const reasons = [];
    const left = job.depends_on.filter((id) => this.jobs.get(id).state !== 'completed');
    if (left.length) reasons.push({ reason: 'prerequisites', left: left.length, jobs: left, words: `it waits for ${left.length} other ${left.length === 1 ? 'job' : 'jobs'}` });
    if (job.due_at && job.due_at > Date.now()) reasons.push({ reason: 'not_yet', until: job.due_at, retry: job.attempts > 0, words: job.attempts > 0 ? 'its next attempt is not due yet' : 'it is not due yet' });
    if (job.group && this.groups.get(job.group)?.paused) reasons.push({ reason: 'group_paused', group: job.group, words: `group ${job.group} is paused` });
    if (this.queues.get(job.queue)?.paused) reasons.push({ reason: 'queue_paused', queue: job.queue, words: `queue ${job.queue} is paused` });
    for (const { service } of job.services) {
      const block = this.serviceBlock(service);
      if (block) reasons.push({ reason: 'service', service, block: block.status, until: block.until, words: `service ${service} is ${block.status.replaceAll('_', ' ')}` });
    }
    if (reasons.length) return reasons;
    const alive = [...this.workers.values()].filter((worker) => Date.now() - worker.seen_at < 60_000);
    if (!alive.length) return [{ reason: 'no_worker', words: 'no worker is running' }];
    if (!alive.some((worker) => !worker.types?.length || worker.types.includes(job.type))) return [{ reason: 'no_worker_fits', words: 'no worker that is running takes this task' }];
    const ahead = this.order.filter((id) => { const other = this.jobs.get(id); return other?.state === 'queued' && other.seq < job.seq && other.priority >= job.priority; }).length;
    return [ahead ? { reason: 'behind', ahead, words: `${ahead} other ${ahead === 1 ? 'job is' : 'jobs are'} ahead of it` } : { reason: 'next', words: 'it is next' }];
  }

  // --- working ---

  ready(job) {
    const now = Date.now();
    return job.state === 'queued' && job.prerequisites_left === 0 && !(job.due_at > now) && !this.groups.get(job.group)?.paused &&
      !this.queues.get(job.queue)?.paused && job.services.every(({ service }) => !this.serviceBlock(service));
  }

  claim({ worker_id, types, max = 1 }) {
    const now = Date.now();
    const worker = this.workers.get(worker_id);
    if (worker) worker.seen_at = now;
    const fit = [...this.jobs.values()].filter((job) => this.ready(job) && (!types?.length || types.includes(job.type)));
    fit.sort((a, b) => b.priority - a.priority || a.seq - b.seq);
    const taken = [];
    for (const job of fit) {
      if (taken.length === max) break;
      if (!this.ready(job)) continue;
      job.attempts++;
      Object.assign(job, { state: 'leased', worker_id, claimed_at: now, heartbeat_at: now, lease_expires_at: now + LEASE_MS, due_at: null, progress: null });
      for (const { service, units } of job.services) this.services.get(service)?.starts.push({ at: now, units });
      this.window.started++;
      this.window.waits.push((now - job.created_at) / 1000);
      taken.push(job);
    }
    return taken;
  }

  held(id, worker_id) {
    const job = this.job(id);
    if (job.worker_id !== worker_id || (job.state !== 'leased' && job.state !== 'running')) throw new Trouble(409, 'lease_lost', `worker ${worker_id} does not hold job ${id}`, 'stop working on it');
    return job;
  }

  heartbeat(id, { worker_id, progress }) {
    const job = this.held(id, worker_id);
    job.heartbeat_at = Date.now();
    job.lease_expires_at = job.heartbeat_at + LEASE_MS;
    if (job.state === 'leased') {
      job.state = 'running';
      this.emit('work_started', job);
    }
    if (progress != null) {
      job.progress = typeof progress === 'number' ? { percent: progress, message: null } : progress;
      this.emit('work_progress', job, { percent: job.progress.percent, message: job.progress.message ?? undefined });
    }
    return job;
  }

  finish(job, state, more = {}) {
    const now = Date.now();
    Object.assign(job, { state, completed_at: now, lease_expires_at: null, cancel_requested: false, ...more });
    const took = job.claimed_at ? (now - job.claimed_at) / 1000 : undefined;
    if (took != null) this.window.runs.push(took);
    if (state === 'completed') this.window.completed++; else this.window.failed++;
    this.emit(state === 'completed' ? 'work_completed' : state === 'cancelled' ? 'work_cancelled' : 'work_failed', job, { took, error: job.fail_reason ?? undefined });
    for (const other of this.jobs.values()) {
      if (!other.depends_on.includes(job.id)) continue;
      if (state === 'completed') other.prerequisites_left = Math.max(0, other.prerequisites_left - 1);
      else if (other.state === 'queued' && state === 'failed') this.finish(other, 'failed', { fail_reason: `prerequisite ${job.id} failed` });
    }
  }

  complete(id, { worker_id, result, result_hash }) {
    const job = this.held(id, worker_id);
    for (const { service } of job.services) if (this.services.has(service)) this.services.get(service).circuit_failures = 0;
    this.finish(job, 'completed', { result: result ?? null, result_hash: result_hash ?? null });
    return job;
  }

  fail(id, { worker_id, reason, permanent, service, retry_after }) {
    const job = this.held(id, worker_id);
    const now = Date.now();
    job.fail_reason = reason ?? 'unknown';
    job.fail_history.push({ reason: job.fail_reason, worker_id, ts: now, kind: permanent ? 'permanent' : 'transient', attempt: job.attempts });
    for (const one of job.services) {
      const limits = this.services.get(one.service);
      if (!limits?.circuit_threshold) continue;
      limits.circuit_failures++;
      if (limits.circuit_failures >= limits.circuit_threshold && !limits.open_until) this.openCircuit(limits);
    }
    if (retry_after && this.services.has(service)) this.services.get(service).held_until = now + retry_after * 1000;
    if (permanent) this.finish(job, 'failed');
    else if (job.attempts >= job.max_attempts) this.finish(job, 'quarantined');
    else {
      const due = now + 1000 * 2 ** job.attempts;
      Object.assign(job, { state: 'queued', due_at: due, lease_expires_at: null });
      this.emit('work_retrying', job, { error: job.fail_reason, retry_at: due });
      job.worker_id = null;
    }
    return job;
  }

  openCircuit(limits) {
    limits.open_until = Date.now() + (limits.circuit_timeout ?? 30) * 1000;
    this.emit('service_status', null, { service: limits.name, state: 'circuit_open' });
  }

  release(id, { worker_id }) {
    const job = this.held(id, worker_id);
    job.attempts--;
    Object.assign(job, { state: 'queued', worker_id: null, lease_expires_at: null });
    this.emit('work_queued', job);
    return job;
  }

  log(id, { worker_id, chunks }) {
    const job = this.held(id, worker_id);
    const lines = this.logs.get(id) ?? [];
    for (const { stream, text } of chunks) {
      const line = { n: lines.length + 1, job: id, attempt: job.attempts, stream, at: Date.now(), text };
      lines.push(line);
      for (const listener of this.logListeners) listener(line);
    }
    this.logs.set(id, lines);
  }

  // --- steering ---

  cancel(job, cascade = false) {
    if (cascade) for (const other of this.jobs.values()) if (other.depends_on.includes(job.id) && other.state === 'queued') this.cancel(other, true);
    if (FINAL.has(job.state)) throw new Trouble(409, 'conflict', `job ${job.id} is ${job.state}`, 'only a job that waits or runs can be cancelled');
    if (job.state === 'queued') this.finish(job, 'cancelled', { fail_reason: 'cancelled' });
    else job.cancel_requested = true;
    return job;
  }

  retry(job) {
    if (!['failed', 'cancelled', 'quarantined'].includes(job.state)) throw new Trouble(409, 'conflict', `job ${job.id} is ${job.state}`, 'only a failed, cancelled or quarantined job can go round again');
    Object.assign(job, { state: 'queued', attempts: 0, worker_id: null, completed_at: null, claimed_at: null, fail_reason: null, due_at: null, progress: null });
    this.emit('work_queued', job);
    return job;
  }

  bulk(verb, { filter = {}, all, dry_run, cascade }, only) {
    if (!Object.keys(filter).length && !all && !only) throw new Trouble(422, 'invalid', 'the filter is empty', 'say "all": true if you mean every job');
    const able = verb === 'cancel' ? ['queued', 'leased', 'running'] : only ?? ['failed', 'cancelled', 'quarantined'];
    const those = [...this.jobs.values()].filter((job) => able.includes(job.state) && this.matches(job, filter));
    if (!dry_run) for (const job of those) if (able.includes(job.state)) this[verb](job, cascade);
    return { count: those.length, dry_run: Boolean(dry_run) };
  }

  remove(id) {
    const job = this.job(id);
    if (job.state !== 'queued') throw new Trouble(409, 'conflict', `job ${id} is ${job.state}`, 'only a job that waits can be deleted; cancel it instead');
    this.finish(job, 'cancelled', { fail_reason: 'cancelled' });
  }

  serviceView(service) {
    const now = Date.now();
    const held = [...this.jobs.values()].filter((job) => job.state === 'leased' || job.state === 'running');
    const in_use = held.flatMap((job) => job.services).filter((one) => one.service === service.name).length;
    service.starts = service.starts.filter((start) => now - start.at < 3_600_000);
    const rates = service.rates.map((rate) => {
      const within = service.starts.filter((start) => now - start.at < rate.rate_window * 1000);
      return { ...rate, used: within.reduce((sum, start) => sum + start.units, 0), oldest: within[0]?.at };
    });
    const limited = rates.find((rate) => rate.used >= rate.rate_limit);
    let status = 'ok', status_until = null;
    if (service.paused) status = 'paused';
    else if (service.open_until > now) [status, status_until] = ['circuit_open', service.open_until];
    else if (service.held_until > now) [status, status_until] = ['held', service.held_until];
    else if (limited) [status, status_until] = ['rate_limited', limited.oldest + limited.rate_window * 1000];
    else if (service.max_concurrent && in_use >= service.max_concurrent) status = 'full';
    if (service.open_until && service.open_until <= now) Object.assign(service, { open_until: null, circuit_failures: 0 });
    const { name, max_concurrent, per_key, circuit_threshold, circuit_timeout, circuit_failures, paused } = service;
    return { name, status, status_until, in_use, max_concurrent, rates: rates.map(({ oldest, ...rate }) => rate), per_key, circuit_threshold, circuit_timeout, circuit_failures, probe: null, paused };
  }

  setService(name, body, whole) {
    const known = this.services.get(name);
    if (!known && !whole) throw new Trouble(404, 'not_found', `there is no service ${name}`, 'PUT makes one');
    if (body.max_concurrent != null && !(body.max_concurrent >= 1)) throw new Trouble(422, 'invalid', '`max_concurrent` must be at least 1', 'leave it out for no limit');
    const blank = { name, max_concurrent: null, rates: [], per_key: null, circuit_threshold: null, circuit_timeout: null, paused: false, circuit_failures: 0, starts: [] };
    this.services.set(name, { ...(known ?? blank), ...(whole ? { ...blank, starts: known?.starts ?? [] } : {}), ...body, name });
    this.emit('service_status', null, { service: name, state: body.paused ? 'paused' : 'ok' });
    return this.serviceView(this.services.get(name));
  }

  setGroup(name, paused) {
    const group = this.groups.get(name) ?? { name, paused: false, turn: this.groups.size };
    const changed = group.paused !== paused;
    group.paused = paused;
    this.groups.set(name, group);
    if (changed) this.emit('group_status', null, { group: name, state: paused ? 'paused' : 'active' });
    return { changed };
  }

  groupViews() {
    const views = new Map([...this.groups.values()].map((group) => [group.name, { ...group, counts: emptyCounts() }]));
    for (const job of this.jobs.values()) {
      if (!views.has(job.group)) views.set(job.group, { name: job.group, paused: false, turn: 0, counts: emptyCounts() });
      views.get(job.group).counts[job.state]++;
    }
    return [...views.values()];
  }

  queueViews() {
    const waiting = (name) => [...this.jobs.values()].filter((job) => job.queue === name && job.state === 'queued').length;
    return [...this.queues.values()].map((queue) => ({ ...queue, queued: waiting(queue.name) }));
  }

  setSchedule(name, body) {
    if (typeof body.cron !== 'string' || body.cron.trim().split(/\s+/).length < 5) throw new Trouble(422, 'invalid', '`cron` needs five fields', 'for example "*/10 * * * *"');
    const { type, queue = 'default', group = null, priority = 0, target = null, params = null } = body.job ?? {};
    if (!type) throw new Trouble(422, 'invalid', '`job.type` is missing', 'name the task the schedule submits');
    const minute = 60_000, base = Math.ceil(Date.now() / minute) * minute;
    const schedule = {
      name, cron: body.cron, zone: body.zone ?? 'UTC', missed: body.missed ?? 'once', overlap: body.overlap ?? 'allow', paused: body.paused ?? false, task: type, queue, group,
      priority, target, params, next_at: [base, base + 10 * minute, base + 20 * minute], last_at: null, last_job: null, fired: 0, last_error: null,
    };
    this.schedules.set(name, schedule);
    return schedule;
  }

  workerViews() {
    const now = Date.now();
    return [...this.workers.values()].map((worker) => {
      const held = [...this.jobs.values()].filter((job) => job.worker_id === worker.worker_id && (job.state === 'leased' || job.state === 'running')).length;
      return { ...worker, alive: now - worker.seen_at < 60_000, held };
    });
  }

  fleet() {
    const workers = this.workerViews();
    return [...this.nodes.values()].map((node) => {
      const own = workers.filter((worker) => worker.host === node.node || worker.worker_id.startsWith(node.node));
      return { ...node, online: Date.now() - node.seen_at < 30_000, latest: node.history.at(-1) ?? null, workers: own.map((worker) => worker.worker_id), active_jobs: own.reduce((sum, worker) => sum + worker.held, 0) };
    });
  }

  ingest(node, body) {
    const all = [body].flat();
    const known = this.nodes.get(node) ?? { node, name: null, history: [] };
    known.name = all.at(-1)?.name ?? known.name ?? node;
    known.seen_at = Date.now();
    known.history.push(...all.map(({ name, ...metrics }) => ({ at: Date.now(), ...metrics })));
    known.history.splice(0, Math.max(0, known.history.length - 120));
    this.nodes.set(node, known);
  }

  // --- summing up ---

  counts() {
    const counts = emptyCounts();
    for (const job of this.jobs.values()) counts[job.state]++;
    return counts;
  }

  status() {
    const queued = [...this.jobs.values()].filter((job) => job.state === 'queued');
    const now = Date.now();
    const delayed = queued.filter((job) => job.due_at > now).length;
    const blocked = queued.filter((job) => job.prerequisites_left > 0).length;
    const oldest = queued.find((job) => this.ready(job));
    const workers = this.workerViews();
    const services = [...this.services.values()].map((service) => this.serviceView(service));
    return {
      store: 'memory (fake hub)', durability: 'none', at: now, counts: this.counts(), ready: queued.length - delayed - blocked, delayed, blocked,
      oldest_ready_at: oldest?.created_at ?? null, workers, paused_groups: [...this.groups.values()].filter((group) => group.paused).map((group) => group.name),
      blocked_services: services.filter((service) => service.status !== 'ok'), hint: queued.length && !workers.some((worker) => worker.alive) ? 'no worker runs: start one with `runcue work`' : null,
      last_event: this.eventSeq, version: '0.1.0-fake',
    };
  }

  tick() {
    const now = Date.now();
    for (const job of this.jobs.values()) {
      if ((job.state === 'leased' || job.state === 'running') && job.lease_expires_at < now) {
        job.crashes++;
        try { this.fail(job.id, { worker_id: job.worker_id, reason: 'the worker went away' }); } catch { /* it just ended */ }
      }
    }
    const last = this.points.at(-1);
    if (last && now - last.at < 2 * SERIES_STEP * 1000) return;
    const counts = this.counts(), { waits, runs, ...sums } = this.window;
    this.points.push({
      at: now - SERIES_STEP * 1000, queued: counts.queued, running: counts.running + counts.leased, ...sums,
      wait_p50: median(waits, 0.5), wait_p95: median(waits, 0.95), run_p50: median(runs, 0.5), run_p95: median(runs, 0.95),
    });
    this.points.splice(0, Math.max(0, this.points.length - 3600 / SERIES_STEP));
    this.window = { submitted: 0, started: 0, completed: 0, failed: 0, waits: [], runs: [] };
  }

  series() {
    return { step: SERIES_STEP, points: this.points };
  }
}
