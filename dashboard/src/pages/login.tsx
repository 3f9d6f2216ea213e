// The login: a token in, a cookie that scripts cannot read out. The page that was asked for opens afterwards.
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Mark } from '../parts/icons';
import { Field } from '../parts/layout';
import { Problem } from '../parts/notices';
import { login } from '../who';

export function LoginPage(): JSX.Element {
  const [token, setToken] = useState('');
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    document.title = 'Log in · runcue';
  }, []);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (busy || token.trim() === '') return;
    setBusy(true);
    setError(null);
    try {
      await login(token.trim());
    } catch (problem) {
      setError(problem);
      setBusy(false);
    }
  };
  return (
    <main class="login" id="main">
      <form onSubmit={submit}>
        <h1 class="brand"><Mark />runcue</h1>
        <Field label="Token" note={<>An admin makes one with <code>runcue token create</code>.</>}>
          {(attributes) => <input {...attributes} type="password" name="token" autocomplete="current-password" value={token} onInput={(event) => setToken(event.currentTarget.value)} ref={(input) => { if (input && !document.activeElement?.matches('input')) input.focus(); }} />}
        </Field>
        {error != null && <Problem error={error} />}
        <button type="submit" class="primary" disabled={busy || token.trim() === ''}>{busy ? 'One moment…' : 'Log in'}</button>
      </form>
    </main>
  );
}
