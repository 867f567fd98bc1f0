package dueline.interop;

import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.compression.CompressionType;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;

/** What this release does in its own way: a 5.x client can name any time, and take back. */
final class Release {
    private Release() {
    }

    static void apply(Message message, Options options) {
        if (options.has("delay-ms")) {
            message.setDelayTimeMs(options.longNumber("delay-ms"));
        }
        if (options.has("delay-sec")) {
            message.setDelayTimeSec(options.longNumber("delay-sec"));
        }
        if (options.has("deliver-ms")) {
            message.setDeliverTimeMs(options.longNumber("deliver-ms"));
        }
    }

    static void configure(DefaultMQProducer producer, Options options) {
        if (options.has("compress")) {
            producer.setCompressType(CompressionType.valueOf(options.text("compress")));
        }
    }

    static void broadcast(DefaultMQPushConsumer consumer) {
        consumer.setMessageModel(MessageModel.BROADCASTING);
    }

    static String handle(SendResult result) {
        return result.getRecallHandle();
    }

    static String recall(DefaultMQProducer producer, String topic, String handle) throws Exception {
        return producer.recallMessage(topic, handle);
    }
}
