// The filter in the address, in requests and in bulk actions; paging and merging of pages.
import { describe, expect, test } from 'vitest';
import { bulkFilter, concerns, describe as inWords, isEmpty, NO_FILTER, readFilter, toggleState, writeFilter } from '../src/filter';
import { merge, newer, pageNumber, walk } from '../src/paging';
import { href, parseHash } from '../src/router';

describe('a filter', () => {
  test('survives the address', () => {
    const filter = { ...NO_FILTER, states: ['queued' as const, 'failed' as const], group: 'a b&c', q: 'x=1' };
    expect(readFilter(parseHash(href(['jobs'], writeFilter(filter))).query)).toEqual(filter);
  });

  test('ignores states that do not exist', () => {
    expect(readFilter(new URLSearchParams('state=failed,painted')).states).toEqual(['failed']);
  });

  test('keeps states in the order of life, however they were chosen', () => {
    const filter = toggleState(toggleState(NO_FILTER, 'failed'), 'queued');
    expect(filter.states).toEqual(['queued', 'failed']);
    expect(toggleState(filter, 'failed').states).toEqual(['queued']);
  });

  test('with a search text is none for a bulk action', () => {
    expect(bulkFilter({ ...NO_FILTER, q: 'x' })).toBeNull();
    expect(bulkFilter({ ...NO_FILTER, states: ['failed', 'quarantined'], type: ' resize ' })).toEqual({ state: 'failed,quarantined', type: 'resize' });
    expect(bulkFilter(NO_FILTER)).toEqual({});
  });

  test('says what it is', () => {
    expect(isEmpty({ ...NO_FILTER, type: '  ' })).toBe(true);
    expect(inWords({ ...NO_FILTER, states: ['failed', 'quarantined'], group: 'g,h', q: 'moon' })).toBe('state failed or quarantined, group g,h, text “moon”');
  });

  test('is concerned by events that it cannot rule out', () => {
    const filter = { ...NO_FILTER, type: 'resize', group: 'g' };
    const event = { seq: 1, type: 'work_queued', at: 0, job: 'a' };
    expect(concerns(filter, { ...event, task: 'resize', group: 'g' })).toBe(true);
    expect(concerns(filter, { ...event, task: 'resize' })).toBe(true);
    expect(concerns(filter, { ...event, task: 'fetch' })).toBe(false);
    expect(concerns(NO_FILTER, { seq: 1, type: 'service_status', at: 0 })).toBe(false);
  });
});

describe('pages', () => {
  test('are walked forwards and back', () => {
    let trail = walk([], null);
    trail = walk(trail, 'p2');
    trail = walk(trail, 'p3');
    expect([pageNumber(trail), newer(trail)]).toEqual([3, 'p2']);
    trail = walk(trail, 'p2');
    expect([pageNumber(trail), newer(trail)]).toEqual([2, null]);
    expect(walk(trail, null)).toEqual([]);
  });

  test('drawn twice stay the same page', () => {
    const trail = walk(walk([], 'p2'), 'p2');
    expect(pageNumber(trail)).toBe(2);
  });

  const row = (id: string, n = 0) => ({ id, n });

  test('fetched again replace what is shown', () => {
    expect(merge([row('a')], [row('b'), row('a')], false)).toEqual({ rows: [row('b'), row('a')], fresh: 0 });
  });

  test('fetched while somebody reads change rows in place and count the new ones', () => {
    expect(merge([row('b'), row('a')], [row('d', 1), row('c', 1), row('b', 1)], true)).toEqual({ rows: [row('b', 1), row('a')], fresh: 2 });
  });

  test('with nothing in sight are shown even if somebody holds the mouse there', () => {
    expect(merge([], [row('a')], true)).toEqual({ rows: [row('a')], fresh: 0 });
  });
});

test('addresses with strange letters come back', () => {
  const route = parseHash(href(['jobs', 'a/b?c#d'], { q: 'ä ö' }));
  expect(route.path).toEqual(['jobs', 'a/b?c#d']);
  expect(route.query.get('q')).toBe('ä ö');
  expect(parseHash('#/%zz').path).toEqual(['%zz']);
  expect(parseHash('').path).toEqual([]);
});
