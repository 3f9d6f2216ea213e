// Drives a hub through its HTTP API so that a dashboard has something to show: services, groups, schedules, machines, workers that
// claim, log, report progress, complete and fail. Speaks to a fake hub and to a real one alike; a development tool.
// Run: node dev/life.mjs http://127.0.0.1:7878 [--token T] [--seconds N]
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const pick = (list) => list[Math.floor(Math.random() * list.length)];
const chance = (share) => Math.random() < share;
const wait = (ms) => new Promise((done) => setTimeout(done, ms));

const TASKS = ['fetch', 'resize', 'transcode', 'embed', 'report'];
const GROUPS = ['nightly', 'customer-a', 'customer-b', 'backfill'];
const ERRORS = ['connection reset by peer', 'HTTP 503 from api.example.org', 'out of memory while decoding frame 1932', 'checksum mismatch: expected 9c1f…'];

export function client(base, token) {
  return async function call(method, path, body) {
    const headers = { 'Content-Type': 'application/json', ...(token ? { Authorization: `Bearer ${token}` } : {}) };
    const response = await fetch(base + path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
    const text = await response.text();
    if (!response.ok) throw Object.assign(new Error(`${method} ${path}: ${response.status} ${text}`), { status: response.status });
    return text ? JSON.parse(text) : null;
  };
}

/** What stands still: services, schedules, groups, and jobs in every state. */
export async function furnish(call) {
  await call('PUT', '/api/services/images', { max_concurrent: 4, rates: [{ rate_limit: 120, rate_window: 60 }, { rate_limit: 2000, rate_window: 3600 }] });
  await call('PUT', '/api/services/openai', { max_concurrent: 2, rates: [{ rate_limit: 30, rate_window: 60 }], circuit_threshold: 5, circuit_timeout: 30 });
  await call('PUT', '/api/services/archive', { max_concurrent: 1, paused: true });
  await call('PUT', '/api/schedules/nightly-report', { cron: '0 3 * * *', zone: 'Europe/Berlin', missed: 'once', job: { type: 'report', group: 'nightly', params: { days: 1 } } });
  await call('PUT', '/api/schedules/refresh-cache', { cron: '*/10 * * * *', missed: 'skip', overlap: 'skip', job: { type: 'fetch', target: 'cache' } });
  const first = await call('POST', '/api/jobs', { type: 'fetch', target: 'corpus-2026-11.tar', group: 'backfill', params: { url: 'https://example.org/corpus-2026-11.tar', part: 1 } });
  const parts = [];
  for (const part of ['left', 'middle', 'right']) parts.push((await call('POST', '/api/jobs', { type: 'embed', target: part, group: 'backfill', depends_on: [first.id], services: [{ service: 'openai', units: 1 }], params: { part } })).id);
  await call('POST', '/api/jobs', { type: 'report', target: 'corpus-2026-11', group: 'backfill', depends_on: parts, labels: ['weekly'], params: { parts: 3 } });
  await call('POST', '/api/jobs', { type: 'transcode', target: 'launch-film.mov', priority: 5, labels: ['gpu', 'urgent'], requires: { cores: 8, ram_gb: 16, tags: ['gpu'] }, params: { preset: 'slow', bitrate: '8M' } });
  await call('POST', '/api/jobs', { type: 'report', target: 'quarter', run_at: Date.now() + 3_600_000, params: { quarter: 4 } });
  await call('POST', '/api/jobs', { type: 'fetch', target: 'old-mail', services: [{ service: 'archive', units: 1 }], params: {} });
  await call('POST', '/api/jobs', { type: 'fetch', target: 'paused-customer', group: 'customer-b', params: {} });
  await call('POST', '/api/groups/customer-b/pause', {});
}

/** One machine: metrics every second, and a worker with a few slots. */
async function machine(call, name, slots, running) {
  const worker_id = `${name}/1`;
  await call('POST', '/api/workers/register', { worker_id, name, cores: 8, ram_gb: 32, tags: ['linux'], types: TASKS, slots });
  let cpu = 30 + Math.random() * 30, beat = 0;
  const measure = async () => {
    while (running()) {
      cpu = Math.min(98, Math.max(3, cpu + (Math.random() - 0.5) * 14));
      await call('POST', `/api/ingest/${name}`, { name, cpu, mem_used_gb: 9 + cpu / 8 + Math.sin(beat / 9), mem_total_gb: 32, load1: cpu / 12, disk_used_gb: 210 + beat / 50, disk_total_gb: 500, uptime: 86_400 * 3 + beat++ }).catch(() => {});
      await wait(1000);
    }
  };
  const slot = async () => {
    while (running()) {
      const job = await call('POST', '/api/jobs/claim', { worker_id, types: TASKS }).catch(() => null);
      if (job) await work(call, worker_id, job).catch(() => {});
      else await wait(250);
    }
  };
  await Promise.all([measure(), ...Array.from({ length: slots }, slot)]);
}

async function work(call, worker_id, job) {
  const steps = 3 + Math.floor(Math.random() * 8);
  const log = (stream, text) => call('POST', `/api/jobs/${job.id}/logs`, { worker_id, chunks: [{ stream, text }] }).catch(() => {});
  await call('POST', `/api/jobs/${job.id}/heartbeat`, { worker_id });
  await log('stdout', `starting ${job.type} ${job.target ?? ''}\n`);
  for (let step = 1; step <= steps; step++) {
    await wait(150 + Math.random() * 350);
    await call('POST', `/api/jobs/${job.id}/heartbeat`, { worker_id, progress: { percent: Math.round((100 * step) / steps), message: `step ${step} of ${steps}` } });
    await log(chance(0.15) ? 'stderr' : 'stdout', chance(0.15) ? 'warning: slow answer from upstream\n' : `step ${step} of ${steps}: ok, ${Math.round(Math.random() * 4000)} rows\n`);
  }
  if (job.type === 'transcode' ? chance(0.5) : chance(0.06)) await call('POST', `/api/jobs/${job.id}/fail`, { worker_id, reason: pick(ERRORS), permanent: chance(0.2) });
  else await call('POST', `/api/jobs/${job.id}/result`, { worker_id, result: { rows: Math.round(Math.random() * 1e5), took_ms: steps * 300, files: [`${job.target ?? 'out'}.json`] } });
}

async function submitters(call, running, perSecond) {
  let number = 0;
  while (running()) {
    const type = pick(TASKS);
    const services = type === 'embed' ? [{ service: 'openai', units: 1 }] : type === 'resize' ? [{ service: 'images', units: 1 }] : [];
    await call('POST', '/api/jobs', { type, target: `${type}-${++number}`, group: chance(0.8) ? pick(GROUPS) : undefined, priority: chance(0.1) ? 5 : 0, services, max_attempts: 2, params: { n: number, size: pick(['s', 'm', 'l']) } }).catch(() => {});
    await wait((1000 / perSecond) * (0.5 + Math.random()));
  }
}

/** Lives until told to stop. */
export async function live(base, { token, perSecond = 4, running = () => true } = {}) {
  const call = client(base, token);
  await furnish(call);
  await Promise.all([submitters(call, running, perSecond), machine(call, 'atlas', 3, running), machine(call, 'borealis', 2, running), machine(call, 'cygnus', 2, running)]);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values, positionals } = parseArgs({ allowPositionals: true, options: { token: { type: 'string' }, seconds: { type: 'string' }, rate: { type: 'string', default: '4' } } });
  const until = values.seconds ? Date.now() + Number(values.seconds) * 1000 : Infinity;
  await live(positionals[0] ?? 'http://127.0.0.1:7878', { token: values.token, perSecond: Number(values.rate), running: () => Date.now() < until });
}
