// BullMQ on a Redis server: bulk add, drain of a task that does nothing, time from add to start.
// Arguments: address, number of jobs. Prints a line of JSON with the rates, and then one with a time for each line it is
// given, until there are no more: "in one process", or "in another process", which is this script again.
//
// Tuned as its documentation says: addBulk, a high concurrency, completed jobs removed at once. Several settings
// are tried and the best is kept.
import { fork } from "node:child_process";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { Queue, Worker } from "bullmq";
import Redis from "ioredis";

const [url, text] = process.argv.slice(2);
const count = Number(text);
const params = { page: 17, document: "a-document-of-some-length.pdf" };
const manifest = new URL("node_modules/bullmq/package.json", import.meta.url);
const { version } = JSON.parse(readFileSync(manifest));
const connect = () => new Redis(url, { maxRetriesPerRequest: null });
const opts = { removeOnComplete: true, removeOnFail: true };

const say = (text) => console.error(`  bullmq: ${text}`);

async function fill(queue) {
  const batches = [];
  for (let at = 0; at < count; at += 1000) {
    const size = Math.min(1000, count - at);
    batches.push(Array.from({ length: size }, () => ({ name: "noop", data: params, opts })));
  }
  const begin = performance.now();
  for (const batch of batches) await queue.addBulk(batch);
  return (count * 1000) / (performance.now() - begin);
}

async function drain(queue, setting) {
  let done = 0;
  let finish;
  const finished = new Promise((resolve) => (finish = resolve));
  const begin = performance.now();
  const workers = Array.from({ length: setting.workers }, () => {
    const worker = new Worker(queue.name, async () => {}, {
      connection: connect(),
      concurrency: setting.concurrency,
      ...opts,
      removeOnComplete: { count: 0 },
    });
    worker.on("completed", () => void (++done === count && finish()));
    return worker;
  });
  await finished;
  const rate = (count * 1000) / (performance.now() - begin);
  await Promise.all(workers.map((worker) => worker.close()));
  return rate;
}

// The clock that all processes of a machine share, in milliseconds.
const now = () => Number(process.hrtime.bigint()) / 1e6;

async function starting(name, say) {
  const worker = new Worker(name, async () => say(now()), {
    connection: connect(),
    concurrency: 8,
    removeOnComplete: { count: 0 },
  });
  await worker.waitUntilReady();
  await new Promise((resolve) => setTimeout(resolve, 500));
  return worker;
}

// Rounds before the first that counts: programs become quicker while they run.
const WARM = 4;

async function latency(queue, heard) {
  const times = [];
  for (let n = 0; n < 300; n++) {
    const start = heard();
    const begin = now();
    await queue.add("noop", params, opts);
    times.push((await start) - begin);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  return times.sort((a, b) => a - b)[Math.floor((times.length - 1) / 2)];
}

if (text === "run jobs") {
  process.on("disconnect", () => process.exit(0));
  await starting("bench-another", (at) => process.send(at));
  process.send(0);
  await new Promise(() => {});
}

const settings = [
  { workers: 1, concurrency: 100 },
  { workers: 1, concurrency: 300 },
  { workers: 2, concurrency: 200 },
];
let add = 0;
let best = 0;
let chosen = "";
for (const [place, setting] of settings.entries()) {
  const queue = new Queue(`bench-${place}`, { connection: connect() });
  add = Math.max(add, await fill(queue));
  say(`${count} jobs added, ${Math.round(add)}/s at best; drain, ${JSON.stringify(setting)} …`);
  const rate = await drain(queue, setting);
  say(`${Math.round(rate)}/s`);
  if (rate > best) {
    best = rate;
    chosen = `${setting.workers} worker, ${setting.concurrency} at once`;
  }
  await queue.close();
}
console.log(JSON.stringify({ version, add, drain: best, chosen }));
let started;
const heard = () => new Promise((resolve) => (started = resolve));
let other;
const warm = new Set();
for await (const between of createInterface({ input: process.stdin })) {
  const apart = between === "in another process";
  const queue = new Queue(apart ? "bench-another" : "bench-one", { connection: connect() });
  let worker;
  if (!apart) {
    worker = await starting(queue.name, (at) => started(at));
  } else if (!other) {
    const begun = heard();
    other = fork(process.argv[1], [url, "run jobs"]);
    other.on("message", (at) => started(at));
    await begun;
  }
  for (let round = 0; round < WARM && !warm.has(between); round++) await latency(queue, heard);
  warm.add(between);
  const waits = await latency(queue, heard);
  await worker?.close();
  await queue.close();
  console.log(JSON.stringify({ latency: waits }));
}
other?.disconnect();
process.exit(0);
