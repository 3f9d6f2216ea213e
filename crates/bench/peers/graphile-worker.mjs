// graphile-worker on a PostgreSQL server: bulk add, drain of a task that does nothing, time from add to start.
// Arguments: address, number of jobs. Prints a line of JSON with the rates, and then one with a time for each line it is
// given, until there are no more: "in one process", or "in another process", which is this script again.
//
// Tuned as its documentation on performance says: jobs are fetched in batches into a local queue, completions
// are batched, the pool is larger than what runs at once. Several settings are tried and the best is kept.
import { fork } from "node:child_process";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";

const [url, text, setup] = process.argv.slice(2);
const count = Number(text);
const params = { page: 17, document: "a-document-of-some-length.pdf" };
const manifest = new URL("node_modules/graphile-worker/package.json", import.meta.url);
const { version } = JSON.parse(readFileSync(manifest));
const logger = new Logger(() => (level, message) => {
  if (level === "error") console.error(message);
});

const pool = new pg.Pool({ connectionString: url, max: 30 });
pool.on("error", (error) => console.error(error.message));
pool.on("connect", (client) => client.on("error", (error) => console.error(error.message)));
const utils = await makeWorkerUtils({ pgPool: pool, logger });
await utils.migrate();

const say = (text) => console.error(`  graphile-worker: ${text}`);

async function left() {
  const { rows } = await pool.query("SELECT count(*)::int AS n FROM graphile_worker._private_jobs");
  return rows[0].n;
}

async function fill() {
  const batches = [];
  for (let at = 0; at < count; at += 1000) {
    const size = Math.min(1000, count - at);
    batches.push(Array.from({ length: size }, () => ({ identifier: "noop", payload: params })));
  }
  const begin = performance.now();
  for (const batch of batches) await utils.addJobs(batch);
  return (count * 1000) / (performance.now() - begin);
}

function preset(setting) {
  return {
    worker: {
      concurrentJobs: setting.concurrency,
      maxPoolSize: 30,
      pollInterval: 1000,
      localQueue: setting.local > 0 ? { size: setting.local } : undefined,
      completeJobBatchDelay: setting.batch,
      failJobBatchDelay: setting.batch,
    },
  };
}

async function drain(setting) {
  let done = 0;
  let finish;
  const finished = new Promise((resolve) => (finish = resolve));
  const taskList = { noop: () => void (++done === count && finish()) };
  const begin = performance.now();
  const runner = await run({ pgPool: pool, logger, taskList, noHandleSignals: true, preset: preset(setting) });
  await finished;
  // Until every completion is stored; the batch that is still open is flushed after its delay.
  while ((await left()) > 0) await new Promise((resolve) => setTimeout(resolve, 2));
  const rate = (count * 1000) / (performance.now() - begin);
  await runner.stop();
  return rate;
}

// The clock that all processes of a machine share, in milliseconds.
const now = () => Number(process.hrtime.bigint()) / 1e6;

async function starting(setting, say) {
  const taskList = { noop: () => say(now()) };
  const runner = await run({ pgPool: pool, logger, taskList, noHandleSignals: true, preset: preset(setting) });
  await new Promise((resolve) => setTimeout(resolve, 500));
  return runner;
}

// Rounds before the first that counts: programs become quicker while they run. In one process those in which the settings
// are tried are as many.
const WARM = 4;

async function latency(heard) {
  const times = [];
  // Some settings start a job only when they look the next time: there is no need to wait for 300 of those.
  const until = now() + 6000;
  for (let n = 0; n < 300 && now() < until; n++) {
    const start = heard();
    const begin = now();
    await utils.addJob("noop", params);
    times.push((await start) - begin);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  return times.sort((a, b) => a - b)[Math.floor((times.length - 1) / 2)];
}

if (text === "run jobs") {
  process.on("disconnect", () => process.exit(0));
  await starting(JSON.parse(setup), (at) => process.send(at));
  process.send(0);
  await new Promise(() => {});
}

const settings = [
  { concurrency: 24, local: 500, batch: 0 },
  { concurrency: 100, local: 1000, batch: 0 },
  { concurrency: 100, local: 1000, batch: 5 },
];
let add = 0;
let best = 0;
let chosen = "";
for (const setting of settings) {
  add = Math.max(add, await fill());
  say(`${count} jobs added, ${Math.round(add)}/s at best; drain, ${JSON.stringify(setting)} …`);
  const rate = await drain(setting);
  say(`${Math.round(rate)}/s`);
  if (rate > best) {
    best = rate;
    chosen = `${setting.concurrency} at once, local queue ${setting.local}, completions batched ${setting.batch} ms`;
  }
}
console.log(JSON.stringify({ version, add, drain: best, chosen }));
let started;
const heard = () => new Promise((resolve) => (started = resolve));

async function inOneProcess(setting) {
  const runner = await starting(setting, (at) => started(at));
  const waits = await latency(heard);
  await runner.stop();
  return waits;
}

let quickest;
let other;
for await (const between of createInterface({ input: process.stdin })) {
  if (!quickest) {
    let waits = Infinity;
    for (const local of [-1, 500]) {
      for (const concurrency of [1, 10]) {
        say(`time to start, ${concurrency} at once, local queue ${local} …`);
        const setting = { concurrency, local, batch: -1 };
        const time = await inOneProcess(setting);
        if (time < waits) [waits, quickest] = [time, setting];
      }
    }
  }
  let waits;
  if (between === "in another process") {
    if (!other) {
      const begun = heard();
      other = fork(process.argv[1], [url, "run jobs", JSON.stringify(quickest)]);
      other.on("message", (at) => started(at));
      await begun;
      for (let round = 0; round < WARM; round++) await latency(heard);
    }
    waits = await latency(heard);
  } else {
    waits = await inOneProcess(quickest);
  }
  console.log(JSON.stringify({ latency: waits }));
}
other?.disconnect();
await utils.release();
await pool.end();
process.exit(0);
