// The page that submits a job. What most jobs need is in sight; the rest is one click away.
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import * as api from '../api';
import { now } from '../clock';
import { EMPTY_FORM, formLike, readForm } from '../newjob';
import type { Form } from '../newjob';
import { Card, Field, Head } from '../parts/layout';
import { Problem } from '../parts/notices';
import { useResource } from '../resource';
import { go, href, route } from '../router';
import { may } from '../who';
import { tell, tellError } from '../toasts';

export function NewJobPage(): JSX.Element {
  const [form, setForm] = useState<Form>(EMPTY_FORM);
  const [tried, setTried] = useState(false);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const tasks = useResource('tasks', api.tasks, {});
  const like = route.value.query.get('like');

  useEffect(() => {
    if (like) api.job(like).then((job) => setForm(formLike(job)), tellError);
  }, [like]);

  const { job, wrong } = readForm(form, now.value);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    setTried(true);
    if (Object.keys(wrong).length || busy) return;
    setBusy(true);
    setError(null);
    try {
      const answer = await api.submitJob(job);
      tell('good', 'Submitted.');
      go(href(['jobs', answer.id]));
    } catch (problem) {
      setError(problem);
      setBusy(false);
    }
  };
  const text = (field: keyof Form, label: string, note?: string, more: { placeholder?: string; list?: string; inputMode?: 'numeric' } = {}): JSX.Element => (
    <Field label={label} note={note} wrong={tried ? wrong[field] : null}>
      {(attributes) => <input {...attributes} {...more} type="text" name={field} value={form[field]} autocomplete="off" spellcheck={false} onInput={(event) => setForm({ ...form, [field]: event.currentTarget.value })} />}
    </Field>
  );
  return (
    <>
      <Head title="New job" />
      <Card class="narrow">
        <form class="form" onSubmit={submit} noValidate>
          <div class="row">
            {text('type', 'Type', 'The task that runs it.', { placeholder: 'resize', list: 'known-tasks' })}
            {text('target', 'Target', 'What it is about; shown in lists.')}
          </div>
          <datalist id="known-tasks">{(tasks.data.value ?? []).map((task) => <option key={task.name} value={task.name} />)}</datalist>
          <Field label="Parameters" note="JSON, handed to the task as it is." wrong={wrong.params}>
            {(attributes) => <textarea {...attributes} name="params" rows={6} value={form.params} spellcheck={false} onInput={(event) => setForm({ ...form, params: event.currentTarget.value })} />}
          </Field>
          <div class="row">
            {text('group', 'Group', 'Takes turns with other groups.')}
            {text('priority', 'Priority', 'Higher goes first; 0 is normal.', { inputMode: 'numeric', placeholder: '0' })}
            {text('delay', 'Not before', 'From now: 30s, 5m, 2h.')}
          </div>
          <details open={like !== null}>
            <summary>Attempts, services, dependencies and the rest</summary>
            <div class="form">
              <div class="row">{text('max_attempts', 'Attempts, at most', undefined, { inputMode: 'numeric' })}{text('max_runtime', 'May run for', 'Such as 90s or 10m.')}{text('expires', 'Cancel if not begun within')}</div>
              <div class="row">{text('services', 'Services', 'Names, or name:units.')}{text('key', 'Key', 'Limits per key are counted by it.')}</div>
              {text('depends_on', 'Waits for', 'Ids of jobs that must complete first.')}
              <div class="row">{text('queue', 'Queue', undefined, { placeholder: 'default' })}{text('project', 'Project')}{text('labels', 'Labels')}</div>
              {text('idempotency_key', 'Idempotency key', 'Submitting the same key again gives the job that is there.')}
            </div>
          </details>
          {error != null && <Problem error={error} />}
          <div class="form-end"><button type="submit" class="primary" disabled={busy || !may('submit')}>{busy ? 'One moment…' : 'Submit job'}</button>{!may('submit') && <span class="soft">This takes a token with the role submit.</span>}</div>
        </form>
      </Card>
    </>
  );
}
