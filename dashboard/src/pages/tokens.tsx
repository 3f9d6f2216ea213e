// The tokens page, for admins: who may do what. A new token is shown once.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import * as api from '../api';
import { Dialog } from '../parts/dialog';
import { Card, Field, Head } from '../parts/layout';
import { Copy, Empty, Loaded } from '../parts/notices';
import { Ago } from '../parts/time';
import { useResource } from '../resource';
import { makeFirstToken, who } from '../who';
import { tell } from '../toasts';
import type { Role, TokenView } from '../types';

const ROLES: Record<Role, string> = { read: 'looks', submit: 'also submits, and cancels by id', work: 'registers, claims and reports', admin: 'everything' };

export function TokensPage(): JSX.Element {
  const tokens = useResource('tokens', api.tokens, {});
  const [making, setMaking] = useState(false);
  const [revoking, setRevoking] = useState<TokenView | null>(null);
  const [made, setMade] = useState<{ name: string; token: string } | null>(null);
  return (
    <>
      <Head title="Tokens" actions={<button type="button" class="primary" onClick={() => setMaking(true)}>New token</button>}>
        {who.value?.open ? 'This hub is open: it listens only on this machine and lets everybody do everything. The first token changes that: from then on everybody needs one.' : 'The hub keeps only their hashes.'}
      </Head>
      {made && (
        <Card class="gap-under" title={`Token ${made.name}`} actions={<button type="button" class="small" onClick={() => setMade(null)}>I have it</button>}>
          <p class="gap-under">This is the only time it is shown.</p>
          <div class="secret"><code>{made.token}</code><Copy text={made.token} label="Copy the token" /></div>
        </Card>
      )}
      <Card bare>
        <Loaded of={tokens}>
          {(list) => list.length === 0
            ? <Empty title="No tokens yet" command="runcue token create laptop --role admin"><p>A hub that others can reach needs at least one.</p></Empty>
            : (
              <table class="stacked steady">
                <thead><tr><th scope="col">Name</th><th scope="col">Role</th><th scope="col" class="w-time">Made</th><th scope="col" class="w-acts1"><span class="unseen">Actions</span></th></tr></thead>
                <tbody>
                  {list.map((token) => (
                    <tr key={token.name}>
                      <td><strong>{token.name}</strong></td>
                      <td data-label="Role"><span>{token.role} <span class="faint">{ROLES[token.role]}</span></span></td>
                      <td data-label="Made"><Ago at={token.created_at} /></td>
                      <td class="acts"><div class="row-buttons"><button type="button" class="small danger" onClick={() => setRevoking(token)} aria-label={`Revoke ${token.name}`}>Revoke…</button></div></td>
                    </tr>
                  ))}
                </tbody>
              </table>
            )}
        </Loaded>
      </Card>
      {making && <TokenDialog onClose={() => setMaking(false)} onMade={(token) => { setMade(token); tokens.refresh(); }} />}
      {revoking && (
        <Dialog title={`Revoke ${revoking.name}?`} tone="danger" submit="Revoke it" cancel="Keep it" onClose={() => setRevoking(null)} onSubmit={async () => { await api.revokeToken(revoking.name); tell('good', `${revoking.name} is revoked.`); tokens.refresh(); }}>
          <p>Whoever uses it is refused from now on.{revoking.name === who.value?.name && ' This is the token you are logged in with.'}</p>
        </Dialog>
      )}
    </>
  );
}

function TokenDialog({ onClose, onMade }: { onClose: () => void; onMade: (token: { name: string; token: string }) => void }): JSX.Element {
  const [name, setName] = useState('');
  const [role, setRole] = useState<Role>(who.value?.open ? 'admin' : 'read');
  const first = who.value?.open ?? false;
  const make = async (): Promise<void> => {
    const create = (): Promise<{ name: string; token: string }> => api.createToken({ name: name.trim(), role });
    onMade(first ? await makeFirstToken(create) : await create());
  };
  return (
    <Dialog title="New token" onClose={onClose} onSubmit={make} submit="Create token" ready={name.trim() !== ''}>
      <div class="form">
        <Field label="Name" note="Who or what uses it.">{(attributes) => <input {...attributes} value={name} autocomplete="off" onInput={(event) => setName(event.currentTarget.value)} />}</Field>
        <fieldset class="form tight">
          <legend><strong>Role</strong></legend>
          {first && <p class="soft">The first token is for an admin, who can make the others. You are logged in with it at once.</p>}
          {(Object.keys(ROLES) as Role[]).map((one) => <label key={one} class="check"><input type="radio" name="role" checked={role === one} disabled={first && one !== 'admin'} onChange={() => setRole(one)} />{one}<span class="faint">{ROLES[one]}</span></label>)}
        </fieldset>
      </div>
    </Dialog>
  );
}
