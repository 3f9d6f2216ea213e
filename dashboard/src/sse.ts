// Owns reading an event stream: bytes in, messages out. Knows nothing of the hub's events.

export interface Message { id: string | null; type: string; data: string }

/** A parser for `text/event-stream`, fed with text as it comes, split anywhere. */
export function createParser(emit: (message: Message) => void): (chunk: string) => void {
  let rest = '';
  let type = '';
  let data: string[] = [];
  let id: string | null = null;
  let afterReturn = false;

  function line(text: string): void {
    if (text === '') {
      if (data.length) emit({ id, type: type || 'message', data: data.join('\n') });
      type = '';
      data = [];
      return;
    }
    const colon = text.indexOf(':');
    if (colon === 0) return;
    const field = colon < 0 ? text : text.slice(0, colon);
    let value = colon < 0 ? '' : text.slice(colon + 1);
    if (value.startsWith(' ')) value = value.slice(1);
    if (field === 'data') data.push(value);
    else if (field === 'event') type = value;
    else if (field === 'id' && !value.includes('\0')) id = value;
  }

  return (chunk) => {
    // A CR may end one chunk and its LF begin the next: that is one line end.
    if (afterReturn && chunk.startsWith('\n')) chunk = chunk.slice(1);
    if (chunk === '') return;
    afterReturn = chunk.endsWith('\r');
    const lines = (rest + chunk).split(/\r\n|\n|\r/);
    rest = lines.pop() ?? '';
    lines.forEach(line);
  };
}

/** Reads a response to its end; `beat` is called for every piece, comments too. */
export async function readStream(body: ReadableStream<Uint8Array>, emit: (message: Message) => void, beat: () => void): Promise<void> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const feed = createParser(emit);
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    beat();
    feed(decoder.decode(value, { stream: true }));
  }
}
