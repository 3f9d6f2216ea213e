// A fake hub for developing the dashboard without Rust: the routes of docs/http.md that the dashboard and its tests use, over the
// state in queue.mjs. A development tool, never shipped. Run: node dev/hub.mjs --port 7000 [--token T] [--state FILE] [--dist DIR]
import { createServer } from 'node:http';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { randomBytes } from 'node:crypto';
import { extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Queue, Trouble } from './queue.mjs';

const { values: options } = parseArgs({ options: { port: { type: 'string', default: '7878' }, token: { type: 'string' }, state: { type: 'string' }, dist: { type: 'string' } } });
const dist = options.dist ?? fileURLToPath(new URL('../dist', import.meta.url));
const queue = new Queue(options.state && existsSync(options.state) ? JSON.parse(readFileSync(options.state, 'utf8')) : {});
const given = options.token ?? process.env.RUNCUE_TOKEN;
if (given) queue.tokens.set('runcue_token', { name: 'runcue_token', role: 'admin', token: given, created_at: null });

const MAY = { read: ['read', 'submit', 'work', 'admin'], submit: ['submit', 'admin'], work: ['work', 'admin'], admin: ['admin'] };
const TYPES = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml', '.json': 'application/json' };
const CSP = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'; object-src 'none'";

function who(request) {
  const bearer = request.headers.authorization?.replace(/^Bearer /, '');
  const cookie = /(?:^|; )runcue=([^;]*)/.exec(request.headers.cookie ?? '')?.[1];
  const found = [...queue.tokens.values()].find(({ token }) => token === (bearer ?? cookie));
  if (found) return { name: found.name, role: found.role, open: false };
  return queue.tokens.size === 0 ? { name: null, role: 'admin', open: true } : null;
}

const routes = [];
function route(method, path, role, handle) {
  const names = [];
  const pattern = path.replace(/\{(\w+)\}/g, (_, name) => { names.push(name); return '([^/]+)'; });
  routes.push({ method, pattern: new RegExp(`^${pattern}$`), names, role, handle });
}
const shown = (job) => ({ id: job.id, status: queue.view(job).status });

route('POST', '/api/jobs', 'submit', ({ body }) => { const { job, fresh } = queue.submit(body); return [fresh ? 201 : 200, fresh ? shown(job) : queue.view(job)]; });
route('POST', '/api/jobs/bulk', 'submit', ({ body }) => [201, { jobs: body.map((spec) => { const { job, fresh } = queue.submit(spec); return { ...shown(job), new: fresh }; }) }]);
route('GET', '/api/jobs', 'read', ({ query }) => { const { page, next } = queue.list(query); return [200, page, next ? { 'X-Next-Before': next } : {}]; });
route('GET', '/api/quarantine', 'read', ({ query }) => { const { page, next } = queue.list({ ...query, state: 'quarantined' }); return [200, page, next ? { 'X-Next-Before': next } : {}]; });
route('POST', '/api/quarantine/replay', 'admin', ({ body }) => [200, queue.bulk('retry', body, ['quarantined'])]);
route('POST', '/api/jobs/(cancel|retry)', 'admin', ({ body, path }) => [200, queue.bulk(path.split('/').pop(), body)]);
route('POST', '/api/jobs/claim', 'work', ({ body }) => {
  const taken = queue.claim(body).map((job) => ({ ...queue.view(job), lease: { attempt: job.attempts, token: job.seq, instance: null, expires_at: job.lease_expires_at, start_by: null } }));
  return body.max != null ? [200, { jobs: taken }] : taken.length ? [200, taken[0]] : [204];
});
route('GET', '/api/jobs/{id}', 'read', ({ id }) => [200, queue.whole(queue.job(id))]);
route('DELETE', '/api/jobs/{id}', 'submit', ({ id }) => { queue.remove(id); return [204]; });
route('POST', '/api/jobs/{id}/cancel', 'submit', ({ id, body }) => [200, queue.view(queue.cancel(queue.job(id), body.cascade))]);
route('POST', '/api/jobs/{id}/retry', 'submit', ({ id }) => [200, queue.view(queue.retry(queue.job(id)))]);
route('GET', '/api/jobs/{id}/why', 'read', ({ id }) => { const job = queue.job(id); return [200, { id, state: job.state, reasons: queue.why(job) }]; });
route('GET', '/api/jobs/{id}/logs', 'read', ({ id, query, stream }) => {
  queue.job(id);
  const lines = (queue.logs.get(id) ?? []).filter((line) => line.n > Number(query.after ?? 0));
  if (query.follow !== 'true') return [200, { logs: lines.slice(0, 500), next: lines.length > 500 ? lines[499].n : null }];
  return stream((send, close) => {
    for (const line of lines) send('log', line, line.n);
    const ended = () => ['completed', 'failed', 'cancelled', 'quarantined'].includes(queue.jobs.get(id)?.state);
    if (ended()) { send('end', {}); close(); return () => {}; }
    const onLine = (line) => line.job === id && send('log', line, line.n);
    const onEvent = () => { if (ended()) { send('end', {}); close(); } };
    queue.logListeners.add(onLine);
    queue.listeners.add(onEvent);
    return () => { queue.logListeners.delete(onLine); queue.listeners.delete(onEvent); };
  });
});
route('POST', '/api/jobs/{id}/heartbeat', 'work', ({ id, body }) => { const job = queue.heartbeat(id, body); return [204, null, job.cancel_requested ? { 'X-Cancel': 'true' } : {}]; });
route('POST', '/api/jobs/{id}/result', 'work', ({ id, body }) => [200, shown(queue.complete(id, body))]);
route('POST', '/api/jobs/{id}/fail', 'work', ({ id, body }) => { const job = queue.fail(id, body); return [200, { ...shown(job), retry_at: job.due_at }]; });
route('POST', '/api/jobs/{id}/release', 'work', ({ id, body }) => [200, shown(queue.release(id, body))]);
route('POST', '/api/jobs/{id}/logs', 'work', ({ id, body }) => { queue.log(id, body); return [204]; });
route('POST', '/api/workers/register', 'work', ({ body }) => {
  const { worker_id, name = null, cores = 1, ram_gb = 1, tags = [], types = [], slots = 1, instance = null } = body;
  queue.workers.set(worker_id, { worker_id, name: name ?? worker_id, instance, host: worker_id.split('/')[0], slots, cores, ram_gb, tags, types, started_at: Date.now(), seen_at: Date.now() });
  return [204];
});
route('GET', '/api/workers', 'read', () => [200, queue.workerViews()]);
route('DELETE', '/api/workers/{worker}', 'work', ({ worker }) => { queue.workers.delete(worker); return [204]; });
route('GET', '/api/status', 'read', () => [200, queue.status()]);
route('GET', '/api/series', 'read', () => [200, queue.series()]);
route('GET', '/api/groups', 'read', () => [200, queue.groupViews()]);
route('POST', '/api/groups/{name}/(pause|resume)', 'admin', ({ name, path }) => [200, queue.setGroup(name, path.endsWith('/pause'))]);
route('POST', '/api/groups/{name}/(retry|cancel)', 'admin', ({ name, path, body }) => [200, { count: queue.bulk(path.split('/').pop(), { ...body, filter: { group: name } }).count }]);
route('GET', '/api/queues', 'read', () => [200, queue.queueViews()]);
route('PUT', '/api/queues/{name}', 'admin', ({ name, body }) => {
  queue.queues.set(name, { max_queued: null, on_full: 'reject', paused: false, ...queue.queues.get(name), ...body, name });
  queue.emit('queue_status', null, { queue: name });
  return [200, queue.queueViews().find((one) => one.name === name)];
});
route('GET', '/api/services', 'read', () => [200, [...queue.services.values()].map((service) => queue.serviceView(service))]);
route('PUT', '/api/services/{name}', 'admin', ({ name, body }) => [200, queue.setService(name, body, true)]);
route('PATCH', '/api/services/{name}', 'admin', ({ name, body }) => [200, queue.setService(name, body, false)]);
route('GET', '/api/schedules', 'read', () => [200, [...queue.schedules.values()]]);
route('PUT', '/api/schedules/{name}', 'admin', ({ name, body }) => [200, queue.setSchedule(name, body)]);
route('DELETE', '/api/schedules/{name}', 'admin', ({ name }) => { queue.schedules.delete(name); return [204]; });
route('POST', '/api/schedules/{name}/(pause|resume)', 'admin', ({ name, path }) => { const schedule = queue.schedules.get(name); schedule.paused = path.endsWith('/pause'); return [200, schedule]; });
route('GET', '/api/tasks', 'read', () => [200, [...new Set([...queue.jobs.values()].map((job) => job.type))].map((name) => ({ name, services: [], timeout: null, retry: null }))]);
route('GET', '/api/events', 'read', ({ query, request, stream }) => {
  const after = request.headers['last-event-id'] ?? query.after;
  return stream((send) => {
    const first = queue.events[0]?.seq ?? queue.eventSeq + 1;
    if (after != null && Number(after) < first - 1) send('events_missed', { seq: first - 1, type: 'events_missed', at: Date.now(), message: `events up to ${first - 1} are gone` }, first - 1);
    if (after != null) for (const event of queue.events) if (event.seq > Number(after)) send(event.type, event, event.seq);
    const listener = (event) => send(event.type, event, event.seq);
    queue.listeners.add(listener);
    return () => queue.listeners.delete(listener);
  });
});
route('POST', '/api/ingest/{node}', 'work', ({ node, body }) => { queue.ingest(node, body); return [204]; });
route('GET', '/api/fleet', 'read', () => [200, queue.fleet()]);
route('GET', '/api/me', null, ({ user }) => [200, user ?? { name: null, role: null, open: false }]);
route('POST', '/api/login', null, ({ body }) => {
  const found = [...queue.tokens.values()].find(({ token }) => token === body.token);
  if (!found) throw new Trouble(401, 'unauthorized', 'this token is not known', '`runcue token create NAME --role read` makes one');
  return [200, { name: found.name, role: found.role, open: false }, { 'Set-Cookie': `runcue=${found.token}; HttpOnly; SameSite=Strict; Path=/` }];
});
route('POST', '/api/logout', null, () => [204, null, { 'Set-Cookie': 'runcue=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0' }]);
route('GET', '/api/tokens', 'admin', () => [200, [...queue.tokens.values()].map(({ token, ...rest }) => rest)]);
route('POST', '/api/tokens', 'admin', ({ body }) => {
  if (!/^[\w.-]+$/.test(body.name ?? '')) throw new Trouble(422, 'invalid', '`name` must be a word', 'letters, digits, dots and dashes');
  if (queue.tokens.has(body.name)) throw new Trouble(409, 'conflict', `there is a token ${body.name} already`, 'revoke it first, or choose another name');
  const token = { name: body.name, role: body.role, created_at: Date.now(), token: `rc_${randomBytes(24).toString('hex')}` };
  queue.tokens.set(body.name, token);
  return [201, token];
});
route('DELETE', '/api/tokens/{name}', 'admin', ({ name }) => { queue.tokens.delete(name); return [204]; });
route('GET', '/healthz', null, () => [200, { status: 'ok' }]);

async function read(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  const text = Buffer.concat(parts).toString();
  if (!text) return {};
  if (request.headers['content-type']?.includes('ndjson')) return text.split('\n').filter(Boolean).map((line) => JSON.parse(line));
  try { return JSON.parse(text); } catch (error) { throw new Trouble(400, 'bad_request', `the body is not JSON: ${error.message}`, 'send application/json'); }
}

const streams = new Set();
function openStream(request, response) {
  return (begin) => {
    response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' });
    response.write(': hello\n\n');
    let end = () => {};
    const send = (type, data, id) => response.write(`${id == null ? '' : `id: ${id}\n`}event: ${type}\ndata: ${JSON.stringify(data)}\n\n`);
    const beat = setInterval(() => response.write(': still here\n\n'), 15_000);
    streams.add(response);
    request.on('close', () => { clearInterval(beat); streams.delete(response); end(); });
    end = begin(send, () => response.end()) ?? end;
    return 'streaming';
  };
}

function serveFile(path, response) {
  const name = normalize(path === '/' ? '/index.html' : path);
  const file = join(dist, name);
  if (!file.startsWith(dist) || !existsSync(file) || !statSync(file).isFile()) throw new Trouble(404, 'not_found', `there is nothing at ${path}`, 'the dashboard is at /; build it with npm run build');
  response.writeHead(200, { 'Content-Type': TYPES[extname(file)] ?? 'application/octet-stream', 'Content-Security-Policy': CSP, 'Cache-Control': name.startsWith('/assets/') ? 'max-age=31536000, immutable' : 'no-cache' });
  response.end(readFileSync(file));
}

async function answer(request, response) {
  const url = new URL(request.url, 'http://hub');
  const found = routes.find((one) => one.method === request.method && one.pattern.test(url.pathname));
  if (!found) {
    if (request.method === 'GET' && !url.pathname.startsWith('/api/')) return serveFile(url.pathname, response);
    throw new Trouble(404, 'not_found', `there is no ${request.method} ${url.pathname}`, 'docs/http.md lists the routes');
  }
  const user = who(request);
  if (found.role && !user) throw new Trouble(401, 'unauthorized', 'a token is needed', 'log in, or send Authorization: Bearer TOKEN');
  if (found.role && !MAY[found.role].includes(user.role)) throw new Trouble(403, 'forbidden', `the role ${user.role} may not do this`, `it takes a token with the role ${found.role}`);
  if (request.method !== 'GET' && request.headers.cookie && !request.headers.authorization && request.headers['x-requested-with'] !== 'runcue') throw new Trouble(403, 'wrong_origin', 'X-Requested-With is missing', 'the dashboard sends it');
  const names = Object.fromEntries(found.names.map((name, index) => [name, decodeURIComponent(found.pattern.exec(url.pathname)[index + 1])]));
  const body = request.method === 'GET' ? {} : await read(request);
  const outcome = await found.handle({ ...names, path: url.pathname, query: Object.fromEntries(url.searchParams), body, request, user, stream: openStream(request, response) });
  if (outcome === 'streaming') return undefined;
  const [status, data, headers = {}] = outcome;
  response.writeHead(status, { 'Content-Type': 'application/json', ...headers });
  return response.end(status === 204 ? undefined : JSON.stringify(data));
}

const server = createServer((request, response) => {
  answer(request, response).catch((error) => {
    const { status = 500, code = 'internal', message, help = null } = error;
    if (!response.headersSent) response.writeHead(status, { 'Content-Type': 'application/json' });
    response.end(JSON.stringify({ error: { code, message, help } }));
  });
});
setInterval(() => queue.tick(), 500).unref();
function stop() {
  if (options.state) writeFileSync(options.state, JSON.stringify(queue.saved()));
  process.exit(0);
}
process.on('SIGTERM', stop);
process.on('SIGINT', stop);
server.listen(Number(options.port), '127.0.0.1', () => console.log(`fake hub on http://127.0.0.1:${server.address().port}`));
