// Reading event streams, however the bytes are split.
import { expect, test } from 'vitest';
import { createParser, readStream } from '../src/sse';
import type { Message } from '../src/sse';

function parse(...chunks: string[]): Message[] {
  const found: Message[] = [];
  const feed = createParser((message) => found.push(message));
  chunks.forEach(feed);
  return found;
}

test('a message has its type, id and data', () => {
  expect(parse('id: 7\nevent: work_queued\ndata: {"a":1}\n\n')).toEqual([{ id: '7', type: 'work_queued', data: '{"a":1}' }]);
});

test('comments and messages without data are not handed on', () => {
  expect(parse(': still here\n\nevent: x\n\ndata: y\n\n')).toEqual([{ id: null, type: 'message', data: 'y' }]);
});

test('an id holds until the next one', () => {
  expect(parse('id: 3\ndata: a\n\ndata: b\n\n').map((message) => message.id)).toEqual(['3', '3']);
});

test('several lines of data are joined', () => {
  expect(parse('data: one\ndata:two\n\n')[0]?.data).toBe('one\ntwo');
});

test('an unfinished message is not handed on', () => {
  expect(parse('data: a\n')).toEqual([]);
});

const STREAM = ': hello\r\n\r\nid: 1\r\nevent: a\r\ndata: {"x":"ä\u2028"}\r\n\r\nid: 2\rdata: two\r\rdata: three\n\n';
const WHOLE = parse(STREAM);

test('every way of splitting a stream in two gives the same messages', () => {
  expect(WHOLE.map((message) => message.data)).toEqual(['{"x":"ä\u2028"}', 'two', 'three']);
  for (let at = 0; at <= STREAM.length; at++) expect(parse(STREAM.slice(0, at), STREAM.slice(at)), `split at ${at}`).toEqual(WHOLE);
  expect(parse(...STREAM)).toEqual(WHOLE);
});

test('letters split between two pieces of bytes come out whole', async () => {
  const bytes = new TextEncoder().encode('data: äöü€\n\n');
  const body = new ReadableStream<Uint8Array>({ start(controller) { for (const byte of bytes) controller.enqueue(new Uint8Array([byte])); controller.close(); } });
  const found: string[] = [];
  let beats = 0;
  await readStream(body, (message) => found.push(message.data), () => beats++);
  expect(found).toEqual(['äöü€']);
  expect(beats).toBe(bytes.length);
});
