// Owns the table of jobs, shared by the jobs page and the quarantine: rows of a fixed height, picking, and moving by keys.
import type { JSX } from 'preact';
import { now } from '../clock';
import { errorText, preview, shortId, span } from '../format';
import { runSeconds, subject } from '../jobs';
import { go, href } from '../router';
import type { Job } from '../types';
import { StateBadge } from './badges';
import { Ago } from './time';

interface TableProps { jobs: Job[]; picked: ReadonlySet<string>; onPick: (ids: string[], on: boolean) => void; busy: boolean; label: string }

export function JobTable({ jobs, picked, onPick, busy, label }: TableProps): JSX.Element {
  const all = jobs.length > 0 && jobs.every((job) => picked.has(job.id));
  const some = !all && jobs.some((job) => picked.has(job.id));
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}>
      <table class={busy ? 'jobs busy' : 'jobs'} aria-busy={busy} onKeyDown={onKey}>
        <thead>
          <tr>
            <th class="c-pick" scope="col"><input type="checkbox" aria-label="Pick all jobs on this page" checked={all} ref={(box) => { if (box) box.indeterminate = some; }} onChange={(event) => onPick(jobs.map((job) => job.id), event.currentTarget.checked)} /></th>
            <th class="c-state" scope="col">State</th>
            <th class="c-job" scope="col">Job</th>
            <th class="c-group" scope="col">Group</th>
            <th class="c-tries right" scope="col">Tries</th>
            <th class="c-worker" scope="col">Worker</th>
            <th class="c-time right" scope="col">Created</th>
            <th class="c-took right" scope="col">Ran</th>
            <th scope="col">Result or error</th>
          </tr>
        </thead>
        <tbody>{jobs.map((job) => <Row key={job.id} job={job} picked={picked.has(job.id)} onPick={onPick} />)}</tbody>
      </table>
    </div>
  );
}

function Row({ job, picked, onPick }: { job: Job; picked: boolean; onPick: TableProps['onPick'] }): JSX.Element {
  const to = href(['jobs', job.id]);
  const open = (event: MouseEvent): void => {
    if (event.target instanceof Element && event.target.closest('a, input, button')) return;
    if (getSelection()?.toString()) return;
    go(to);
  };
  const about = subject(job);
  return (
    <tr aria-selected={picked} onClick={open} data-job={job.id}>
      <td class="pick"><input type="checkbox" aria-label={`Pick ${job.type} ${about || shortId(job.id)}`} checked={picked} onChange={(event) => onPick([job.id], event.currentTarget.checked)} /></td>
      <td class="state"><StateBadge state={job.state} /></td>
      <td class="job">
        <div><a href={to}>{job.type}</a>{about && <span class="soft"> {about}</span>}</div>
        <div class="sub mono" title={job.id}>{shortId(job.id)}{job.priority !== 0 && ` · priority ${job.priority}`}</div>
      </td>
      <td class="group" title={job.group ?? undefined}>{job.group ?? <span class="faint">–</span>}</td>
      <td class="tries right">{job.attempts}{job.max_attempts != null && <span class="faint">/{job.max_attempts}</span>}</td>
      <td class="worker" title={job.worker_id ?? undefined}>{job.worker_id ?? <span class="faint">–</span>}</td>
      <td class="time right"><Ago at={job.created_at} /></td>
      <td class="took right nowrap"><Took job={job} /></td>
      <Outcome job={job} />
    </tr>
  );
}

function Took({ job }: { job: Job }): JSX.Element {
  const seconds = runSeconds(job, job.completed_at ?? now.value);
  return seconds === null ? <span class="faint">–</span> : <>{span(seconds)}</>;
}

function Outcome({ job }: { job: Job }): JSX.Element {
  if ((job.state === 'running' || job.state === 'leased') && job.progress) {
    const percent = job.progress.percent;
    return (
      <td class="out">
        {percent != null && <div class="meter" role="progressbar" aria-label="Progress" aria-valuenow={percent} aria-valuemin={0} aria-valuemax={100}><i style={{ width: `${Math.min(100, percent)}%` }} /></div>}
        {job.progress.message ?? ''}
      </td>
    );
  }
  if (job.state === 'completed') return <td class="out mono" title={preview(job.result, 600)}>{preview(job.result)}</td>;
  if (job.cancel_requested) return <td class="out">asked to stop</td>;
  if (job.fail_reason) return <td class={job.state === 'queued' ? 'out' : 'out error'} title={job.fail_reason}>{job.state === 'queued' ? `last: ${errorText(job.fail_reason)}` : errorText(job.fail_reason)}</td>;
  if (job.state === 'queued' && job.prerequisites_left > 0) return <td class="out">waits for {job.prerequisites_left} {job.prerequisites_left === 1 ? 'job' : 'jobs'}</td>;
  if (job.state === 'queued' && job.due_at != null && job.due_at > now.value) return <td class="out">due <Ago at={job.due_at} /></td>;
  return <td class="out" />;
}

/** j and k (or arrows) walk over the rows, x picks; Enter follows the link by itself. */
function onKey(event: KeyboardEvent): void {
  const table = event.currentTarget as HTMLTableElement;
  const rows = [...table.querySelectorAll<HTMLTableRowElement>('tbody tr')];
  const target = event.target as HTMLElement;
  const place = rows.findIndex((row) => row.contains(target));
  const step = event.key === 'j' || event.key === 'ArrowDown' ? 1 : event.key === 'k' || event.key === 'ArrowUp' ? -1 : 0;
  if (step !== 0 && !event.ctrlKey && !event.metaKey && !event.altKey) {
    const next = rows[Math.min(rows.length - 1, Math.max(0, place + step))];
    next?.querySelector<HTMLElement>('td.job a')?.focus();
    event.preventDefault();
    event.stopPropagation();
  } else if (event.key === 'x' && place >= 0) {
    rows[place]!.querySelector<HTMLInputElement>('td.pick input')?.click();
    event.preventDefault();
  }
}
