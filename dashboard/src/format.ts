// Owns how numbers, spans, instants and ids are written. Pure: the present instant is passed in.
import type { Json } from './types';

const grouped = new Intl.NumberFormat('en-US');
const exactForm = new Intl.DateTimeFormat('en-CA', { year: 'numeric', month: '2-digit', day: '2-digit', hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23', timeZoneName: 'short' });

export function count(value: number | null | undefined): string {
  return value == null ? '–' : grouped.format(value);
}

/** Short enough for a tile or an axis: 950, 12.3k, 4.56M. */
export function brief(value: number): string {
  const size = Math.abs(value);
  if (size < 1000) return Number.isInteger(value) ? String(value) : value.toFixed(size < 10 ? 1 : 0);
  if (size < 1e6) return trimmed(value / 1e3) + 'k';
  if (size < 1e9) return trimmed(value / 1e6) + 'M';
  return trimmed(value / 1e9) + 'G';
}

function trimmed(value: number): string {
  const digits = Math.abs(value) < 10 ? 2 : Math.abs(value) < 100 ? 1 : 0;
  return String(Number(value.toFixed(digits)));
}

/** A span of seconds: 3 ms, 1.2 s, 4 min 05 s, 3 h 20 min, 2 d 4 h. */
export function span(seconds: number | null | undefined): string {
  if (seconds == null || !Number.isFinite(seconds)) return '–';
  const s = Math.abs(seconds);
  const sign = seconds < 0 ? '−' : '';
  if (s === 0) return '0 s';
  if (s < 0.9995) return `${sign}${s < 0.0095 ? trimmed(s * 1000) : Math.round(s * 1000)} ms`;
  if (s < 59.95) return `${sign}${s < 9.95 ? s.toFixed(1) : Math.round(s)} s`;
  const whole = Math.round(s);
  if (whole < 3600) return `${sign}${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, '0')} s`;
  if (whole < 86400) return `${sign}${Math.floor(whole / 3600)} h ${String(Math.floor((whole % 3600) / 60)).padStart(2, '0')} min`;
  return `${sign}${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

/** Where an instant lies from now: "now", "12 s ago", "in 5 min". One unit only, so that columns stay calm. */
export function ago(at: number, now: number): string {
  const seconds = Math.round((now - at) / 1000);
  const size = Math.abs(seconds);
  if (size < 2) return 'now';
  const text = size < 60 ? `${size} s` : size < 3600 ? `${Math.floor(size / 60)} min` : size < 86400 ? `${Math.floor(size / 3600)} h` : `${Math.floor(size / 86400)} d`;
  return seconds > 0 ? `${text} ago` : `in ${text}`;
}

export function exact(at: number): string {
  return exactForm.format(at).replace(',', '');
}

export function shortId(id: string): string {
  return id.length > 12 ? `${id.slice(0, 4)}…${id.slice(-6)}` : id;
}

export function gigabytes(value: number | null | undefined): string {
  if (value == null) return '–';
  return value >= 1000 ? `${(value / 1000).toFixed(1)} TB` : `${value < 10 ? value.toFixed(1) : Math.round(value)} GB`;
}

export function percent(value: number | null | undefined): string {
  return value == null ? '–' : `${Math.round(value)} %`;
}

/** A JSON value on one line, cut off. */
export function preview(value: Json | undefined, length = 96): string {
  if (value == null) return '';
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}

/** What a word of the API says to a person: circuit_open → circuit open. */
export function words(name: string): string {
  return name.replaceAll('_', ' ');
}

/** An error as people read it: a bare word of the API in words, anything else as it is. */
export function errorText(reason: string): string {
  return /^[a-z]+(_[a-z]+)+$/.test(reason) ? words(reason) : reason;
}

export function plural(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** "90", "90s", "5m", "2h", "1d" in seconds; null for what is none of these. */
export function parseSpan(text: string): number | null {
  const found = /^\s*(\d+(?:\.\d+)?)\s*(ms|s|m|min|h|d)?\s*$/.exec(text);
  if (!found) return null;
  const unit = { ms: 0.001, s: 1, m: 60, min: 60, h: 3600, d: 86400 }[found[2] ?? 's'] ?? 1;
  return Number(found[1]) * unit;
}

/** A span as it would be typed: the inverse of parseSpan for whole units. */
export function typedSpan(seconds: number | null | undefined): string {
  if (seconds == null) return '';
  for (const [unit, size] of [['d', 86400], ['h', 3600], ['m', 60]] as const) if (seconds >= size && seconds % size === 0) return `${seconds / size}${unit}`;
  return `${seconds}s`;
}
