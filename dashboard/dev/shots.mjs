// Takes screenshots of every page, light, dark and on a phone, for a person to look at. Run: node dev/shots.mjs [URL] [--seconds 20]
// Without URL it starts a fake hub. The pictures are in shots/.
import { spawn } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { launch } from './chromium.mjs';
import { client, live } from './life.mjs';

const { values, positionals } = parseArgs({ allowPositionals: true, options: { seconds: { type: 'string', default: '20' }, only: { type: 'string' } } });
const wait = (ms) => new Promise((done) => setTimeout(done, ms));
const folder = fileURLToPath(new URL('../shots/', import.meta.url));
mkdirSync(folder, { recursive: true });

let base = positionals[0], fake;
if (!base) {
  fake = spawn(process.execPath, [fileURLToPath(new URL('hub.mjs', import.meta.url)), '--port', '7881'], { stdio: 'ignore' });
  base = 'http://127.0.0.1:7881';
  await wait(600);
}
let running = true;
const call = client(base);
const life = live(base, { perSecond: 6, running: () => running }).catch((error) => console.error(error.message));
await wait(Number(values.seconds) * 1000);

const jobs = await call('GET', '/api/jobs?limit=500');
const find = (test) => jobs.find(test)?.id;
const pages = {
  overview: '', jobs: 'jobs', 'jobs-failed': 'jobs?state=failed,quarantined', 'jobs-none': 'jobs?q=nothing-like-this', new: 'new', quarantine: 'quarantine', groups: 'groups', services: 'services', schedules: 'schedules', fleet: 'fleet', tokens: 'tokens',
  'job-waiting': `jobs/${find((job) => job.type === 'embed' && job.depends_on?.length)}`, 'job-running': `jobs/${find((job) => job.state === 'running')}`,
  'job-done': `jobs/${find((job) => job.state === 'completed')}`, 'job-bad': `jobs/${find((job) => job.state === 'quarantined') ?? find((job) => job.state === 'failed')}`, missing: 'jobs/0123456789abcdef0123456789abcdef',
};
const looks = { light: { viewport: { width: 1360, height: 860 }, colorScheme: 'light' }, dark: { viewport: { width: 1360, height: 860 }, colorScheme: 'dark' }, phone: { viewport: { width: 360, height: 1100 }, colorScheme: 'light', hasTouch: true } };
const browser = await launch();
for (const [look, options] of Object.entries(looks)) {
  const page = await (await browser.newContext(options)).newPage();
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && console.log(look, message.text()));
  page.on('pageerror', (error) => console.log(look, error.message));
  for (const [name, path] of Object.entries(pages)) {
    if (values.only && !values.only.split(',').includes(name)) continue;
    await page.goto(`${base}/#/${path}`);
    await wait(1100);
    await page.screenshot({ path: `${folder}${name}-${look}.png`, fullPage: false });
  }
}
await browser.close();
running = false;
await Promise.race([life, wait(3000)]);
fake?.kill();
process.exit(0);
