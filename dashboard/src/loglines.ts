// Owns turning pieces of output into lines to show, and how many are kept. Pure.
import type { Log } from './types';

export interface ShownLine { key: string; attempt: number; stream: string; at: number; text: string }
export interface Shown { lines: ShownLine[]; dropped: number }

export const MOST_LINES = 2000;

// Colours and cursor movements that programs write for a terminal mean nothing here.
const ESCAPES = /\u001b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\u0007]*(?:\u0007|\u001b\\))/g;

function split(log: Log): ShownLine[] {
  const text = log.text.replace(ESCAPES, '').replace(/\r?\n$/, '');
  return text.split(/\r?\n/).map((line, index) => ({ key: `${log.n}.${index}`, attempt: log.attempt, stream: log.stream, at: log.at, text: line.slice(line.lastIndexOf('\r') + 1) }));
}

export function addLines(shown: Shown, logs: Log[]): Shown {
  const lines = [...shown.lines, ...logs.flatMap(split)];
  const over = Math.max(0, lines.length - MOST_LINES);
  return { lines: over ? lines.slice(over) : lines, dropped: shown.dropped + over };
}
