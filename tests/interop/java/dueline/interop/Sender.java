package dueline.interop;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/** Sends {@code --count} messages, delayed or not, the way {@code --mode} says. */
final class Sender {
    private Sender() {
    }

    static void send(Options options) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(
            options.text("group", "interop_producer"), Identity.hook());
        producer.setNamesrvAddr(options.text("namesrv"));
        producer.setSendMsgTimeout(60_000);
        producer.setMqClientApiTimeout(60_000);
        if (options.has("namespace")) {
            producer.setNamespace(options.text("namespace"));
        }
        Release.configure(producer, options);
        producer.start();
        int count = options.number("count", 1);
        List<Message> messages = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            messages.add(message(options, i));
        }
        switch (options.text("mode", "sync")) {
            case "sync":
                for (int i = 0; i < count; i++) {
                    printSent(i, messages.get(i), producer.send(messages.get(i)));
                }
                break;
            case "ordered":
                // Messages of one order go to one queue, as an orderly consumer expects.
                int orders = options.number("orders", 2);
                for (int i = 0; i < count; i++) {
                    int order = i % orders;
                    printSent(i, messages.get(i), producer.send(messages.get(i),
                        (queues, message, argument) -> queues.get((Integer) argument % queues.size()), order));
                }
                break;
            case "async":
                sendAsync(producer, messages);
                break;
            case "oneway":
                for (int i = 0; i < count; i++) {
                    producer.sendOneway(messages.get(i));
                    Events.print("sent", "index", i, "id", uniqueId(messages.get(i)));
                }
                break;
            case "batch":
                printSent(0, null, producer.send(messages));
                for (int i = 0; i < count; i++) {
                    Events.print("sent", "index", i, "id", uniqueId(messages.get(i)));
                }
                break;
            default:
                throw new IllegalArgumentException("unknown mode " + options.text("mode"));
        }
        producer.shutdown();
    }

    private static Message message(Options options, int index) {
        StringBuilder body = new StringBuilder(options.text("body", "message")).append('-').append(index);
        while (body.length() < options.number("body-size", 0)) {
            body.append('.');
        }
        Message message = new Message(options.text("topic"), options.text("tag", ""),
            options.text("key", ""), body.toString().getBytes(StandardCharsets.UTF_8));
        if (options.has("level")) {
            // One level for all, or one for each.
            String[] levels = options.text("level").split(",");
            message.setDelayTimeLevel(Integer.parseInt(levels[index % levels.length]));
        }
        message.putUserProperty("index", Integer.toString(index));
        Release.apply(message, options);
        return message;
    }

    private static void sendAsync(DefaultMQProducer producer, List<Message> messages) throws Exception {
        CountDownLatch open = new CountDownLatch(messages.size());
        for (int i = 0; i < messages.size(); i++) {
            int index = i;
            producer.send(messages.get(i), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    printSent(index, messages.get(index), result);
                    open.countDown();
                }

                @Override
                public void onException(Throwable error) {
                    Events.print("error", "code", -1, "message", error.toString());
                    open.countDown();
                }
            });
        }
        if (!open.await(30, TimeUnit.SECONDS)) {
            throw new IllegalStateException(open.getCount() + " sends were not answered");
        }
    }

    private static void printSent(int index, Message message, SendResult result) {
        Events.print(message == null ? "batch" : "sent",
            "index", index,
            "id", result.getMsgId(),
            "offsetId", result.getOffsetMsgId(),
            "status", result.getSendStatus().name(),
            "queue", result.getMessageQueue().getQueueId(),
            "queueOffset", result.getQueueOffset(),
            "handle", Release.handle(result));
    }

    private static String uniqueId(Message message) {
        return message.getProperty("UNIQ_KEY");
    }
}
