// How numbers, spans and instants are written.
import { describe, expect, test } from 'vitest';
import { ago, brief, count, errorText, exact, gigabytes, parseSpan, plural, preview, shortId, span, typedSpan } from '../src/format';

test('counts are grouped and a missing one is a dash', () => {
  expect(count(1234567)).toBe('1,234,567');
  expect(count(null)).toBe('–');
});

test('brief numbers keep three digits at most', () => {
  expect([0, 7, 0.5, 950, 1000, 1234, 12345, 999_400, 1_000_000, 4_560_000, 2e9].map(brief)).toEqual(['0', '7', '0.5', '950', '1k', '1.23k', '12.3k', '999k', '1M', '4.56M', '2G']);
  expect(brief(10_000)).toBe('10k');
  expect(brief(100_000)).toBe('100k');
});

test('spans choose the unit that can be read', () => {
  expect([0, 0.0031, 0.25, 1, 1.23, 42, 60, 245, 3600, 12_000, 187_200].map(span)).toEqual(['0 s', '3.1 ms', '250 ms', '1.0 s', '1.2 s', '42 s', '1 min 00 s', '4 min 05 s', '1 h 00 min', '3 h 20 min', '2 d 4 h']);
  expect(span(null)).toBe('–');
  expect(span(59.97)).toBe('1 min 00 s');
});

test('relative times have one unit and know the future', () => {
  const now = 1_800_000_000_000;
  expect([0, 1_400, 12_000, 61_000, 7_200_000, 200_000_000].map((past) => ago(now - past, now))).toEqual(['now', 'now', '12 s ago', '1 min ago', '2 h ago', '2 d ago']);
  expect(ago(now + 300_000, now)).toBe('in 5 min');
});

test('the exact instant names its zone', () => {
  expect(exact(0)).toMatch(/^19(69|70)-\d\d-\d\d \d\d:\d\d:\d\d .+/);
});

test('ids are cut in the middle, short ones are not', () => {
  expect(shortId('0123456789abcdef0123456789abcdef')).toBe('0123…abcdef');
  expect(shortId('abc')).toBe('abc');
});

test('previews are one line and bounded', () => {
  expect(preview({ a: [1, 2] })).toBe('{"a":[1,2]}');
  expect(preview('x'.repeat(200), 10)).toBe('xxxxxxxxx…');
  expect(preview(null)).toBe('');
});

describe('spans as typed', () => {
  test.each([['90', 90], ['90s', 90], ['5m', 300], ['2 h', 7200], ['1d', 86400], ['250ms', 0.25]])('%s is %d s', (text, seconds) => expect(parseSpan(text)).toBe(seconds));
  test.each(['', 'x', '5 weeks', '-3s'])('"%s" is none', (text) => expect(parseSpan(text)).toBeNull());
  test.each([30, 60, 90, 3600, 5400, 86400])('%d s survives being typed', (seconds) => expect(parseSpan(typedSpan(seconds))).toBe(seconds));
});

test('an error that is a word of the API is written in words, any other is left alone', () => {
  expect(errorText('prerequisite_failed')).toBe('prerequisite failed');
  expect(errorText('no such file: a_b')).toBe('no such file: a_b');
});

test('words agree with their number', () => {
  expect([plural(1, 'job'), plural(2, 'job'), plural(0, 'match', 'matches')]).toEqual(['1 job', '2 jobs', '0 matches']);
  expect([gigabytes(3.21), gigabytes(31.7), gigabytes(2048)]).toEqual(['3.2 GB', '32 GB', '2.0 TB']);
});
