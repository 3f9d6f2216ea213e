// The quarantine: jobs set aside after their last attempt. Look at why, then send one, several or all round again.
import type { JSX } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { isAway } from '../api';
import { plural } from '../format';
import { useJobList } from '../joblist';
import { newer, pageNumber, walk } from '../paging';
import type { Trail } from '../paging';
import { BulkDialog } from '../parts/bulk';
import type { BulkPlan } from '../parts/bulk';
import { JobTable } from '../parts/jobtable';
import { Card, Head } from '../parts/layout';
import { Empty, Problem } from '../parts/notices';
import { href, route } from '../router';
import { may } from '../who';

export function QuarantinePage(): JSX.Element {
  const before = route.value.query.get('before');
  const query = new URLSearchParams({ state: 'quarantined', ...(before && { before }) });
  const list = useJobList(query, (event) => event.job !== undefined && event.type !== 'work_progress');
  const [plan, setPlan] = useState<BulkPlan | null>(null);
  const trail = useRef<Trail>([]);
  trail.current = walk(trail.current, before);
  const picked = list.picked.value;
  const rows = list.rows.value?.filter((job) => job.state === 'quarantined') ?? null;
  const error = list.page.error.value;
  const next = list.page.data.value?.next ?? null;
  const admin = may('admin');
  const done = (): void => {
    list.picked.value = new Set();
    list.page.refresh();
  };
  return (
    <>
      <Head title="Quarantine">Jobs whose last attempt failed, or that killed their workers. They wait here for a person.</Head>
      <Card bare>
        <div class="strip">
          <div class="state">{picked.size > 0 ? <strong>{picked.size} picked</strong> : rows === null ? '' : plural(rows.length, 'job') + (next || before ? ' on this page' : '')}</div>
          <button type="button" class="small primary" disabled={!admin || picked.size === 0} onClick={() => setPlan({ verb: 'replay', filter: { ids: [...picked] }, scope: `The ${plural(picked.size, 'job')} you picked.` })}>Replay picked…</button>
          <button type="button" class="small" disabled={!admin || !rows?.length} onClick={() => setPlan({ verb: 'replay', filter: {}, scope: 'Everything in quarantine.' })}>Replay all…</button>
        </div>
        {error != null && !(rows !== null && isAway(error)) && <div class="inside"><Problem error={error} /></div>}
        {rows === null ? error == null && <p class="loading" role="status">Loading…</p>
          : rows.length === 0 ? <Empty title="Nothing is quarantined"><p>When a job fails its last attempt it is set aside here, with its errors, until you replay it.</p></Empty>
          : <JobTable jobs={rows} picked={picked} onPick={list.pick} busy={list.stale.value} label="Quarantined jobs" />}
        {(next || before) && (
          <nav class="pager" aria-label="Pages">
            <span class="place">Page {pageNumber(trail.current)}</span>
            {before ? <a class="button" href={href(['quarantine'], newer(trail.current) ? { before: newer(trail.current)! } : {})}>Newer</a> : <button type="button" disabled>Newer</button>}
            {next ? <a class="button" href={href(['quarantine'], { before: next })}>Older</a> : <button type="button" disabled>Older</button>}
          </nav>
        )}
      </Card>
      {plan && <BulkDialog plan={plan} onClose={() => setPlan(null)} onDone={done} />}
    </>
  );
}
