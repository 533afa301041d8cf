// gRPC's interoperability cases, put to etcd's API with @grpc/grpc-js. Argument: an address, host:port. Messages are
// encoded by hand: there are few.
const grpc = require('@grpc/grpc-js');
const assert = require('node:assert');

const raw = (data) => data;

function varint(number) {
  const out = [];
  for (; number >= 128; number = Math.floor(number / 128)) out.push((number & 127) | 128);
  return Buffer.from([...out, number]);
}

const put = (client, key, value) => unary(client, '/etcdserverpb.KV/Put', Buffer.concat([field(1, key), field(2, value)]));

function field(number, content) {
  if (typeof content === 'number') return Buffer.concat([varint(number << 3), varint(content)]);
  const data = Buffer.from(content);
  return Buffer.concat([varint((number << 3) | 2), varint(data.length), data]);
}

const none = Buffer.alloc(0);
const soon = () => ({ deadline: Date.now() + 30_000 });

function unary(client, path, request = none, metadata = new grpc.Metadata()) {
  return new Promise((resolve, reject) => {
    const done = (error, answer) => (error ? reject(error) : resolve(answer));
    client.makeUnaryRequest(path, raw, raw, request, metadata, soon(), done);
  });
}

// ended collects the messages of a stream, and the status if it is not OK.
function ended(call) {
  return new Promise((resolve) => {
    const messages = [];
    call.on('data', (message) => messages.push(message));
    call.on('error', (error) => resolve({ messages, error }));
    call.on('end', () => resolve({ messages }));
  });
}

async function expect(code, call, text) {
  const error = await call.then(() => undefined, (failed) => failed);
  assert.strictEqual(error?.code, code, String(error));
  if (text) assert.strictEqual(error.details, text);
}

const bidi = (client, path, options) => client.makeBidiStreamRequest(path, raw, raw, new grpc.Metadata(), options);
const watch = (client, options = soon()) => bidi(client, '/etcdserverpb.Watch/Watch', options);
const keepAlive = (client) => bidi(client, '/etcdserverpb.Lease/LeaseKeepAlive', soon());

const cases = {
  empty_unary: (client) => unary(client, '/etcdserverpb.Maintenance/Status'),

  async large_unary(client) {
    const value = Buffer.alloc(1 << 20, 'v');
    await put(client, 'large', value);
    assert((await unary(client, '/etcdserverpb.KV/Range', field(1, 'large'))).includes(value));
  },

  async server_streaming(client) {
    for (let i = 0; i < 8; i++) {
      await put(client, `stream/${i}`, Buffer.alloc(400_000));
    }
    const range = Buffer.concat([field(1, 'stream/'), field(2, 'stream0')]);
    const path = '/etcdserverpb.KV/RangeStream';
    const call = client.makeServerStreamRequest(path, raw, raw, range, new grpc.Metadata(), soon());
    const { messages, error } = await ended(call);
    assert.ifError(error);
    assert.strictEqual(Buffer.concat(messages).toString('latin1').split('stream/').length, 9);
  },

  async ping_pong(client) {
    const call = keepAlive(client);
    const end = ended(call);
    for (let i = 1; i <= 100; i++) {
      const answer = new Promise((resolve) => call.once('data', resolve));
      call.write(field(1, i));
      await Promise.race([answer, end]);
    }
    call.end();
    const { messages, error } = await end;
    assert.ifError(error);
    assert.strictEqual(messages.length, 100);
  },

  async empty_stream(client) {
    const call = keepAlive(client);
    const end = ended(call);
    call.end();
    assert.deepStrictEqual(await end, { messages: [] });
  },

  async cancel_after_begin(client) {
    const call = watch(client);
    const end = ended(call);
    call.cancel();
    assert.strictEqual((await end).error.code, grpc.status.CANCELLED);
  },

  async cancel_after_first_response(client) {
    const call = watch(client);
    const end = ended(call);
    call.once('data', () => call.cancel());
    call.write(field(1, field(1, 'watched')));
    assert.strictEqual((await end).error.code, grpc.status.CANCELLED);
  },

  async timeout_on_sleeping_server(client) {
    const { error } = await ended(watch(client, { deadline: Date.now() + 1 }));
    // At the deadline the server resets the call, and may be faster than the client.
    assert([grpc.status.DEADLINE_EXCEEDED, grpc.status.CANCELLED].includes(error.code), String(error));
  },

  async custom_metadata(client) {
    const metadata = new grpc.Metadata();
    metadata.set('x-grpc-test-echo-initial', 'value');
    metadata.set('x-grpc-test-echo-trailing-bin', Buffer.from([10, 11]));
    metadata.set('x-long', 'l'.repeat(6000));
    await unary(client, '/etcdserverpb.Maintenance/Status', none, metadata);
  },

  status_code_and_message: (client) =>
    expect(grpc.status.INVALID_ARGUMENT, unary(client, '/etcdserverpb.KV/Put'), 'etcdserver: key is not provided'),

  async unimplemented(client) {
    await expect(grpc.status.UNIMPLEMENTED, unary(client, '/etcdserverpb.KV/UnimplementedCall'),
      'unknown method UnimplementedCall for service etcdserverpb.KV');
    await expect(grpc.status.UNIMPLEMENTED, unary(client, '/grpc.testing.Unimplemented/Call'),
      'unknown service grpc.testing.Unimplemented');
  },

  many_calls_at_once: (client) =>
    Promise.all(Array.from({ length: 500 }, (_, i) => put(client, `many/${i}`, Buffer.alloc(100)))),
};

async function main() {
  for (const options of [{}, { 'grpc.default_compression_algorithm': 2 }]) {
    const client = new grpc.Client(process.argv[2], grpc.credentials.createInsecure(), options);
    for (const [name, run] of Object.entries(cases)) {
      await run(client);
      await cases.empty_unary(client);
      console.log('ok:', name, JSON.stringify(options));
    }
    client.close();
  }
}

main().catch((error) => { console.error(error); process.exit(1); });
