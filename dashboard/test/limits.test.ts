// What a person types about the limits of a service.
import { expect, test } from 'vitest';
import { formOf, perKeyWords, readLimits, windowWords } from '../src/limits';
import type { Service } from '../src/types';

const service: Service = { name: 'api', status: 'ok', status_until: null, in_use: 0, max_concurrent: 4, rates: [{ rate_limit: 120, rate_window: 60, used: 3 }], per_key: null, circuit_threshold: 5, circuit_timeout: 30, circuit_failures: 0, probe: null, paused: false };

test('a form that nobody touched says what holds already', () => {
  const { limits, valid } = readLimits(formOf(service));
  expect(valid).toBe(true);
  expect(limits).toEqual({ max_concurrent: 4, rates: [{ rate_limit: 120, rate_window: 60 }], per_key: null, circuit_threshold: 5, circuit_timeout: 30 });
});

test('limits per key are kept when nobody touches them, and lifted when emptied', () => {
  const per_key = { max_concurrent: 2, rates: [{ rate_limit: 5, rate_window: 60 }] };
  const form = formOf({ ...service, per_key });
  expect(form).toMatchObject({ keyMost: '2', keyRates: [{ limit: '5', window: '1m' }] });
  expect(readLimits(form).limits.per_key).toEqual(per_key);
  expect(readLimits({ ...form, keyMost: '' }).limits.per_key).toEqual({ ...per_key, max_concurrent: null });
  expect(readLimits({ ...form, keyMost: '', keyRates: [] }).limits.per_key).toBeNull();
});

test('empty fields lift limits', () => {
  const { limits, valid } = readLimits({ ...formOf(service), most: ' ', rates: [], threshold: '', timeout: '' });
  expect(valid).toBe(true);
  expect(limits).toEqual({ max_concurrent: null, rates: [], per_key: null, circuit_threshold: null });
});

test('each wrong field is named, and only those', () => {
  const { wrong, valid } = readLimits({ name: '', most: '0', rates: [{ limit: '5', window: '1m' }, { limit: 'x', window: '1m' }, { limit: '5', window: '0s' }], keyMost: '-1', keyRates: [{ limit: '1', window: '' }], threshold: '1.5', timeout: 'soon' });
  expect(valid).toBe(false);
  expect(Object.keys(wrong).sort()).toEqual(['keyMost', 'keyRates', 'most', 'name', 'rates', 'threshold', 'timeout']);
  expect(wrong.keyRates[0]).not.toBeNull();
  expect(wrong.rates.map((one) => one === null)).toEqual([true, false, false]);
});

test('one wrong rate is enough to be refused', () => {
  expect(readLimits({ ...formOf(service), rates: [{ limit: '', window: '1m' }] }).valid).toBe(false);
  expect(readLimits({ ...formOf(service), keyRates: [{ limit: '1', window: 'x' }] }).valid).toBe(false);
});

test('windows and limits per key are written in words', () => {
  expect([1, 30, 60, 90, 3600, 5400].map(windowWords)).toEqual(['1 s', '30 s', '1 min', '1 min 30 s', '1 h', '1 h 30 min']);
  expect(perKeyWords({ max_concurrent: 1, rates: [{ rate_limit: 5, rate_window: 60 }] })).toBe('Each key: at most 1 job at once, 5 in 1 min.');
  expect(perKeyWords(null)).toBe('');
});
