package dueline.interop;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientConfigurationBuilder;
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.StaticSessionCredentialsProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.MessageListener;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/** The tour with the official Java client, encrypted; see `tests/interop/grpc_tour.py`. */
public final class Tour {
    private static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    private static final long DEADLINE = System.currentTimeMillis() + 60_000;
    private static final AtomicInteger PUSHED = new AtomicInteger();
    private static ClientConfiguration configuration;
    private static String prefix;

    public static void main(String[] arguments) throws Exception {
        ClientConfigurationBuilder builder = ClientConfiguration.newBuilder().setEndpoints(arguments[0]);
        String name = System.getenv("INTEROP_ACCESS_KEY");
        if (name != null) {
            builder.setCredentialProvider(
                new StaticSessionCredentialsProvider(name, System.getenv("INTEROP_SECRET_KEY")));
        }
        configuration = builder.build();
        prefix = arguments[1];
        try {
            tour();
            say("{\"event\":\"done\"}");
        } catch (Throwable error) {
            error.printStackTrace();
            say("{\"event\":\"error\",\"text\":" + quoted(String.valueOf(error)) + "}");
        }
        System.exit(0);
    }

    private static void tour() throws Exception {
        Producer producer = PROVIDER.newProducerBuilder()
            .setClientConfiguration(configuration)
            .setTopics(topic("plain"), topic("again"), topic("dead"), topic("order"), topic("half"))
            .setTransactionChecker(view -> {
                say("{\"event\":\"asked\",\"body\":" + quoted(body(view)) + "}");
                return TransactionResolution.COMMIT;
            })
            .build();
        push("push", topic("plain"), topic("half"), view -> {
            received("push", view);
            PUSHED.incrementAndGet();
            return ConsumeResult.SUCCESS;
        });
        push("dead", topic("dead"), topic("dead"), view -> {
            received("failing", view);
            return ConsumeResult.FAILURE;
        });
        producer.send(message("dead", "dead").build());
        sendPlain(producer);
        sendTransactions(producer);
        receiveAgain(producer);
        receiveInOrder(producer);
        receiveDead();
        while (PUSHED.get() < 13 && System.currentTimeMillis() < DEADLINE) {
            Thread.sleep(50);
        }
    }

    private static void sendPlain(Producer producer) throws ClientException {
        for (int i = 0; i < 5; i++) {
            producer.send(message("plain", "normal-" + i).build());
        }
        for (int i = 0; i < 5; i++) {
            producer.send(delayed("plain", "delayed-" + i, 2_000));
        }
        producer.send(delayed("plain", "timed", 3_000));
        var handle = producer.send(delayed("plain", "recalled", 4_000)).getRecallHandle();
        var recalled = producer.recallMessage(topic("plain"), handle);
        say("{\"event\":\"recalled\",\"id\":" + quoted(recalled.getMessageId().toString()) + "}");
        try {
            producer.recallMessage(topic("plain"), "bm90IGEgaGFuZGxl");
        } catch (ClientException error) {
            say("{\"event\":\"recall-refused\",\"text\":" + quoted(error.getMessage()) + "}");
        }
    }

    private static void sendTransactions(Producer producer) throws ClientException {
        for (String body : new String[] {"committed", "rolled-back", "orphan"}) {
            Transaction transaction = producer.beginTransaction();
            producer.send(message("half", body).build(), transaction);
            if (body.equals("committed")) {
                transaction.commit();
            } else if (body.equals("rolled-back")) {
                transaction.rollback();
            }
        }
    }

    private static void receiveAgain(Producer producer) throws ClientException {
        producer.send(message("again", "again").build());
        SimpleConsumer consumer = simple("simple", topic("again"));
        int count = 0;
        while (count < 3 && System.currentTimeMillis() < DEADLINE) {
            for (MessageView view : consumer.receive(1, Duration.ofSeconds(1))) {
                count++;
                received("simple", view);
                if (count == 2) {
                    consumer.changeInvisibleDuration(view, Duration.ofSeconds(2));
                } else if (count == 3) {
                    consumer.ack(view);
                }
            }
        }
    }

    private static void receiveInOrder(Producer producer) throws ClientException {
        for (int i = 0; i < 12; i++) {
            String group = i % 2 == 0 ? "a" : "b";
            producer.send(message("order", group + i / 2).setMessageGroup(group).build());
        }
        SimpleConsumer consumer = simple("order", topic("order"));
        int count = 0;
        while (count < 12 && System.currentTimeMillis() < DEADLINE) {
            for (MessageView view : consumer.receive(8, Duration.ofSeconds(20))) {
                count++;
                received("order", view);
                consumer.ack(view);
            }
        }
    }

    private static void receiveDead() throws ClientException {
        SimpleConsumer consumer = simple("buried", "%DLQ%" + topic("dead"));
        while (System.currentTimeMillis() < DEADLINE) {
            for (MessageView view : consumer.receive(1, Duration.ofSeconds(20))) {
                received("dead", view);
                consumer.ack(view);
                return;
            }
        }
    }

    private static SimpleConsumer simple(String group, String name) throws ClientException {
        return PROVIDER.newSimpleConsumerBuilder()
            .setClientConfiguration(configuration)
            .setConsumerGroup(topic(group))
            .setAwaitDuration(Duration.ofSeconds(3))
            .setSubscriptionExpressions(Map.of(name, FilterExpression.SUB_ALL))
            .build();
    }

    private static void push(String group, String first, String second, MessageListener listener)
            throws ClientException {
        Map<String, FilterExpression> subscriptions = first.equals(second)
            ? Map.of(first, FilterExpression.SUB_ALL)
            : Map.of(first, FilterExpression.SUB_ALL, second, new FilterExpression("tour"));
        PROVIDER.newPushConsumerBuilder()
            .setClientConfiguration(configuration)
            .setConsumerGroup(topic(group))
            .setSubscriptionExpressions(subscriptions)
            .setMessageListener(listener)
            .build();
    }

    private static MessageBuilder message(String name, String body) {
        return PROVIDER.newMessageBuilder()
            .setTopic(topic(name))
            .setTag("tour")
            .setKeys(body)
            .setBody(body.getBytes(StandardCharsets.UTF_8));
    }

    private static Message delayed(String name, String body, long delayMs) {
        long at = System.currentTimeMillis() + delayMs;
        return message(name, body).setDeliveryTimestamp(at).build();
    }

    private static String topic(String name) {
        return prefix + "-" + name;
    }

    private static String body(MessageView view) {
        ByteBuffer buffer = view.getBody();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return new String(bytes, StandardCharsets.UTF_8);
    }

    private static void received(String by, MessageView view) {
        say("{\"event\":\"received\",\"by\":" + quoted(by)
            + ",\"topic\":" + quoted(view.getTopic())
            + ",\"body\":" + quoted(body(view))
            + ",\"attempt\":" + view.getDeliveryAttempt()
            + ",\"now_ms\":" + System.currentTimeMillis()
            + ",\"due_ms\":" + view.getDeliveryTimestamp().orElse(0L)
            + ",\"tag\":" + quoted(view.getTag().orElse("")) + "}");
    }

    private static String quoted(String text) {
        return '"' + text.replaceAll("[^ -!#-\\[\\]-~]", "?") + '"';
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
