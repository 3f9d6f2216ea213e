// The layout of the dependency graph, sparklines and lines of output.
import { describe, expect, test } from 'vitest';
import { BOX, layOut } from '../src/graph';
import type { GraphJob } from '../src/graph';
import { addLines, MOST_LINES } from '../src/loglines';
import { sparkPath } from '../src/spark';
import type { Log } from '../src/types';

const relative = (id: string) => ({ id, type: `task ${id}`, state: 'queued' as const });
const job = (id: string, before: string[], after: string[]): GraphJob => ({ ...relative(id), prerequisites: before.map(relative), dependents: after.map(relative) });
const known = (...jobs: GraphJob[]) => new Map(jobs.map((one) => [one.id, one]));

describe('the graph', () => {
  test('puts prerequisites left and dependents right of the job', () => {
    const drawing = layOut('m', known(job('m', ['a', 'b'], ['z'])));
    const x = Object.fromEntries(drawing.nodes.map((node) => [node.id, node.x]));
    expect(x['a']).toBe(x['b']);
    expect(x['a']!).toBeLessThan(x['m']!);
    expect(x['m']!).toBeLessThan(x['z']!);
    expect(drawing.edges.map(({ from, to }) => `${from}${to}`).sort()).toEqual(['am', 'bm', 'mz']);
  });

  test('gives a job that is both near and far the far column, so that no edge points back', () => {
    const drawing = layOut('m', known(job('m', ['a', 'b'], []), job('a', ['b'], ['m'])));
    const x = Object.fromEntries(drawing.nodes.map((node) => [node.id, node.x]));
    expect(x['b']!).toBeLessThan(x['a']!);
    expect(drawing.edges).toHaveLength(3);
  });

  test('draws each edge once, though both ends know of it', () => {
    expect(layOut('m', known(job('m', ['a'], []), job('a', [], ['m']))).edges).toHaveLength(1);
  });

  test('is bounded and says what it left out', () => {
    const drawing = layOut('m', known(job('m', Array.from({ length: 100 }, (_, n) => `p${n}`), [])));
    expect(drawing.nodes).toHaveLength(13);
    expect(drawing.hidden).toBe(88);
  });

  test('boxes do not overlap and stand inside', () => {
    const { nodes, width, height } = layOut('m', known(job('m', ['a', 'b', 'c'], ['x', 'y'])));
    for (const node of nodes) {
      expect(node.x).toBeGreaterThanOrEqual(0);
      expect(node.x + BOX.width).toBeLessThanOrEqual(width);
      expect(node.y).toBeGreaterThanOrEqual(0);
      expect(node.y + 44).toBeLessThanOrEqual(height);
      for (const other of nodes) if (other.id !== node.id && other.x === node.x) expect(Math.abs(other.y - node.y)).toBeGreaterThanOrEqual(44);
    }
  });
});

test('a sparkline spans its box and leaves out what is missing', () => {
  expect(sparkPath([null, 3], 10)).toBe('');
  expect(sparkPath([0, null, 5, 10], 10)).toBe('M0 29L50 15L100 1');
  expect(sparkPath([0, 500], 10)).toBe('M0 29L100 1');
});

describe('output', () => {
  const log = (n: number, text: string, attempt = 1): Log => ({ n, job: 'a', attempt, stream: 'stdout', at: n, text });

  test('is split into lines, without what is meant for a terminal', () => {
    const { lines } = addLines({ lines: [], dropped: 0 }, [log(1, 'one\ntwo\n'), log(2, '\u001b[31mred\u001b[0m\r\n'), log(3, '10 %\r20 %\r30 %')]);
    expect(lines.map((line) => line.text)).toEqual(['one', 'two', 'red', '30 %']);
    expect(new Set(lines.map((line) => line.key)).size).toBe(4);
  });

  test('is bounded, the latest stay', () => {
    let shown = { lines: [], dropped: 0 } as ReturnType<typeof addLines>;
    for (let n = 0; n < 3; n++) shown = addLines(shown, Array.from({ length: 1000 }, (_, i) => log(n * 1000 + i, `line ${n * 1000 + i}\n`)));
    expect(shown.lines).toHaveLength(MOST_LINES);
    expect(shown.lines.at(-1)!.text).toBe('line 2999');
    expect(shown.dropped).toBe(1000);
  });
});
