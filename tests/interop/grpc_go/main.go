// The tour with the official Go client, encrypted; see `tests/interop/grpc_tour.py` for its steps.
package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

var (
	endpoint = os.Args[1]
	prefix   = os.Args[2]
	deadline = time.Now().Add(60 * time.Second)
	pushed   atomic.Int32
	lock     sync.Mutex
)

type event map[string]any

func say(what event) {
	line, _ := json.Marshal(what)
	lock.Lock()
	defer lock.Unlock()
	fmt.Println(string(line))
}

func must(err error) {
	if err != nil {
		say(event{"event": "error", "text": err.Error()})
		os.Exit(1)
	}
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

func topic(name string) string { return prefix + "-" + name }

func config(group string) *rmq.Config {
	return &rmq.Config{
		Endpoint:      endpoint,
		ConsumerGroup: group,
		Credentials: &credentials.SessionCredentials{
			AccessKey:    or(os.Getenv("INTEROP_ACCESS_KEY"), "k"),
			AccessSecret: or(os.Getenv("INTEROP_SECRET_KEY"), "s"),
		},
	}
}

// showCertificate makes every connection show a certificate of the client's. The client has an option for
// that, and no way to hand it over but this variable, which its own code calls for each connection.
func showCertificate(certificate, key string) {
	shown, err := tls.LoadX509KeyPair(certificate, key)
	must(err)
	settings := &tls.Config{Certificates: []tls.Certificate{shown}, InsecureSkipVerify: true}
	connect := rmq.NewRpcClient
	rmq.NewRpcClient = func(target string, options ...rmq.RpcClientOption) (rmq.RpcClient, error) {
		return connect(target, append(options, rmq.WithRpcClientConnOption(rmq.WithTLSConfig(settings)))...)
	}
}

func received(by string, view *rmq.MessageView) {
	due, tag := int64(0), ""
	if at := view.GetDeliveryTimestamp(); at != nil {
		due = at.UnixMilli()
	}
	if found := view.GetTag(); found != nil {
		tag = *found
	}
	say(event{
		"event": "received", "by": by, "topic": view.GetTopic(), "body": string(view.GetBody()),
		"attempt": view.GetDeliveryAttempt(), "now_ms": time.Now().UnixMilli(), "due_ms": due,
		"tag": tag,
	})
}

func message(name, body string) *rmq.Message {
	made := &rmq.Message{Topic: topic(name), Body: []byte(body)}
	made.SetTag("tour")
	made.SetKeys(body)
	return made
}

func delayed(body string, delay time.Duration) *rmq.Message {
	made := message("plain", body)
	made.SetDelayTimestamp(time.Now().Add(delay))
	return made
}

func send(producer rmq.Producer, made *rmq.Message) *rmq.SendReceipt {
	receipts, err := producer.Send(context.Background(), made)
	must(err)
	return receipts[0]
}

func push(group string, subscriptions map[string]*rmq.FilterExpression, consume func(*rmq.MessageView) rmq.ConsumerResult) {
	consumer, err := rmq.NewPushConsumer(config(topic(group)),
		rmq.WithPushAwaitDuration(5*time.Second),
		rmq.WithPushSubscriptionExpressions(subscriptions),
		rmq.WithPushMessageListener(&rmq.FuncMessageListener{Consume: consume}),
		rmq.WithPushConsumptionThreadCount(4),
		rmq.WithPushMaxCacheMessageCount(1024))
	must(err)
	must(consumer.Start())
}

func simple(group, name string) rmq.SimpleConsumer {
	consumer, err := rmq.NewSimpleConsumer(config(topic(group)),
		rmq.WithSimpleAwaitDuration(3*time.Second),
		rmq.WithSimpleSubscriptionExpressions(map[string]*rmq.FilterExpression{name: rmq.SUB_ALL}))
	must(err)
	must(consumer.Start())
	return consumer
}

// receive hands messages to `use` until it has had `count` of them.
func receive(by string, consumer rmq.SimpleConsumer, batch int32, invisible time.Duration, count int, use func(int, *rmq.MessageView)) {
	for number := 0; number < count && time.Now().Before(deadline); {
		views, err := consumer.Receive(context.Background(), batch, invisible)
		if err != nil && !strings.Contains(err.Error(), "40401") && !strings.Contains(err.Error(), "NOT_FOUND") {
			say(event{"event": "note", "text": err.Error()})
			time.Sleep(100 * time.Millisecond)
		}
		for _, view := range views {
			number++
			received(by, view)
			use(number, view)
		}
	}
}

func sendPlain(producer rmq.Producer) {
	for number := 0; number < 5; number++ {
		send(producer, message("plain", fmt.Sprintf("normal-%d", number)))
	}
	for number := 0; number < 5; number++ {
		send(producer, delayed(fmt.Sprintf("delayed-%d", number), 2*time.Second))
	}
	send(producer, delayed("timed", 3*time.Second))
	handle := send(producer, delayed("recalled", 4*time.Second)).RecallHandle
	id, err := producer.Recall(context.Background(), topic("plain"), handle)
	must(err)
	say(event{"event": "recalled", "id": id})
	if _, err = producer.Recall(context.Background(), topic("plain"), "bm90IGEgaGFuZGxl"); err != nil {
		say(event{"event": "recall-refused", "text": err.Error()})
	}
}

func sendTransactions(producer rmq.Producer) {
	for _, body := range []string{"committed", "rolled-back", "orphan"} {
		transaction := producer.BeginTransaction()
		_, err := producer.SendWithTransaction(context.Background(), message("half", body), transaction)
		must(err)
		switch body {
		case "committed":
			must(transaction.Commit())
		case "rolled-back":
			must(transaction.RollBack())
		}
	}
}

func main() {
	rmq.ResetLogger()
	if certificate := os.Getenv("INTEROP_CERTIFICATE"); certificate != "" {
		showCertificate(certificate, os.Getenv("INTEROP_PRIVATE_KEY"))
	}
	producer, err := rmq.NewProducer(config(""),
		rmq.WithTopics(topic("plain"), topic("again"), topic("dead"), topic("order"), topic("half")),
		rmq.WithTransactionChecker(&rmq.TransactionChecker{
			Check: func(view *rmq.MessageView) rmq.TransactionResolution {
				say(event{"event": "asked", "body": string(view.GetBody())})
				return rmq.COMMIT
			},
		}))
	must(err)
	must(producer.Start())
	push("push", map[string]*rmq.FilterExpression{
		topic("plain"): rmq.SUB_ALL, topic("half"): rmq.NewFilterExpression("tour"),
	}, func(view *rmq.MessageView) rmq.ConsumerResult {
		received("push", view)
		pushed.Add(1)
		return rmq.SUCCESS
	})
	push("dead", map[string]*rmq.FilterExpression{topic("dead"): rmq.SUB_ALL},
		func(view *rmq.MessageView) rmq.ConsumerResult {
			received("failing", view)
			return rmq.FAILURE
		})
	send(producer, message("dead", "dead"))
	sendPlain(producer)
	sendTransactions(producer)

	send(producer, message("again", "again"))
	again := simple("simple", topic("again"))
	receive("simple", again, 1, time.Second, 3, func(number int, view *rmq.MessageView) {
		if number == 2 {
			must(again.ChangeInvisibleDuration(view, 2*time.Second))
		} else if number == 3 {
			must(again.Ack(context.Background(), view))
		}
	})

	for number := 0; number < 12; number++ {
		group := []string{"a", "b"}[number%2]
		made := message("order", fmt.Sprintf("%s%d", group, number/2))
		made.SetMessageGroup(group)
		send(producer, made)
	}
	order := simple("order", topic("order"))
	receive("order", order, 8, 20*time.Second, 12, func(_ int, view *rmq.MessageView) {
		must(order.Ack(context.Background(), view))
	})

	dead := simple("buried", "%DLQ%"+topic("dead"))
	receive("dead", dead, 1, 20*time.Second, 1, func(_ int, view *rmq.MessageView) {
		must(dead.Ack(context.Background(), view))
	})
	for pushed.Load() < 13 && time.Now().Before(deadline) {
		time.Sleep(50 * time.Millisecond)
	}
	say(event{"event": "done"})
	os.Exit(0)
}
