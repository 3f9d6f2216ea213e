// Every page, in light, in dark and at the width of a phone: it shows what it is for, nothing complains, and axe finds nothing serious.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Hub } from './hub';
import { closeBrowser, findings, openBrowser, overhang, visit } from './visitor';

let hub: Hub;
const ids: Record<string, string> = {};

beforeAll(async () => {
  await openBrowser();
  hub = await Hub.start();
  await furnish();
});
afterAll(async () => {
  await closeBrowser();
  await hub?.stop();
});

async function furnish(): Promise<void> {
  await hub.call('PUT', '/api/services/images', { max_concurrent: 4, rates: [{ rate_limit: 120, rate_window: 60 }], circuit_threshold: 5, circuit_timeout: 30 });
  await hub.call('PUT', '/api/services/archive', { max_concurrent: 1, paused: true });
  await hub.call('PUT', '/api/schedules/nightly', { cron: '0 3 * * *', zone: 'UTC', job: { type: 'report', params: {} } });
  const worker = hub.worker('atlas');
  ids['first'] = (await hub.submit({ type: 'fetch', target: 'moon', group: 'night', params: { url: 'https://example.org' } })).id;
  ids['waiting'] = (await hub.submit({ type: 'embed', depends_on: [ids['first']], services: [{ service: 'images', units: 1 }] })).id;
  await hub.submit({ type: 'report', depends_on: [ids['waiting']] });
  ids['done'] = (await hub.submit({ type: 'count', params: { n: 1 } })).id;
  await worker.begin('count');
  await worker.log(ids['done'], 'one\ntwo\n');
  await worker.complete(ids['done'], { rows: 3 });
  ids['bad'] = (await hub.submit({ type: 'break', max_attempts: 1 })).id;
  await worker.begin('break');
  await worker.fail(ids['bad'], 'connection reset by peer');
  ids['running'] = (await hub.submit({ type: 'long' })).id;
  await worker.begin('long');
  await worker.beat(ids['running'], { percent: 40, message: 'step 2 of 5' });
  await hub.call('POST', '/api/ingest/atlas', { name: 'atlas', cpu: 40, mem_used_gb: 3, mem_total_gb: 8, load1: 0.5, disk_used_gb: 10, disk_total_gb: 100, uptime: 5000 });
  await hub.call('POST', '/api/ingest/atlas', { name: 'atlas', cpu: 60, mem_used_gb: 4, mem_total_gb: 8, load1: 0.7, disk_used_gb: 10, disk_total_gb: 100, uptime: 5001 });
  await hub.call('POST', '/api/groups/night/pause', {});
}

/** The address of each page and a text that stands on it when it is there. */
const PAGES: Record<string, () => [path: string, text: string]> = {
  overview: () => ['', 'Worth a look'],
  jobs: () => ['jobs', 'moon'],
  'jobs without a match': () => ['jobs?type=nothing-like-it', 'No job matches'],
  'a job that waits': () => [`jobs/${ids['waiting']}`, 'Why it waits'],
  'a job that runs': () => [`jobs/${ids['running']}`, 'step 2 of 5'],
  'a job that is done': () => [`jobs/${ids['done']}`, 'two'],
  'a job that broke': () => [`jobs/${ids['bad']}`, 'Set aside (quarantined)'],
  'a job that is not there': () => ['jobs/0123456789abcdef0123456789abcdef', 'there is no job'],
  'new job': () => ['new', 'Parameters'],
  quarantine: () => ['quarantine', 'connection reset by peer'],
  groups: () => ['groups', 'night'],
  services: () => ['services', 'archive'],
  schedules: () => ['schedules', '0 3 * * *'],
  fleet: () => ['fleet', 'atlas'],
  tokens: () => ['tokens', 'No tokens yet'],
  'a page that is not there': () => ['nowhere', 'There is no such page'],
};

const PHONE = { width: 360, height: 740 };

describe('a page', () => {
  for (const [name, where] of Object.entries(PAGES)) {
    test(`${name}: shown, nothing complains, no serious findings in light and dark, fits a phone`, async () => {
      const [path, text] = where();
      const visitor = await visit(hub.url, path, { colorScheme: 'light' });
      const { page } = visitor;
      await page.getByText(text).first().waitFor();
      expect(await findings(page), 'in light').toEqual([]);
      expect(await overhang(page), 'wider than its window').toBeLessThanOrEqual(0);
      await page.emulateMedia({ colorScheme: 'dark' });
      expect(await findings(page), 'in dark').toEqual([]);
      await page.setViewportSize(PHONE);
      expect(await overhang(page), 'wider than a phone').toBeLessThanOrEqual(0);
      await page.getByText(text).first().waitFor();
      const expected = name === 'a job that is not there' ? /404/ : /^$/;
      expect(visitor.complaints.filter((one) => !expected.test(one))).toEqual([]);
      expect(visitor.requests.filter((url) => !url.startsWith(hub.url)), 'asks nobody else').toEqual([]);
      await visitor.leave();
    });
  }
});

describe('dialogs and the menu', () => {
  const opened: Record<string, [path: string, button: string]> = {
    'edit a service': ['services', 'Edit images'], 'new service': ['services', 'New service'], 'new schedule': ['schedules', 'New schedule'], 'new token': ['tokens', 'New token'],
    'cancel all': ['jobs', 'Cancel all…'], 'keys': ['', 'Keys'], 'edit a queue': ['groups', 'Edit queue default'],
  };
  for (const [name, [path, button]] of Object.entries(opened)) {
    test(`${name}: no serious findings in light and dark, and Escape closes it`, async () => {
      const { page, leave } = await visit(hub.url, path, { colorScheme: 'light' });
      await page.getByRole('button', { name: button, exact: true }).click();
      await page.getByRole('dialog').waitFor();
      expect(await findings(page), 'in light').toEqual([]);
      await page.emulateMedia({ colorScheme: 'dark' });
      expect(await findings(page), 'in dark').toEqual([]);
      await page.keyboard.press('Escape');
      await page.getByRole('dialog').waitFor({ state: 'detached' });
      await leave();
    });
  }

  test('the menu of a phone opens, leads somewhere and closes', async () => {
    const { page, leave } = await visit(hub.url, '', { viewport: PHONE, hasTouch: true });
    await page.getByRole('button', { name: 'Menu' }).click();
    expect(await findings(page)).toEqual([]);
    await page.getByRole('link', { name: 'Services' }).click();
    await page.getByRole('heading', { name: 'Services', exact: true }).waitFor();
    await expect.poll(() => page.getByRole('link', { name: 'Services' }).isVisible()).toBe(false);
    await leave();
  });
});

test('the switch turns dark into light and is remembered', async () => {
  const { page, leave } = await visit(hub.url, '', { colorScheme: 'dark' });
  const colour = (): Promise<string> => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await page.getByRole('button', { name: 'Light colours' }).waitFor();
  const dark = await colour();
  await page.getByRole('button', { name: 'Light colours' }).click();
  const light = await colour();
  expect(light).not.toBe(dark);
  await page.reload();
  await page.getByRole('button', { name: 'Dark colours' }).waitFor();
  expect(await colour()).toBe(light);
  await leave();
});

test('the page has no inline code and obeys a policy of its own origin only', async () => {
  const answer = await fetch(`${hub.url}/`);
  expect(answer.headers.get('content-security-policy')).toContain("default-src 'self'");
  const html = await answer.text();
  expect(html).not.toMatch(/<style|style=|<script(?![^>]* src=)|\son\w+=/);
});
