// Owns what a person typed about the limits of a service: how it is read, what is wrong with it; and limits in words. Pure.
import type { Limits } from './api';
import { count, parseSpan, plural, span, typedSpan } from './format';
import type { Json, Rate, Service } from './types';

export interface RateForm { limit: string; window: string }
export interface LimitsForm { name: string; most: string; rates: RateForm[]; keyMost: string; keyRates: RateForm[]; threshold: string; timeout: string }
export interface WrongLimits { name?: string; most?: string; rates: (string | null)[]; keyMost?: string; keyRates: (string | null)[]; threshold?: string; timeout?: string }

const WHOLE = /^[1-9]\d*$/;
const numberOf = (text: string): number | null => (text.trim() === '' ? null : Number(text));

const rateForm = (rate: Rate): RateForm => ({ limit: String(rate.rate_limit), window: typedSpan(rate.rate_window) });
const rateOf = (rate: RateForm): Rate => ({ rate_limit: Number(rate.limit), rate_window: parseSpan(rate.window) ?? 0 });
const wrongRate = (rate: RateForm): string | null => (WHOLE.test(rate.limit.trim()) && (parseSpan(rate.window) ?? 0) > 0 ? null : 'So many, in a window such as 60s, 5m or 1h.');

export function formOf(service: Service | null): LimitsForm {
  const perKey = perKeyOf(service?.per_key ?? null);
  return {
    name: service?.name ?? '',
    most: service?.max_concurrent?.toString() ?? '',
    rates: (service?.rates ?? []).map(rateForm),
    keyMost: perKey.most?.toString() ?? '',
    keyRates: perKey.rates.map(rateForm),
    threshold: service?.circuit_threshold?.toString() ?? '',
    timeout: typedSpan(service?.circuit_timeout),
  };
}

export function readLimits(form: LimitsForm): { limits: Limits; wrong: WrongLimits; valid: boolean } {
  const wholeOrNone = (text: string): boolean => text.trim() === '' || WHOLE.test(text.trim());
  const wrong: WrongLimits = { rates: form.rates.map(wrongRate), keyRates: form.keyRates.map(wrongRate) };
  if (form.name.trim() === '') wrong.name = 'A service needs a name.';
  if (!wholeOrNone(form.most)) wrong.most = 'A whole number from 1, or empty for no limit.';
  if (!wholeOrNone(form.keyMost)) wrong.keyMost = 'A whole number from 1, or empty for no limit.';
  if (!wholeOrNone(form.threshold)) wrong.threshold = 'A whole number from 1, or empty for no breaker.';
  if (form.timeout.trim() !== '' && !((parseSpan(form.timeout) ?? 0) > 0)) wrong.timeout = 'A span such as 30s or 5m.';
  const limits: Limits = {
    max_concurrent: numberOf(form.most),
    rates: form.rates.map(rateOf),
    per_key: form.keyMost.trim() === '' && form.keyRates.length === 0 ? null : { max_concurrent: numberOf(form.keyMost), rates: form.keyRates.map((rate) => ({ ...rateOf(rate) })) },
    circuit_threshold: numberOf(form.threshold),
  };
  if (form.timeout.trim() !== '') limits.circuit_timeout = parseSpan(form.timeout);
  const valid = Object.keys(wrong).length === 2 && [...wrong.rates, ...wrong.keyRates].every((one) => one === null);
  return { limits, wrong, valid };
}

/** The length of a window, without the zeros a timer would show: 1 min, 90 s, 1 h 30 min. */
export function windowWords(seconds: number): string {
  return span(seconds).replace(/ 00 (s|min)$/, '').replace('.0 ', ' ');
}

function perKeyOf(perKey: Json): { most: number | null; rates: Rate[] } {
  if (perKey === null || typeof perKey !== 'object' || Array.isArray(perKey)) return { most: null, rates: [] };
  const most = perKey['max_concurrent'];
  return { most: typeof most === 'number' ? most : null, rates: Array.isArray(perKey['rates']) ? (perKey['rates'] as unknown as Rate[]) : [] };
}

export function perKeyWords(perKey: Json): string {
  const { most, rates } = perKeyOf(perKey);
  const parts = [
    ...(most !== null ? [`at most ${plural(most, 'job')} at once`] : []),
    ...rates.map((rate) => `${count(rate.rate_limit)} in ${windowWords(rate.rate_window)}`),
  ];
  return parts.length ? `Each key: ${parts.join(', ')}.` : '';
}
