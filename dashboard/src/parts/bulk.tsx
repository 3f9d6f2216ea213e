// Owns the confirmation of an action on many jobs: asks the hub how many it would touch before it offers to do it.
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import * as api from '../api';
import { count, plural } from '../format';
import { tell } from '../toasts';
import type { BulkFilter } from '../types';
import { Dialog } from './dialog';
import { Problem } from './notices';

export interface BulkPlan { verb: api.BulkVerb; filter: BulkFilter; scope: string }

const VERBS: Record<api.BulkVerb, { title: string; done: string; does: string; none: string; danger: boolean }> = {
  cancel: { title: 'Cancel jobs', done: 'cancelled', does: 'will be cancelled. Those that run are asked to stop.', none: 'Nothing here waits or runs, so there is nothing to cancel.', danger: true },
  retry: { title: 'Retry jobs', done: 'sent round again', does: 'will go round again from their first attempt.', none: 'Nothing here has failed, was cancelled or is quarantined, so there is nothing to retry.', danger: false },
  replay: { title: 'Replay quarantined jobs', done: 'sent round again', does: 'will go round again from their first attempt.', none: 'Nothing here is quarantined.', danger: false },
};

export function BulkDialog({ plan, onClose, onDone }: { plan: BulkPlan; onClose: () => void; onDone: () => void }): JSX.Element {
  const verb = VERBS[plan.verb];
  const [cascade, setCascade] = useState(false);
  const [found, setFound] = useState<number | null>(null);
  const [error, setError] = useState<unknown>(null);
  const body = (dry_run: boolean): api.BulkRequest => {
    const request: api.BulkRequest = { filter: plan.filter, dry_run };
    if (Object.keys(plan.filter).length === 0) request.all = true;
    if (cascade) request.cascade = true;
    return request;
  };

  useEffect(() => {
    let current = true;
    setFound(null);
    api.bulk(plan.verb, body(true)).then(
      (answer) => current && setFound(answer.count),
      (problem: unknown) => current && setError(problem),
    );
    return () => {
      current = false;
    };
  }, [plan, cascade]);

  const act = async (): Promise<void> => {
    const answer = await api.bulk(plan.verb, body(false));
    tell('good', `${plural(answer.count, 'job')} ${verb.done}.`);
    onDone();
  };

  return (
    <Dialog title={verb.title} onClose={onClose} onSubmit={act} tone={verb.danger ? 'danger' : 'primary'} cancel="Leave them" ready={found !== null && found > 0}
      submit={found ? `${plan.verb[0]!.toUpperCase()}${plan.verb.slice(1)} ${plural(found, 'job')}` : verb.title}>
      <div class="form">
        <p class="soft">{plan.scope}</p>
        <p class="bulk-count" role="status" data-count={found ?? ''}>
          {error ? null : found === null ? 'Counting…' : found === 0 ? verb.none : <><strong>{count(found)}</strong> {found === 1 ? 'job' : 'jobs'} {verb.does}</>}
        </p>
        {error != null && <Problem error={error} />}
        {plan.verb === 'cancel' && <label class="check"><input type="checkbox" checked={cascade} onChange={(event) => setCascade(event.currentTarget.checked)} />Also cancel the jobs that wait for them</label>}
      </div>
    </Dialog>
  );
}
