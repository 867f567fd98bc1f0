package dueline.interop;

import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/** A push consumer that tells what it receives; {@code --failures} is how often it refuses each. */
final class Consumer {
    private Consumer() {
    }

    static void consume(Options options) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(
            options.text("group"), Identity.hook(), new AllocateMessageQueueAveragely());
        consumer.setNamesrvAddr(options.text("namesrv"));
        consumer.setMqClientApiTimeout(60_000);
        if (options.has("namespace")) {
            consumer.setNamespace(options.text("namespace"));
        }
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(options.text("topic"), options.text("expression", "*"));
        consumer.setMaxReconsumeTimes(options.number("max-reconsume", -1));
        consumer.setConsumeThreadMin(2);
        consumer.setConsumeThreadMax(4);
        // A client that missed a change looks again after half a minute; a test need not wait so long.
        consumer.setHeartbeatBrokerInterval(options.number("refresh-ms", 1_000));
        consumer.setPollNameServerInterval(options.number("refresh-ms", 1_000));
        int failures = options.number("failures", 0);
        String mode = options.text("mode", "concurrent");
        if (mode.equals("broadcasting")) {
            Release.broadcast(consumer);
        }
        if (mode.equals("orderly")) {
            consumer.setSuspendCurrentQueueTimeMillis(200);
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) ->
                receive(messages, failures)
                    ? ConsumeOrderlyStatus.SUCCESS : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT);
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) ->
                receive(messages, failures)
                    ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER);
        }
        consumer.start();
        Events.print("ready");
        Client.awaitEndOfInput();
        consumer.shutdown();
    }

    private static boolean receive(List<MessageExt> messages, int failures) {
        boolean isDone = true;
        for (MessageExt message : messages) {
            boolean isRefused = message.getReconsumeTimes() < failures;
            printReceived(message, "isRefused", isRefused);
            isDone &= !isRefused;
        }
        return isDone;
    }

    static void printReceived(MessageExt message, Object... more) {
        Object[] fields = {
            "id", message.getMsgId(),
            "topic", message.getTopic(),
            "queue", message.getQueueId(),
            "queueOffset", message.getQueueOffset(),
            "body", new String(message.getBody(), StandardCharsets.UTF_8),
            "tags", message.getTags(),
            "keys", message.getKeys(),
            "attempt", message.getReconsumeTimes(),
            "bornAt", message.getBornTimestamp(),
            "storedAt", message.getStoreTimestamp(),
            "properties", message.getProperties()};
        Object[] all = new Object[fields.length + more.length];
        System.arraycopy(fields, 0, all, 0, fields.length);
        System.arraycopy(more, 0, all, fields.length, more.length);
        Events.print("received", all);
    }
}
