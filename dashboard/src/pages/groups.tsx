// The groups page: what each group has done and has to do, pause and resume, retry and cancel; and the queues below.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import * as api from '../api';
import { count, plural } from '../format';
import { Bounded } from '../parts/bounded';
import { BulkDialog } from '../parts/bulk';
import type { BulkPlan } from '../parts/bulk';
import { PausedBadge } from '../parts/badges';
import { Dialog } from '../parts/dialog';
import { Card, Field, Head } from '../parts/layout';
import { Empty, Loaded } from '../parts/notices';
import { useResource } from '../resource';
import { href } from '../router';
import { may } from '../who';
import { attempt, tell } from '../toasts';
import { STATES } from '../types';
import type { Counts, Group, QueueView } from '../types';

export function GroupsPage(): JSX.Element {
  const groups = useResource('groups', api.groups, { on: (event) => event.job !== undefined || event.type === 'group_status', least: 1000, every: 15_000 });
  const [plan, setPlan] = useState<BulkPlan | null>(null);
  return (
    <>
      <Head title="Groups">Groups take turns, so a flood of jobs in one does not starve another. A paused group keeps its jobs and starts none.</Head>
      <Card bare>
        <Loaded of={groups}>
          {(list) => list.length === 0
            ? <Empty title="No groups yet" command="runcue add --group nightly -- ./backup.sh"><p>A job says which group it belongs to; the group is there from then on.</p></Empty>
            : <Bounded items={[...list].sort(byName)}>{(shown) => <GroupTable groups={shown} onPlan={setPlan} onChanged={groups.refresh} />}</Bounded>}
        </Loaded>
      </Card>
      <Queues />
      {plan && <BulkDialog plan={plan} onClose={() => setPlan(null)} onDone={groups.refresh} />}
    </>
  );
}

const sum = (counts: Counts): number => STATES.reduce((total, state) => total + (counts[state] ?? 0), 0);
const failures = (counts: Counts): number => (counts.failed ?? 0) + (counts.quarantined ?? 0);

/** By name, jobs without a group last: rows do not change places while their counts do. */
const byName = (a: Group, b: Group): number => (a.name === null ? 1 : b.name === null ? -1 : a.name.localeCompare(b.name));

function GroupTable({ groups, onPlan, onChanged }: { groups: Group[]; onPlan: (plan: BulkPlan) => void; onChanged: () => void }): JSX.Element {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Groups">
      <table class="stacked steady pairs">
        <thead><tr><th scope="col">Group</th><th scope="col" class="wide-col">Jobs</th><th scope="col" class="right w-num">Waiting</th><th scope="col" class="right w-num">Running</th><th scope="col" class="right w-num">Failed</th><th scope="col" class="right w-num">All</th><th scope="col" class="w-acts"><span class="unseen">Actions</span></th></tr></thead>
        <tbody>{groups.map((group) => <GroupRow key={group.name ?? ''} group={group} onPlan={onPlan} onChanged={onChanged} />)}</tbody>
      </table>
    </div>
  );
}

function GroupRow({ group, onPlan, onChanged }: { group: Group; onPlan: (plan: BulkPlan) => void; onChanged: () => void }): JSX.Element {
  const admin = may('admin');
  const { name, counts } = group;
  const pause = (): Promise<boolean> => attempt(async () => {
    await api.pauseGroup(name!, !group.paused);
    onChanged();
    return `${name} ${group.paused ? 'goes on' : 'is paused'}.`;
  });
  const total = sum(counts);
  return (
    <tr data-group={name ?? ''}>
      <td><span class="titled">{name === null ? <span class="soft">without a group</span> : <a href={href(['jobs'], { group: name })}><strong>{name}</strong></a>}{group.paused && <PausedBadge />}</span></td>
      <td><div class="bar" role="img" aria-label={STATES.filter((state) => counts[state]).map((state) => `${counts[state]} ${state}`).join(', ') || 'no jobs'}>{STATES.map((state) => (counts[state] ?? 0) > 0 && <i key={state} class={state} style={{ width: `${(100 * counts[state]!) / total}%` }} />)}</div></td>
      <td class="right" data-label="Waiting">{count(counts.queued ?? 0)}</td>
      <td class="right" data-label="Running">{count((counts.running ?? 0) + (counts.leased ?? 0))}</td>
      <td class="right" data-label="Failed">{count(failures(counts))}</td>
      <td class="right" data-label="All">{count(total)}</td>
      <td class="acts">
        {name !== null && (
          <div class="row-buttons">
            <button type="button" class="small" disabled={!admin} onClick={pause} aria-label={`${group.paused ? 'Resume' : 'Pause'} ${name}`}>{group.paused ? 'Resume' : 'Pause'}</button>
            <button type="button" class="small" disabled={!admin || failures(counts) === 0} aria-label={`Retry failed in ${name}`} onClick={() => onPlan({ verb: 'retry', filter: { group: name, state: 'failed,quarantined' }, scope: `What failed or is quarantined in group ${name}.` })}>Retry failed…</button>
            <button type="button" class="small danger" disabled={!admin} aria-label={`Cancel all in ${name}`} onClick={() => onPlan({ verb: 'cancel', filter: { group: name }, scope: `Everything that waits or runs in group ${name}.` })}>Cancel…</button>
          </div>
        )}
      </td>
    </tr>
  );
}

function Queues(): JSX.Element {
  const queues = useResource('queues', api.queues, { on: (event) => event.job !== undefined || event.type === 'queue_status', least: 1500, every: 15_000 });
  const [editing, setEditing] = useState<QueueView | null>(null);
  const admin = may('admin');
  const pause = (queue: QueueView): Promise<boolean> => attempt(async () => {
    await api.setQueue(queue.name, { max_queued: queue.max_queued, on_full: queue.on_full, paused: !queue.paused });
    queues.refresh();
    return `Queue ${queue.name} ${queue.paused ? 'goes on' : 'is paused'}.`;
  });
  return (
    <>
      <div class="section"><h2>Queues</h2></div>
      <Card bare>
        <Loaded of={queues}>
          {(list) => list.length === 0
            ? <Empty title="No queues yet"><p>The first job makes the queue it names.</p></Empty>
            : <Bounded items={list}>{(shown) => (
              <div class="scroll" tabIndex={0} role="region" aria-label="Queues">
                <table class="stacked steady pairs">
                  <thead><tr><th scope="col">Queue</th><th scope="col" class="right w-num">Waiting</th><th scope="col" class="right w-num">At most</th><th scope="col">When full</th><th scope="col" class="w-acts2"><span class="unseen">Actions</span></th></tr></thead>
                  <tbody>
                    {shown.map((queue) => (
                      <tr key={queue.name}>
                        <td><span class="titled"><a href={href(['jobs'], { queue: queue.name })}><strong>{queue.name}</strong></a>{queue.paused && <PausedBadge />}</span></td>
                        <td class="right" data-label="Waiting">{count(queue.queued)}</td>
                        <td class="right" data-label="At most">{queue.max_queued == null ? 'no limit' : count(queue.max_queued)}</td>
                        <td data-label="When full">{ON_FULL[queue.on_full] ?? queue.on_full}</td>
                        <td class="acts">
                          <div class="row-buttons">
                            <button type="button" class="small" disabled={!admin} onClick={() => pause(queue)} aria-label={`${queue.paused ? 'Resume' : 'Pause'} queue ${queue.name}`}>{queue.paused ? 'Resume' : 'Pause'}</button>
                            <button type="button" class="small" disabled={!admin} onClick={() => setEditing(queue)} aria-label={`Edit queue ${queue.name}`}>Edit…</button>
                          </div>
                        </td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
            )}</Bounded>}
        </Loaded>
      </Card>
      {editing && <QueueDialog queue={editing} onClose={() => setEditing(null)} onDone={queues.refresh} />}
    </>
  );
}

const ON_FULL: Record<string, string> = { reject: 'refuse new jobs', drop_oldest: 'drop the oldest', block: 'let submitters wait' };

function QueueDialog({ queue, onClose, onDone }: { queue: QueueView; onClose: () => void; onDone: () => void }): JSX.Element {
  const [most, setMost] = useState(queue.max_queued?.toString() ?? '');
  const [onFull, setOnFull] = useState(queue.on_full);
  const wrong = most.trim() === '' || /^[1-9]\d*$/.test(most.trim()) ? null : 'A whole number from 1, or empty for no limit.';
  const save = async (): Promise<void> => {
    await api.setQueue(queue.name, { max_queued: most.trim() === '' ? null : Number(most), on_full: onFull, paused: queue.paused });
    tell('good', `Queue ${queue.name}: ${most.trim() === '' ? 'no limit' : `at most ${plural(Number(most), 'job')}`}.`);
    onDone();
  };
  return (
    <Dialog title={`Queue ${queue.name}`} onClose={onClose} onSubmit={save} ready={!wrong}>
      <div class="form row-form">
        <Field label="Jobs waiting, at most" note="Empty: no limit." wrong={wrong}>{(attributes) => <input {...attributes} inputMode="numeric" value={most} onInput={(event) => setMost(event.currentTarget.value)} />}</Field>
        <Field label="When it is full">{(attributes) => <select {...attributes} value={onFull} onChange={(event) => setOnFull(event.currentTarget.value)}>{Object.entries(ON_FULL).map(([value, text]) => <option key={value} value={value}>{text}</option>)}</select>}</Field>
      </div>
    </Dialog>
  );
}
