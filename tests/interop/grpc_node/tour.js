// The tour with the official Node.js client; see `tests/interop/grpc_tour.py` for its steps.
'use strict';

const {
  ConsumeResult, Producer, PushConsumer, SimpleConsumer,
} = require('rocketmq-client-nodejs');
const { TransactionResolution } = require(
  'rocketmq-client-nodejs/proto/apache/rocketmq/v2/definition_pb');

const [endpoints, prefix] = process.argv.slice(2);
const {
  INTEROP_ACCESS_KEY: accessKey, INTEROP_SECRET_KEY: accessSecret,
} = process.env;
const identity = accessKey ? { sessionCredentials: { accessKey, accessSecret } } : {};
const deadline = Date.now() + 60_000;
const pushed = [];

const say = (event) => process.stdout.write(JSON.stringify(event) + '\n');
const topic = (name) => `${prefix}-${name}`;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function received(by, message) {
  say({
    event: 'received',
    by,
    topic: message.topic,
    body: message.body.toString(),
    attempt: message.deliveryAttempt,
    now_ms: Date.now(),
    due_ms: message.deliveryTimestamp ? message.deliveryTimestamp.getTime() : 0,
    tag: message.tag || '',
  });
}

async function simple(group, name) {
  const consumer = new SimpleConsumer({
    endpoints,
    ...identity,
    consumerGroup: group,
    subscriptions: new Map([[name, '*']]),
    awaitDuration: 3000,
  });
  await consumer.startup();
  return consumer;
}

async function push(group, name, consume) {
  const consumer = new PushConsumer({
    endpoints,
    ...identity,
    consumerGroup: group,
    subscriptions: new Map([[name, '*']]),
    messageListener: { consume },
    longPollingTimeout: 5000,
  });
  await consumer.startup();
  return consumer;
}

function message(name, body, more = {}) {
  return { topic: topic(name), tag: 'tour', keys: [body], body: Buffer.from(body), ...more };
}

async function sendPlain(producer) {
  for (let i = 0; i < 5; i++) await producer.send(message('plain', `normal-${i}`));
  for (let i = 0; i < 5; i++) {
    await producer.send(message('plain', `delayed-${i}`, { delay: 2000 }));
  }
  const at = new Date(Date.now() + 3000);
  await producer.send(message('plain', 'timed', { deliveryTimestamp: at }));
  const { recallHandle } = await producer.send(message('plain', 'recalled', { delay: 4000 }));
  const receipt = await producer.recallMessage(topic('plain'), recallHandle);
  say({ event: 'recalled', id: receipt.messageId });
  try {
    await producer.recallMessage(topic('plain'), 'bm90IGEgaGFuZGxl');
  } catch (error) {
    say({ event: 'recall-refused', text: error.message });
  }
}

async function sendTransactions(producer) {
  for (const [body, end] of [['committed', 'commit'], ['rolled-back', 'rollback'], ['orphan']]) {
    const transaction = producer.beginTransaction();
    await producer.send(message('half', body), transaction);
    if (end) await transaction[end]();
  }
}

async function receiveAgain(producer) {
  await producer.send(message('again', 'again'));
  const consumer = await simple(topic('simple'), topic('again'));
  let count = 0;
  while (count < 3 && Date.now() < deadline) {
    for (const each of await consumer.receive(1, 1000)) {
      count += 1;
      received('simple', each);
      if (count === 2) await consumer.changeInvisibleDuration(each, 2000);
      if (count === 3) await consumer.ack(each);
    }
  }
}

async function receiveInOrder(producer) {
  for (let i = 0; i < 12; i++) {
    const messageGroup = 'ab'[i % 2];
    await producer.send(message('order', `${messageGroup}${i >> 1}`, { messageGroup }));
  }
  const consumer = await simple(topic('order'), topic('order'));
  let count = 0;
  while (count < 12 && Date.now() < deadline) {
    for (const each of await consumer.receive(8, 20_000)) {
      count += 1;
      received('order', each);
      await consumer.ack(each);
    }
  }
}

async function receiveDead() {
  const consumer = await simple(topic('buried'), `%DLQ%${topic('dead')}`);
  while (Date.now() < deadline) {
    for (const each of await consumer.receive(1, 20_000)) {
      received('dead', each);
      await consumer.ack(each);
      return;
    }
  }
}

async function main() {
  const checker = {
    check: async (half) => {
      say({ event: 'asked', body: half.body.toString() });
      return TransactionResolution.COMMIT;
    },
  };
  // This client hangs at startup if it is told several topics.
  const producer = new Producer({ endpoints, ...identity });
  await producer.startup();
  const decider = new Producer({
    endpoints, ...identity, topic: topic('half'), checker,
  });
  await decider.startup();
  const consume = async (each) => {
    received('push', each);
    pushed.push(each.body);
    return ConsumeResult.SUCCESS;
  };
  await push(topic('push'), topic('plain'), consume);
  await push(topic('push-half'), topic('half'), consume);
  await push(topic('dead'), topic('dead'), async (each) => {
    received('failing', each);
    return ConsumeResult.FAILURE;
  });
  await producer.send(message('dead', 'dead'));
  await sendPlain(producer);
  await sendTransactions(decider);
  await receiveAgain(producer);
  await receiveInOrder(producer);
  await receiveDead();
  while (pushed.length < 13 && Date.now() < deadline) await pause(50);
  say({ event: 'done' });
  process.exit(0);
}

main().catch((error) => {
  say({ event: 'error', text: String(error.stack || error) });
  process.exit(1);
});
