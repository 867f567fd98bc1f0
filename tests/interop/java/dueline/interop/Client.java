package dueline.interop;

import java.util.List;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A real client as a program: {@code <command> --namesrv host:port --name value ...}.
 *
 * Commands that wait (consume, transact, pull) say "ready" and work until their input ends.
 */
public final class Client {
    private Client() {
    }

    public static void main(String[] arguments) throws Exception {
        try {
            run(arguments[0], new Options(arguments, 1));
        } catch (MQBrokerException error) {
            Events.print("error", "code", error.getResponseCode(), "message", error.getErrorMessage());
            System.exit(1);
        } catch (MQClientException error) {
            Events.print("error", "code", error.getResponseCode(),
                "message", error.getMessage() + "; " + error.getCause());
            System.exit(1);
        } catch (Exception error) {
            Events.print("error", "code", -1, "message", error.toString());
            System.exit(1);
        }
        Events.print("stopped");
        System.exit(0);
    }

    private static void run(String command, Options options) throws Exception {
        switch (command) {
            case "send":
                Sender.send(options);
                break;
            case "consume":
                Consumer.consume(options);
                break;
            case "transact":
                Transactor.transact(options);
                break;
            case "pull":
                pull(options);
                break;
            case "query":
                query(options);
                break;
            case "recall":
                recall(options);
                break;
            default:
                throw new IllegalArgumentException("unknown command " + command);
        }
    }

    /** Blocks until whoever started this program closes its input. */
    static void awaitEndOfInput() throws Exception {
        while (System.in.read() >= 0) {
            // Whatever is written to us only says that somebody is still there.
        }
    }

    private static void pull(Options options) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(options.text("group"), Identity.hook());
        consumer.setNamesrvAddr(options.text("namesrv"));
        consumer.setMqClientApiTimeout(60_000);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(options.text("topic"), options.text("expression", "*"));
        consumer.start();
        Events.print("ready");
        int wanted = options.number("count", 1);
        long deadline = System.currentTimeMillis() + options.number("timeout-ms", 400_000);
        while (wanted > 0 && System.currentTimeMillis() < deadline) {
            for (MessageExt message : consumer.poll(1000)) {
                Consumer.printReceived(message);
                wanted--;
            }
            consumer.commitSync();
        }
        consumer.shutdown();
    }

    private static void query(Options options) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("interop_query", Identity.hook());
        producer.setNamesrvAddr(options.text("namesrv"));
        producer.setMqClientApiTimeout(60_000);
        producer.start();
        String topic = options.text("topic");
        if (options.has("id")) {
            printFound(List.of(producer.viewMessage(topic, options.text("id"))));
        } else {
            long now = System.currentTimeMillis();
            QueryResult result =
                producer.queryMessage(topic, options.text("key"), 32, now - 3_600_000, now + 3_600_000);
            printFound(result.getMessageList());
        }
        producer.shutdown();
    }

    private static void printFound(List<MessageExt> messages) {
        for (MessageExt message : messages) {
            Events.print("found",
                "id", message.getMsgId(),
                "topic", message.getTopic(),
                "keys", message.getKeys(),
                "body", new String(message.getBody()),
                "queue", message.getQueueId(),
                "queueOffset", message.getQueueOffset());
        }
    }

    private static void recall(Options options) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("interop_recall", Identity.hook());
        producer.setNamesrvAddr(options.text("namesrv"));
        producer.setMqClientApiTimeout(60_000);
        producer.start();
        // The route of the topic must be known before a handle can be sent to its broker.
        producer.fetchPublishMessageQueues(options.text("topic"));
        Events.print("recalled",
            "id", Release.recall(producer, options.text("topic"), options.text("handle")));
        producer.shutdown();
    }
}
