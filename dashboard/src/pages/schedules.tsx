// The schedules page: jobs submitted again and again by the clock; make, pause, resume, delete.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import * as api from '../api';
import { count, exact } from '../format';
import { readJson } from '../newjob';
import { PausedBadge } from '../parts/badges';
import { Bounded } from '../parts/bounded';
import { Dialog } from '../parts/dialog';
import { Card, Field, Head } from '../parts/layout';
import { Empty, Loaded } from '../parts/notices';
import { Ago } from '../parts/time';
import { useResource } from '../resource';
import { href } from '../router';
import { may } from '../who';
import { attempt, tell } from '../toasts';
import type { Schedule } from '../types';

export function SchedulesPage(): JSX.Element {
  const schedules = useResource('schedules', api.schedules, { on: (event) => event.type === 'work_queued', least: 2000, every: 10_000 });
  const [making, setMaking] = useState(false);
  const [removing, setRemoving] = useState<Schedule | null>(null);
  const admin = may('admin');
  return (
    <>
      <Head title="Schedules" actions={<button type="button" class="primary" disabled={!admin} onClick={() => setMaking(true)}>New schedule</button>}>
        Each firing is submitted once, by however many hubs.
      </Head>
      <Card bare>
        <Loaded of={schedules}>
          {(list) => list.length === 0
            ? <Empty title="No schedules yet" command="runcue schedule add nightly --cron '0 3 * * *' -- ./backup.sh"><p>A schedule submits a job at the instants of a cron expression, in a time zone.</p></Empty>
            : <Bounded items={list}>{(shown) => <ScheduleTable schedules={shown} onRemove={setRemoving} onChanged={schedules.refresh} />}</Bounded>}
        </Loaded>
      </Card>
      {making && <ScheduleDialog onClose={() => setMaking(false)} onDone={schedules.refresh} />}
      {removing && (
        <Dialog title={`Delete schedule ${removing.name}?`} tone="danger" submit="Delete it" cancel="Keep it" onClose={() => setRemoving(null)} onSubmit={async () => { await api.removeSchedule(removing.name); tell('good', `${removing.name} is deleted.`); schedules.refresh(); }}>
          <p>Jobs it has submitted stay. It fires no more.</p>
        </Dialog>
      )}
    </>
  );
}

function ScheduleTable({ schedules, onRemove, onChanged }: { schedules: Schedule[]; onRemove: (schedule: Schedule) => void; onChanged: () => void }): JSX.Element {
  const admin = may('admin');
  const pause = (schedule: Schedule): Promise<boolean> => attempt(async () => {
    await api.pauseSchedule(schedule.name, !schedule.paused);
    onChanged();
    return `${schedule.name} ${schedule.paused ? 'goes on' : 'is paused'}.`;
  });
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Schedules">
      <table class="stacked steady">
        <thead><tr><th scope="col">Schedule</th><th scope="col">When</th><th scope="col">Submits</th><th scope="col" class="w-time">Next</th><th scope="col" class="w-time">Last</th><th scope="col" class="right w-num">Fired</th><th scope="col" class="w-acts2"><span class="unseen">Actions</span></th></tr></thead>
        <tbody>
          {schedules.map((schedule) => (
            <tr key={schedule.name}>
              <td><span class="titled"><strong>{schedule.name}</strong>{schedule.paused && <PausedBadge />}</span>{schedule.last_error && <p class="wrong">{schedule.last_error}</p>}</td>
              <td data-label="When"><span><code>{schedule.cron}</code> <span class="faint nowrap">{schedule.zone ?? 'UTC'}</span></span></td>
              <td data-label="Submits"><span>{schedule.task} {schedule.target && <span class="soft">{schedule.target}</span>}{schedule.group && <span class="faint"> in {schedule.group}</span>}</span></td>
              <td data-label="Next">{schedule.paused ? <span class="faint">–</span> : schedule.next_at?.[0] != null ? <span title={schedule.next_at.map(exact).join('\n')}><Ago at={schedule.next_at[0]} /></span> : <span class="faint">never</span>}</td>
              <td data-label="Last">{schedule.last_job ? <a href={href(['jobs', schedule.last_job])}><Ago at={schedule.last_at} /></a> : <Ago at={schedule.last_at} />}</td>
              <td class="right" data-label="Fired">{count(schedule.fired)}</td>
              <td class="acts">
                <div class="row-buttons">
                  <button type="button" class="small" disabled={!admin} onClick={() => pause(schedule)} aria-label={`${schedule.paused ? 'Resume' : 'Pause'} ${schedule.name}`}>{schedule.paused ? 'Resume' : 'Pause'}</button>
                  <button type="button" class="small danger" disabled={!admin} onClick={() => onRemove(schedule)} aria-label={`Delete ${schedule.name}`}>Delete…</button>
                </div>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function ScheduleDialog({ onClose, onDone }: { onClose: () => void; onDone: () => void }): JSX.Element {
  const [form, setForm] = useState({ name: '', cron: '0 3 * * *', zone: Intl.DateTimeFormat().resolvedOptions().timeZone ?? 'UTC', type: '', target: '', group: '', params: '{}', missed: 'skip', overlap: 'allow' });
  const set = (field: keyof typeof form) => (event: { currentTarget: { value: string } }): void => setForm({ ...form, [field]: event.currentTarget.value });
  const params = readJson(form.params);
  const ready = form.name.trim() !== '' && form.type.trim() !== '' && form.cron.trim() !== '' && params.wrong === null;
  const save = async (): Promise<void> => {
    const job = { type: form.type.trim(), params: params.value, ...(form.target.trim() && { target: form.target.trim() }), ...(form.group.trim() && { group: form.group.trim() }) };
    await api.putSchedule(form.name.trim(), { cron: form.cron.trim(), ...(form.zone.trim() && { zone: form.zone.trim() }), missed: form.missed, overlap: form.overlap, job });
    tell('good', `${form.name.trim()} is on the timetable.`);
    onDone();
  };
  return (
    <Dialog title="New schedule" onClose={onClose} onSubmit={save} submit="Create schedule" ready={ready}>
      <div class="form">
        <Field label="Name">{(a) => <input {...a} value={form.name} onInput={set('name')} autocomplete="off" placeholder="nightly-report" />}</Field>
        <div class="row">
          <Field label="Cron" note="minute hour day month weekday">{(a) => <input {...a} class="mono" value={form.cron} onInput={set('cron')} autocomplete="off" spellcheck={false} />}</Field>
          <Field label="Time zone">{(a) => <input {...a} value={form.zone} onInput={set('zone')} autocomplete="off" />}</Field>
        </div>
        <div class="row">
          <Field label="Type" note="The task it submits.">{(a) => <input {...a} value={form.type} onInput={set('type')} autocomplete="off" placeholder="report" />}</Field>
          <Field label="Target">{(a) => <input {...a} value={form.target} onInput={set('target')} autocomplete="off" />}</Field>
          <Field label="Group">{(a) => <input {...a} value={form.group} onInput={set('group')} autocomplete="off" />}</Field>
        </div>
        <Field label="Parameters" note="JSON" wrong={params.wrong}>{(a) => <textarea {...a} rows={3} value={form.params} onInput={set('params')} spellcheck={false} />}</Field>
        <div class="row">
          <Field label="Missed firings">{(a) => <select {...a} value={form.missed} onChange={set('missed')}><option value="skip">skip</option><option value="once">make up for all with one</option><option value="all">make up for each</option></select>}</Field>
          <Field label="If the last one still runs">{(a) => <select {...a} value={form.overlap} onChange={set('overlap')}><option value="allow">submit anyway</option><option value="skip">skip</option></select>}</Field>
        </div>
      </div>
    </Dialog>
  );
}
