package dueline.interop;

import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.protocol.heartbeat.MessageModel;

/** What this release does in its own way: a 4.x client has delay levels only. */
final class Release {
    private Release() {
    }

    static void apply(Message message, Options options) {
        if (options.has("delay-ms") || options.has("delay-sec") || options.has("deliver-ms")) {
            throw new IllegalArgumentException("this client has no timers");
        }
    }

    static void configure(DefaultMQProducer producer, Options options) {
        if (options.has("compress")) {
            throw new IllegalArgumentException("this client compresses with zlib only");
        }
    }

    static void broadcast(DefaultMQPushConsumer consumer) {
        consumer.setMessageModel(MessageModel.BROADCASTING);
    }

    static String handle(SendResult result) {
        return null;
    }

    static String recall(DefaultMQProducer producer, String topic, String handle) {
        throw new IllegalArgumentException("this client cannot recall");
    }
}
