// The page of one job: what it waits for, its attempts, its output, its relatives, and everything that was said about it.
import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import * as api from '../api';
import { story, stretches } from '../attempts';
import { now } from '../clock';
import { errorText, shortId, span } from '../format';
import { applyEvents, canCancel, canRetry, isFinal, subject } from '../jobs';
import { onEvents } from '../live';
import { StateBadge } from '../parts/badges';
import { Dialog } from '../parts/dialog';
import { GraphCard } from '../parts/graph';
import { Icon } from '../parts/icons';
import { JsonView } from '../parts/json';
import { Card, Head } from '../parts/layout';
import { LogView } from '../parts/logview';
import { Copy, Loaded, Problem, Words } from '../parts/notices';
import { Ago, Until } from '../parts/time';
import { useResource } from '../resource';
import type { Resource } from '../resource';
import { href } from '../router';
import { may } from '../who';
import { attempt, tell } from '../toasts';
import type { Job, Reason, WholeJob } from '../types';

export function JobPage({ id }: { id: string }): JSX.Element {
  const kin = useMemo(() => new Set<string>(), [id]);
  const whole = useResource(id, async (stop) => {
    const job = await api.job(id, stop);
    for (const one of [...job.prerequisites, ...job.dependents]) kin.add(one.id);
    return job;
  }, { on: (event) => event.job !== undefined && (event.job === id || kin.has(event.job)), least: 1000, every: 5000 });
  useEffect(() => onEvents((events) => {
    const job = whole.data.value;
    if (job) whole.data.value = applyEvents([job], events)[0]!;
  }), [whole]);
  if (whole.data.value === null && whole.error.value != null) return <><Head title="Job" actions={<a class="button" href="#/jobs">Show all jobs</a>} /><Problem error={whole.error.value} /></>;
  return <Loaded of={whole}>{(job) => <JobView job={job} of={whole} />}</Loaded>;
}

function JobView({ job, of }: { job: WholeJob; of: Resource<WholeJob> }): JSX.Element {
  const about = subject(job);
  useEffect(() => {
    document.title = `${job.type} ${about || shortId(job.id)} · runcue`;
  }, [job.id]);
  return (
    <>
      <div class="head">
        <div class="titled">
          <h1>{job.type}{about && <span class="soft"> {about}</span>}</h1>
          <StateBadge state={job.state} />
        </div>
        <Actions job={job} of={of} />
        <p class="under"><span class="copyable"><code>{job.id}</code><Copy text={job.id} label="Copy the id" /></span></p>
      </div>
      <div class="two">
        <div class="aside">
          {job.progress && !isFinal(job.state) && <Progress job={job} />}
          {!isFinal(job.state) && <Why job={job} />}
          {job.fail_reason && (job.state === 'failed' || job.state === 'quarantined') && <Card title="Error"><pre class="json" tabIndex={0}>{errorText(job.fail_reason)}</pre></Card>}
          <Timeline job={job} />
          <LogView key={job.id} id={job.id} open={!isFinal(job.state)} />
          <GraphCard job={job} />
        </div>
        <div class="aside">
          {job.state === 'completed' && <Card title="Result">{job.result === null ? <p class="soft">It gave nothing back.</p> : <JsonView value={job.result} label="result" />}</Card>}
          <Card title="Parameters">{job.params === null ? <p class="soft">None.</p> : <JsonView value={job.params} label="parameters" />}</Card>
          <Card title="Facts"><Facts job={job} /></Card>
        </div>
      </div>
    </>
  );
}

function Actions({ job, of }: { job: WholeJob; of: Resource<WholeJob> }): JSX.Element {
  const [asking, setAsking] = useState(false);
  const allowed = may('submit');
  const retry = (): Promise<boolean> => attempt(async () => {
    await api.retryJob(job.id);
    of.refresh();
    return 'It goes round again.';
  });
  return (
    <div class="actions">
      {allowed && <a class="button" href={href(['new'], { like: job.id })}>Submit one like it</a>}
      {canRetry(job) && <button type="button" class="primary" disabled={!allowed} onClick={retry}>Retry</button>}
      {canCancel(job) && <button type="button" class="danger" disabled={!allowed || job.cancel_requested} onClick={() => setAsking(true)}>{job.cancel_requested ? 'Asked to stop' : 'Cancel…'}</button>}
      {asking && <CancelDialog job={job} onClose={() => setAsking(false)} onDone={of.refresh} />}
    </div>
  );
}

function CancelDialog({ job, onClose, onDone }: { job: WholeJob; onClose: () => void; onDone: () => void }): JSX.Element {
  const [cascade, setCascade] = useState(false);
  const act = async (): Promise<void> => {
    await api.cancelJob(job.id, cascade);
    tell('good', job.state === 'queued' ? 'Cancelled.' : 'Asked to stop.');
    onDone();
  };
  return (
    <Dialog title="Cancel this job?" onClose={onClose} onSubmit={act} submit="Cancel the job" cancel="Leave it" tone="danger">
      <div class="form">
        <p>{job.state === 'queued' ? 'It will not run.' : 'The worker is asked to stop it; what it has done so far is not undone.'}</p>
        {job.dependents.length > 0 && <label class="check"><input type="checkbox" checked={cascade} onChange={(event) => setCascade(event.currentTarget.checked)} />Also cancel the jobs that wait for it</label>}
      </div>
    </Dialog>
  );
}

function Progress({ job }: { job: Job }): JSX.Element {
  const { percent, message } = job.progress!;
  return (
    <Card title="Progress" actions={<span>{percent == null ? '' : `${Math.round(percent)} %`}</span>}>
      {percent != null && <div class="meter" role="progressbar" aria-label="Progress" aria-valuemin={0} aria-valuemax={100} aria-valuenow={percent}><i style={{ width: `${Math.min(100, percent)}%` }} /></div>}
      <p class="soft progress-words">{message ?? ''}</p>
    </Card>
  );
}

function Why({ job }: { job: WholeJob }): JSX.Element | null {
  const reasons = job.why.filter((reason) => reason.reason !== 'not_waiting');
  if (job.state !== 'queued' || reasons.length === 0) return null;
  return (
    <Card title="Why it waits" class="why-card">
      <ul class="why">{reasons.map((reason, index) => <li key={index}><Icon name={reason.until ? 'clock' : reason.reason === 'group_paused' || reason.reason === 'queue_paused' ? 'pause' : 'warning'} /><ReasonWords reason={reason} /></li>)}</ul>
    </Card>
  );
}

function ReasonWords({ reason }: { reason: Reason }): JSX.Element {
  const text = reason.words[0]!.toUpperCase() + reason.words.slice(1);
  const next: Partial<Record<string, ComponentChildren>> = {
    group_paused: <a href="#/groups">resume it under Groups</a>,
    queue_paused: <a href="#/groups">resume it under Groups</a>,
    service: <a href="#/services">look at its limits under Services</a>,
    no_worker: <>start one: <code>runcue worker --hub {location.origin}</code></>,
    no_worker_fits: <a href="#/fleet">see what the workers take</a>,
  };
  return (
    <div>
      <p><Words text={text} />{/[.!?]$/.test(text) ? '' : '.'}{reason.until != null && <> <span class="soft"><Until at={reason.until} /></span></>}</p>
      {next[reason.reason] && <p class="soft">What to do: {next[reason.reason]}.</p>}
      {reason.jobs && reason.jobs.length > 0 && <p class="tags">{reason.jobs.slice(0, 12).map((id) => <a key={id} class="tag mono" href={href(['jobs', id])}>{shortId(id)}</a>)}{reason.jobs.length > 12 && <span class="faint">and {reason.jobs.length - 12} more</span>}</p>}
    </div>
  );
}

function Timeline({ job }: { job: Job }): JSX.Element {
  const parts = stretches(job, now.value);
  return (
    <Card title="Timeline" actions={<span class="soft">{job.attempts === 0 ? 'no attempt yet' : `attempt ${job.attempts}${job.max_attempts ? ` of ${job.max_attempts}` : ''}`}</span>}>
      {parts.length > 0 && (
        <>
          <div class="life" aria-hidden="true">{parts.map((part) => <i key={part.kind} class={part.kind} style={{ flexGrow: String(Math.max(part.share, 0.01)) }} />)}</div>
          <p class="life-key">{parts.map((part) => <span key={part.kind}>{part.kind === 'wait' ? (job.attempts > 1 ? 'before the latest attempt' : 'waited') : 'ran'} {span(part.seconds)}</span>)}</p>
        </>
      )}
      <ol class="story">
        {story(job).map((moment, index) => (
          <li key={index} class={moment.tone}>
            <div class="line">
              <span>{moment.title}</span>
              {moment.at != null && <span class="soft"><Ago at={moment.at} /></span>}
              {moment.worker && <span class="soft">on {moment.worker}</span>}
            </div>
            {moment.detail && (moment.tone === 'bad' && moment.attempt !== undefined ? <pre>{errorText(moment.detail)}</pre> : <p>{errorText(moment.detail)}</p>)}
          </li>
        ))}
      </ol>
    </Card>
  );
}

function Facts({ job }: { job: WholeJob }): JSX.Element {
  const link = (field: string, value: string): JSX.Element => <a href={href(['jobs'], { [field]: value })}>{value}</a>;
  const needs = [job.requires?.cores != null && job.requires.cores > 0 && `${job.requires.cores} cores`, job.requires?.ram_gb != null && job.requires.ram_gb > 0 && `${job.requires.ram_gb} GB`, ...(job.requires?.tags ?? [])].filter(Boolean).join(', ');
  const facts: [string, ComponentChildren][] = [
    ['Queue', link('queue', job.queue)],
    ['Group', job.group && link('group', job.group)],
    ['Project', job.project && link('project', job.project)],
    ['Labels', job.labels?.length ? <span class="tags">{job.labels.map((label) => <a key={label} class="tag" href={href(['jobs'], { label })}>{label}</a>)}</span> : null],
    ['Priority', job.priority],
    ['Worker', job.worker_id],
    ['Created', <Ago at={job.created_at} />],
    ['Began', job.claimed_at != null && <Ago at={job.claimed_at} />],
    ['Heard of', !isFinal(job.state) && job.heartbeat_at != null && <Ago at={job.heartbeat_at} />],
    ['Lease until', !isFinal(job.state) && job.lease_expires_at != null && <Ago at={job.lease_expires_at} />],
    ['Ended', isFinal(job.state) && job.completed_at != null && <Ago at={job.completed_at} />],
    ['Not before', job.run_at != null && <Ago at={job.run_at} />],
    ['Expires', job.expires_at != null && <Ago at={job.expires_at} />],
    ['May run for', job.max_runtime_ms != null && span(job.max_runtime_ms / 1000)],
    ['Waits at most', job.dependency_timeout != null && span(job.dependency_timeout)],
    ['Services', job.services?.length ? <span class="tags">{job.services.map((one) => <a key={one.service} class="tag" href="#/services">{one.service}{one.units !== 1 && ` × ${one.units}`}</a>)}</span> : null],
    ['Needs', needs],
    ['Key', job.key],
    ['Idempotency key', job.idempotency_key && <code>{job.idempotency_key}</code>],
    ['Crashes', job.crashes > 0 && job.crashes],
    ['Solver', job.solver_url && <code>{job.solver_url}</code>],
    ['Number', job.seq],
  ];
  return <dl class="facts">{facts.filter(([, value]) => value !== null && value !== false && value !== undefined && value !== '').map(([name, value]) => <><dt>{name}</dt><dd>{value}</dd></>)}</dl>;
}
