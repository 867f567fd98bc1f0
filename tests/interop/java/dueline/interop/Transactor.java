package dueline.interop;

import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Sends half messages, decides {@code --outcome} at once and {@code --check} when asked again. */
final class Transactor {
    private Transactor() {
    }

    static void transact(Options options) throws Exception {
        LocalTransactionState outcome = state(options.text("outcome", "commit"));
        LocalTransactionState check = state(options.text("check", "commit"));
        TransactionMQProducer producer = new TransactionMQProducer(options.text("group"), Identity.hook());
        producer.setNamesrvAddr(options.text("namesrv"));
        producer.setSendMsgTimeout(60_000);
        producer.setMqClientApiTimeout(60_000);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return outcome;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                Events.print("checked",
                    // Here the client's own id of a message is the property only.
                    "id", message.getProperty("UNIQ_KEY"),
                    "topic", message.getTopic(),
                    "body", new String(message.getBody(), StandardCharsets.UTF_8),
                    "answer", check.name());
                return check;
            }
        });
        producer.start();
        int count = options.number("count", 1);
        for (int i = 0; i < count; i++) {
            byte[] body = (options.text("body", "transaction") + "-" + i).getBytes(StandardCharsets.UTF_8);
            Message message = new Message(options.text("topic"), options.text("tag", ""), "", body);
            TransactionSendResult result = producer.sendMessageInTransaction(message, null);
            Events.print("sent",
                "index", i,
                "id", result.getMsgId(),
                "status", result.getSendStatus().name(),
                "outcome", result.getLocalTransactionState().name());
        }
        Events.print("ready");
        Client.awaitEndOfInput();
        producer.shutdown();
    }

    private static LocalTransactionState state(String name) {
        switch (name) {
            case "commit":
                return LocalTransactionState.COMMIT_MESSAGE;
            case "rollback":
                return LocalTransactionState.ROLLBACK_MESSAGE;
            default:
                return LocalTransactionState.UNKNOW;
        }
    }
}
