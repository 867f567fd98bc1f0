import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/** A 5.x push consumer that lets the broker choose: name server, topic, group; refuses "bad" once. */
public final class PopConsumer {
    private PopConsumer() {
    }

    public static void main(String[] arguments) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(arguments[2]);
        consumer.setNamesrvAddr(arguments[0]);
        consumer.setClientRebalance(false);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(arguments[1], "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            boolean isDone = true;
            for (MessageExt message : messages) {
                String body = new String(message.getBody(), StandardCharsets.UTF_8);
                boolean isRefused = body.startsWith("bad") && message.getReconsumeTimes() == 0;
                System.out.printf(
                    "{\"event\":\"received\",\"at\":%d,\"bornAt\":%d,\"body\":\"%s\",\"attempt\":%d,\"isPopped\":%b}%n",
                    System.currentTimeMillis(), message.getBornTimestamp(), body,
                    message.getReconsumeTimes(), message.getProperty("POP_CK") != null);
                isDone &= !isRefused;
            }
            return isDone ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        consumer.start();
        System.out.println("{\"event\":\"ready\"}");
        while (System.in.read() >= 0) {
            continue;
        }
        consumer.shutdown();
        System.exit(0);
    }
}
