// What a person types about a new job.
import { expect, test } from 'vitest';
import { EMPTY_FORM, formLike, readForm, readJson } from '../src/newjob';
import { aJob } from './samples';

test('an empty form lacks only its type', () => {
  const { job, wrong } = readForm(EMPTY_FORM, 0);
  expect(Object.keys(wrong)).toEqual(['type']);
  expect(job).toEqual({ type: '', params: {} });
});

test('everything is read into the shape of the hub', () => {
  const id = '0123456789abcdef0123456789abcdef';
  const { job, wrong } = readForm({ ...EMPTY_FORM, type: ' resize ', params: '{"w": 3}', priority: '-2', labels: 'a, b', depends_on: id, services: 'images gpu:2', max_attempts: '4', max_runtime: '5m', delay: '30s', group: 'g' }, 1000);
  expect(wrong).toEqual({});
  expect(job).toEqual({ type: 'resize', params: { w: 3 }, priority: -2, labels: ['a', 'b'], depends_on: [id], services: [{ service: 'images', units: 1 }, { service: 'gpu', units: 2 }], max_attempts: 4, max_runtime_ms: 300_000, run_at: 31_000, group: 'g' });
});

test('each wrong field is named', () => {
  const { wrong } = readForm({ ...EMPTY_FORM, type: 't', params: '{', priority: 'high', depends_on: 'nope', services: 'a:0', max_attempts: '0', max_runtime: 'long', delay: '-1s' }, 0);
  expect(Object.keys(wrong).sort()).toEqual(['delay', 'depends_on', 'max_attempts', 'max_runtime', 'params', 'priority', 'services']);
});

test('names of services may have any letters', () => {
  expect(readForm({ ...EMPTY_FORM, type: 't', services: 'proxy matrix:3' }, 0).job.services).toEqual([{ service: 'proxy', units: 1 }, { service: 'matrix', units: 3 }]);
});

test('a form like a job submits that job again, but for what makes it the same', () => {
  const like = aJob({ type: 'resize', params: { w: 3 }, priority: 2, group: 'g', labels: ['a'], services: [{ service: 's', units: 2 }], idempotency_key: 'once', max_runtime_ms: 90_000, depends_on: ['x'] });
  const { job, wrong } = readForm(formLike(like), 0);
  expect(wrong).toEqual({});
  expect(job).toEqual({ type: 'resize', params: { w: 3 }, priority: 2, group: 'g', labels: ['a'], services: [{ service: 's', units: 2 }], max_attempts: 3, max_runtime_ms: 90_000 });
});

test('parameters may be any JSON, or nothing', () => {
  expect(readJson('')).toEqual({ value: null, wrong: null });
  expect(readJson('[1]').value).toEqual([1]);
  expect(readJson('{').wrong).toMatch(/^Not JSON/);
});
