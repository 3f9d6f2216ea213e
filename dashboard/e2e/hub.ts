// Owns the hub under test: how it is started, stopped, killed and spoken to. RUNCUE_E2E is the command that starts one, for example
// "../target/debug/runcue serve --listen 127.0.0.1:{port}"; it runs in a directory of its own. Without it: the fake hub of dev/.
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { createServer } from 'node:net';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { startFront } from '../dev/front.mjs';

const DIST = resolve('dist');
const COMMAND = process.env['RUNCUE_E2E'] ?? `${process.execPath} ${resolve('dev/hub.mjs')} --port {port} --state {dir}/state.json --dist ${DIST}`;
const START_MS = 15_000;

// Any, because tests look into answers field by field, and a wrong guess fails there.
type Answer = any;

export class Hub {
  /** Where the browser goes. */
  url = '';
  private readonly dir = mkdtempSync(join(tmpdir(), 'runcue-e2e-'));
  private process: ChildProcess | null = null;
  private api = '';
  private port = 0;
  private front: { url: string; stop: () => void } | null = null;

  constructor(readonly token: string | null = null) {}

  static async start(token: string | null = null): Promise<Hub> {
    const hub = new Hub(token);
    hub.port = await freePort();
    hub.api = `http://127.0.0.1:${hub.port}`;
    hub.url = hub.api;
    await hub.begin();
    const page = await (await fetch(`${hub.api}/`)).text();
    if (!page.includes('id="app"')) {
      hub.front = await startFront(hub.api, DIST, 0);
      hub.url = hub.front.url;
    }
    return hub;
  }

  private async begin(): Promise<void> {
    const [program = '', ...args] = COMMAND.split(' ').map((word) => word.replace('{port}', String(this.port)).replace('{dir}', this.dir));
    const env = { ...process.env, ...(this.token ? { RUNCUE_TOKEN: this.token } : {}) };
    const child = spawn(program.includes('/') ? resolve(program) : program, args, { cwd: this.dir, env, stdio: ['ignore', 'ignore', 'pipe'] });
    this.process = child;
    let said = '';
    child.stderr?.on('data', (data) => { said += String(data); });
    const until = Date.now() + START_MS;
    for (;;) {
      if (child.exitCode !== null) throw new Error(`the hub ended with ${child.exitCode}: ${said}`);
      if (await fetch(`${this.api}/healthz`).then((answer) => answer.ok, () => false)) return;
      if (Date.now() > until) throw new Error(`the hub did not start: ${said}`);
      await new Promise((done) => setTimeout(done, 50));
    }
  }

  /** Ends the process the hard way. The fake hub keeps its state only if it is asked to end. */
  async kill(): Promise<void> {
    const child = this.process;
    if (!child || child.exitCode !== null) return;
    const gone = new Promise((done) => child.once('exit', done));
    child.kill(process.env['RUNCUE_E2E'] ? 'SIGKILL' : 'SIGTERM');
    await gone;
  }

  async restart(): Promise<void> {
    await this.begin();
  }

  async stop(): Promise<void> {
    await this.kill();
    this.front?.stop();
    rmSync(this.dir, { recursive: true, force: true });
  }

  async call(method: string, path: string, body?: unknown): Promise<Answer> {
    const headers: Record<string, string> = this.token ? { Authorization: `Bearer ${this.token}` } : {};
    if (body !== undefined) headers['Content-Type'] = 'application/json';
    const response = await fetch(this.api + path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text ? JSON.parse(text) : null;
  }

  submit(job: Record<string, unknown>): Promise<{ id: string }> {
    return this.call('POST', '/api/jobs', job);
  }

  async submitMany(jobs: Record<string, unknown>[]): Promise<string[]> {
    const answer = await this.call('POST', '/api/jobs/bulk', jobs);
    return answer.jobs.map((job: { id: string }) => job.id);
  }

  worker(id = 'tester'): Worker {
    return new Worker(this, id);
  }
}

/** A worker as docs/http.md describes it, driven by the test step by step. */
export class Worker {
  private registered = false;

  constructor(private readonly hub: Hub, readonly id: string) {}

  async claim(types: string[]): Promise<Answer> {
    if (!this.registered) await this.hub.call('POST', '/api/workers/register', { worker_id: this.id, name: this.id, cores: 4, ram_gb: 8, tags: ['e2e'], slots: 64 });
    this.registered = true;
    const job = await this.hub.call('POST', '/api/jobs/claim', { worker_id: this.id, types, wait: 5 });
    if (!job) throw new Error(`there was nothing of ${types.join()} to claim`);
    return job;
  }

  /** Claims and says that it runs. */
  async begin(type: string): Promise<Answer> {
    const job = await this.claim([type]);
    await this.beat(job.id);
    return job;
  }

  beat(id: string, progress?: { percent: number; message: string }): Promise<Answer> {
    return this.hub.call('POST', `/api/jobs/${id}/heartbeat`, { worker_id: this.id, ...(progress && { progress }) });
  }

  log(id: string, text: string, stream = 'stdout'): Promise<Answer> {
    return this.hub.call('POST', `/api/jobs/${id}/logs`, { worker_id: this.id, chunks: [{ stream, text }] });
  }

  complete(id: string, result: unknown): Promise<Answer> {
    return this.hub.call('POST', `/api/jobs/${id}/result`, { worker_id: this.id, result });
  }

  fail(id: string, reason: string, permanent = false): Promise<Answer> {
    return this.hub.call('POST', `/api/jobs/${id}/fail`, { worker_id: this.id, reason, permanent });
  }
}

function freePort(): Promise<number> {
  return new Promise((done, refused) => {
    const probe = createServer();
    probe.on('error', refused);
    probe.listen(0, '127.0.0.1', () => {
      const address = probe.address();
      probe.close(() => done(typeof address === 'object' && address ? address.port : 0));
    });
  });
}
