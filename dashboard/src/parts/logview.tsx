// Owns the output of a job: followed live, bounded, stays at the end unless somebody scrolled up.
import type { JSX } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { isAway } from '../api';
import { count, exact } from '../format';
import { followLogs } from '../live';
import { addLines, MOST_LINES } from '../loglines';
import type { Shown } from '../loglines';
import { Card } from './layout';
import { Problem } from './notices';

const clockForm = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const MARK: Record<string, string> = { stdout: '', stderr: '!', note: '·' };

export function LogView({ id, open }: { id: string; open: boolean }): JSX.Element {
  const [shown, setShown] = useState<Shown>({ lines: [], dropped: 0 });
  const [state, setState] = useState<'following' | 'ended' | 'offline' | 'connecting'>('connecting');
  const [error, setError] = useState<unknown>(null);
  const box = useRef<HTMLDivElement>(null);
  const atEnd = useRef(true);
  const last = useRef(0);
  const [round, setRound] = useState(0);

  useEffect(() => followLogs(id, last.current, (lines) => {
    last.current = Math.max(last.current, ...lines.map((line) => line.n));
    setShown((before) => addLines(before, lines));
  }, (now, problem) => {
    setState(now);
    setError(now === 'offline' && problem !== undefined && !isAway(problem) ? problem : null);
  }), [id, round]);

  // A job that was sent round again writes again: follow from where it stopped.
  useEffect(() => {
    if (open && state === 'ended') setRound((before) => before + 1);
  }, [open]);

  useLayoutEffect(() => {
    if (atEnd.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [shown]);

  const onScroll = (): void => {
    const element = box.current;
    if (element) atEnd.current = element.scrollHeight - element.scrollTop - element.clientHeight < 30;
  };
  const words = { connecting: 'connecting…', following: 'following', ended: 'ended', offline: 'not connected' }[state];
  return (
    <Card title="Output" bare actions={<span class="soft log-state" role="status">{words}{shown.dropped > 0 && `, the last ${count(MOST_LINES)} lines`}</span>}>
      {error != null && <div class="inside"><Problem error={error} /></div>}
      <div class={open ? 'log open' : 'log'} ref={box} onScroll={onScroll} tabIndex={0} role="log" aria-live="off" aria-label="Output of the job">
        {shown.lines.length === 0 && <p class="nothing">{state === 'ended' ? 'It wrote nothing.' : 'Nothing written yet. What the job writes appears here.'}</p>}
        {shown.lines.map((line, index) => (
          <>
            {(index === 0 || shown.lines[index - 1]!.attempt !== line.attempt) && <p class="attempt" key={`attempt-${line.key}`}>Attempt {line.attempt}</p>}
            <div key={line.key} class={line.stream}>
              <time title={exact(line.at)}>{clockForm.format(line.at)}</time>
              <span class="mark" title={line.stream}>{MARK[line.stream] ?? ''}</span>
              <span>{line.text}</span>
            </div>
          </>
        ))}
      </div>
    </Card>
  );
}
