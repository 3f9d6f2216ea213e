// The services page: how much of each limit is used, what the breaker says, and a form that changes limits while all goes on.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import * as api from '../api';
import { count } from '../format';
import { formOf, perKeyWords, readLimits, windowWords } from '../limits';
import type { LimitsForm, RateForm } from '../limits';
import { ServiceBadge } from '../parts/badges';
import { Bounded } from '../parts/bounded';
import { Dialog } from '../parts/dialog';
import { Card, Field, Head, Meter } from '../parts/layout';
import { Empty, Loaded } from '../parts/notices';
import { Until } from '../parts/time';
import { useResource } from '../resource';
import { may } from '../who';
import { attempt, tell } from '../toasts';
import type { Service } from '../types';

export function ServicesPage(): JSX.Element {
  const services = useResource('services', api.services, { on: (event) => event.job !== undefined || event.service !== undefined, least: 1000, every: 2000 });
  const [editing, setEditing] = useState<Service | 'new' | null>(null);
  const admin = may('admin');
  return (
    <>
      <Head title="Services" actions={<button type="button" class="primary" disabled={!admin} onClick={() => setEditing('new')}>New service</button>}>
        A service is a limited resource. Changes hold within a second, for every worker.
      </Head>
      <Loaded of={services}>
        {(list) => list.length === 0
          ? <Card><Empty title="No services yet" command="runcue services set api --max-concurrent 4 --rate 60/min"><p>A service bounds how many jobs use something at once and how often: an API, a licence, a disk. Jobs name the services they need.</p></Empty></Card>
          : <Bounded items={list}>{(shown) => <div class="cards">{shown.map((service) => <ServiceCard key={service.name} service={service} onEdit={() => setEditing(service)} onChanged={services.refresh} />)}</div>}</Bounded>}
      </Loaded>
      {editing !== null && <LimitsDialog service={editing === 'new' ? null : editing} onClose={() => setEditing(null)} onDone={services.refresh} />}
    </>
  );
}

function ServiceCard({ service, onEdit, onChanged }: { service: Service; onEdit: () => void; onChanged: () => void }): JSX.Element {
  const admin = may('admin');
  const pause = (): Promise<boolean> => attempt(async () => {
    await api.patchService(service.name, { paused: !service.paused });
    onChanged();
    return `${service.name} ${service.paused ? 'goes on' : 'is paused'}.`;
  });
  return (
    <Card title={<><h2 class="cut" title={service.name}>{service.name}</h2><ServiceBadge status={service.status} /></>} actions={<span class="soft until">{service.status_until != null && <Until at={service.status_until} />}</span>}>
      <div class="stack">
        <Meter label="In use" value={service.in_use} most={service.max_concurrent} text={service.max_concurrent == null ? `${count(service.in_use)}, no limit` : `${count(service.in_use)} of ${count(service.max_concurrent)}`} tone={service.max_concurrent != null && service.in_use >= service.max_concurrent ? 'warn' : ''} />
        {service.rates.map((rate, index) => <Meter key={index} label={`In the last ${windowWords(rate.rate_window)}`} value={rate.used ?? 0} most={rate.rate_limit} text={`${count(rate.used ?? 0)} of ${count(rate.rate_limit)}`} />)}
        <Breaker service={service} />
        {service.per_key != null && <p class="soft small-print">{perKeyWords(service.per_key)}</p>}
        <div class="buttons">
          <button type="button" class="small" disabled={!admin} onClick={onEdit} aria-label={`Edit ${service.name}`}>Edit…</button>
          <button type="button" class="small" disabled={!admin} onClick={pause} aria-label={`${service.paused ? 'Resume' : 'Pause'} ${service.name}`}>{service.paused ? 'Resume' : 'Pause'}</button>
        </div>
      </div>
    </Card>
  );
}

function Breaker({ service }: { service: Service }): JSX.Element {
  if (!service.circuit_threshold) return <p class="soft small-print">No breaker.</p>;
  const failures = service.circuit_failures ?? 0;
  const open = service.status === 'circuit_open' || service.status === 'circuit_half_open';
  return <Meter label={open ? `Breaker ${service.status === 'circuit_open' ? 'open' : 'half open: one job tries'}` : 'Breaker closed, failures in a row'} value={failures} most={service.circuit_threshold} text={`${failures} of ${service.circuit_threshold}`} tone={open ? 'bad' : failures > 0 ? 'warn' : 'good'} />;
}

function Rates({ title, name, add, rates, wrong, onChange }: { title: string; name: string; add: string; rates: RateForm[]; wrong: (string | null)[]; onChange: (rates: RateForm[]) => void }): JSX.Element {
  const change = (place: number, to: Partial<RateForm>): void => onChange(rates.map((rate, index) => (index === place ? { ...rate, ...to } : rate)));
  return (
    <fieldset class="rates">
      <legend><strong>{title}</strong></legend>
      {rates.map((rate, place) => (
        <div key={place}>
          <div class="rate">
            <input aria-label={`${name} ${place + 1}: units`} inputMode="numeric" value={rate.limit} onInput={(event) => change(place, { limit: event.currentTarget.value })} />
            <span>in</span>
            <input aria-label={`${name} ${place + 1}: window`} value={rate.window} placeholder="60s" onInput={(event) => change(place, { window: event.currentTarget.value })} />
            <button type="button" class="small" aria-label={`Remove ${name.toLowerCase()} ${place + 1}`} onClick={() => onChange(rates.filter((_, index) => index !== place))}>Remove</button>
          </div>
          {wrong[place] && <p class="wrong">{wrong[place]}</p>}
        </div>
      ))}
      <div><button type="button" class="small" onClick={() => onChange([...rates, { limit: '60', window: '1m' }])}>{add}</button></div>
    </fieldset>
  );
}

function LimitsDialog({ service, onClose, onDone }: { service: Service | null; onClose: () => void; onDone: () => void }): JSX.Element {
  const [form, setForm] = useState(formOf(service));
  const [tried, setTried] = useState(false);
  const { limits, wrong, valid } = readLimits(form);

  const save = async (): Promise<void> => {
    setTried(true);
    if (!valid) throw new Error('Some fields are not right yet.');
    const name = form.name.trim();
    await (service ? api.patchService(name, limits) : api.putService(name, limits));
    tell('good', `${name} has its new limits.`);
    onDone();
  };
  const set = (change: Partial<LimitsForm>): void => setForm({ ...form, ...change });

  return (
    <Dialog title={service ? `Limits of ${service.name}` : 'New service'} onClose={onClose} onSubmit={save}>
      <div class="form">
        {!service && <Field label="Name" wrong={tried ? wrong.name : null}>{(attributes) => <input {...attributes} value={form.name} onInput={(event) => set({ name: event.currentTarget.value })} autocomplete="off" />}</Field>}
        <Field label="At once, at most" note="Empty: no limit." wrong={tried ? wrong.most : null}>{(attributes) => <input {...attributes} inputMode="numeric" value={form.most} onInput={(event) => set({ most: event.currentTarget.value })} />}</Field>
        <Rates title="Rates" name="Rate" add="Add a rate" rates={form.rates} wrong={tried ? wrong.rates : []} onChange={(rates) => set({ rates })} />
        <Field label="One key at once, at most" note="Jobs may carry a key, such as a customer: each key has this limit for itself. Empty: none." wrong={tried ? wrong.keyMost : null}>{(attributes) => <input {...attributes} inputMode="numeric" value={form.keyMost} onInput={(event) => set({ keyMost: event.currentTarget.value })} />}</Field>
        <Rates title="Rates of each key" name="Key rate" add="Limit the rate of each key" rates={form.keyRates} wrong={tried ? wrong.keyRates : []} onChange={(keyRates) => set({ keyRates })} />
        <div class="row">
          <Field label="Breaker opens after" note="Failures in a row. Empty: no breaker." wrong={tried ? wrong.threshold : null}>{(attributes) => <input {...attributes} inputMode="numeric" value={form.threshold} onInput={(event) => set({ threshold: event.currentTarget.value })} />}</Field>
          <Field label="and stays open for" note="Then one job goes as the probe." wrong={tried ? wrong.timeout : null}>{(attributes) => <input {...attributes} value={form.timeout} placeholder="30s" onInput={(event) => set({ timeout: event.currentTarget.value })} />}</Field>
        </div>
      </div>
    </Dialog>
  );
}
