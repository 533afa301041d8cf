// TLS, client certificates and tokens, with @grpc/grpc-js and with the package etcd3. Arguments: an address, and the folder with the certificates of
// alice, who may use /app/, and of stranger, who is no user.
const assert = require('node:assert');
const fs = require('node:fs');
const path = require('node:path');
const grpc = require('@grpc/grpc-js');
const { Etcd3 } = require('etcd3');

const [address, folder] = process.argv.slice(2);
const raw = (data) => data;
const read = (name) => fs.readFileSync(path.join(folder, name));

// field is a short text of a message.
function field(number, content) {
  const data = Buffer.from(content);
  return Buffer.concat([Buffer.from([(number << 3) | 2, data.length]), data]);
}

function connect(name, authority = 'ca.pem') {
  const shown = name ? [read(`${name}.pk8`), read(`${name}.pem`)] : [];
  return new grpc.Client(address, grpc.credentials.createSsl(read(authority), ...shown));
}

function unary(client, method, request, token) {
  const metadata = new grpc.Metadata();
  if (token) metadata.set('token', token);
  return new Promise((resolve, reject) => {
    const done = (error, answer) => (error ? reject(error) : resolve(answer));
    client.makeUnaryRequest(method, raw, raw, request, metadata, { deadline: Date.now() + 30_000 }, done);
  });
}

const put = (client, key, token) => unary(client, '/etcdserverpb.KV/Put', Buffer.concat([field(1, key), field(2, 'value')]), token);
const authenticate = (client, password) =>
  unary(client, '/etcdserverpb.Auth/Authenticate', Buffer.concat([field(1, 'alice'), field(2, password)]));

// tokenIn is the second field, behind the header.
function tokenIn(answer) {
  const begin = 2 + answer[1];
  return answer.subarray(begin + 2, begin + 2 + answer[begin + 1]).toString();
}

async function expect(code, call, text) {
  const error = await call.then(() => undefined, (failed) => failed);
  assert.strictEqual(error?.code, code, String(error));
  if (text) assert.strictEqual(error.details, text);
}

// withEtcd3 does the same with an etcd client: as the user of its certificate, and as one with a password.
async function withEtcd3(name, auth) {
  const credentials = { rootCertificate: read('ca.pem'), privateKey: read(`${name}.pk8`), certChain: read(`${name}.pem`) };
  const client = new Etcd3({ hosts: `https://${address}`, credentials, auth });
  await client.put('/app/etcd3').value(name);
  assert.strictEqual(await client.get('/app/etcd3').string(), name);
  await assert.rejects(client.put('/other').value('x').exec(), /permission denied/);
  client.close();
}

async function main() {
  const denied = 'etcdserver: permission denied';
  const [alice, stranger] = [connect('alice'), connect('stranger')];
  await put(alice, '/app/node');
  await expect(grpc.status.PERMISSION_DENIED, put(alice, '/other'), denied);
  const token = tokenIn(await authenticate(stranger, 'of alice'));
  await put(stranger, '/app/node', token);
  await expect(grpc.status.PERMISSION_DENIED, put(stranger, '/other', token), denied);
  await expect(grpc.status.UNAUTHENTICATED, put(stranger, '/app/node', 'x.1'), 'etcdserver: invalid auth token');
  await expect(grpc.status.INVALID_ARGUMENT, authenticate(stranger, 'wrong'),
    'etcdserver: authentication failed, invalid user ID or password');
  const refused = [connect(), connect('alice', 'foreign.pem'), connect('revoked')];
  for (const client of refused) await expect(grpc.status.UNAVAILABLE, put(client, '/app/node'));
  for (const client of [alice, stranger, ...refused]) client.close();
  await withEtcd3('alice');
  await withEtcd3('stranger', { username: 'alice', password: 'of alice' });
  console.log('ok: secure');
}

main().catch((error) => { console.error(error); process.exit(1); });
