// A real Go client as a program: <command> --namesrv host:port --name value ...
//
// It prints what happens as JSON, one object a line, with the same events as the Java programs.
// Commands that wait (consume) say "ready" and work until their input ends.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

type event map[string]any

var printing sync.Mutex

func emit(name string, fields event) {
	fields["event"] = name
	fields["at"] = time.Now().UnixMilli()
	line, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	printing.Lock()
	defer printing.Unlock()
	fmt.Println(string(line))
}

type options map[string]string

func parse(arguments []string) (options, error) {
	found := options{}
	for i := 0; i < len(arguments); i += 2 {
		if !strings.HasPrefix(arguments[i], "--") || i+1 == len(arguments) {
			return nil, fmt.Errorf("expected --name value, found %s", arguments[i])
		}
		found[arguments[i][2:]] = arguments[i+1]
	}
	return found, nil
}

func (o options) text(name, otherwise string) string {
	if value, ok := o[name]; ok {
		return value
	}
	return otherwise
}

func (o options) number(name string, otherwise int) int {
	value, ok := o[name]
	if !ok {
		return otherwise
	}
	number, err := strconv.Atoi(value)
	if err != nil {
		panic(err)
	}
	return number
}

func main() {
	rlog.SetLogLevel(os.Getenv("ROCKETMQ_GO_LOG_LEVEL"))
	parsed, err := parse(os.Args[2:])
	if err == nil {
		err = run(os.Args[1], parsed)
	}
	if err != nil {
		emit("error", event{"code": -1, "message": err.Error()})
		os.Exit(1)
	}
	emit("stopped", event{})
}

func run(command string, o options) error {
	switch command {
	case "send":
		return send(o)
	case "consume":
		return consume(o)
	default:
		return fmt.Errorf("unknown command %s", command)
	}
}

// identity is who the program is, if INTEROP_ACCESS_KEY and INTEROP_SECRET_KEY are set.
func identity(name string) primitive.Credentials {
	return primitive.Credentials{AccessKey: name, SecretKey: os.Getenv("INTEROP_SECRET_KEY")}
}

// orderSelector sends messages of one order to one queue, as an orderly consumer expects.
type orderSelector struct{}

func (orderSelector) Select(message *primitive.Message, queues []*primitive.MessageQueue, _ string) *primitive.MessageQueue {
	order, err := strconv.Atoi(message.GetProperty("order"))
	if err != nil {
		panic(err)
	}
	for _, queue := range queues {
		if queue.QueueId == order%len(queues) {
			return queue
		}
	}
	return queues[0]
}

func send(o options) error {
	settings := []producer.Option{
		producer.WithNameServer([]string{o["namesrv"]}),
		producer.WithGroupName(o.text("group", "interop_producer")),
		producer.WithSendMsgTimeout(60 * time.Second),
		producer.WithRetry(2),
	}
	if name, ok := os.LookupEnv("INTEROP_ACCESS_KEY"); ok {
		settings = append(settings, producer.WithCredentials(identity(name)))
	}
	mode := o.text("mode", "sync")
	if mode == "ordered" {
		settings = append(settings, producer.WithQueueSelector(orderSelector{}))
	}
	sender, err := rocketmq.NewProducer(settings...)
	if err != nil {
		return err
	}
	if err = sender.Start(); err != nil {
		return err
	}
	count := o.number("count", 1)
	messages := make([]*primitive.Message, count)
	for i := range messages {
		messages[i] = message(o, i)
	}
	if err = sendAll(sender, mode, messages); err != nil {
		return err
	}
	return sender.Shutdown()
}

func sendAll(sender rocketmq.Producer, mode string, messages []*primitive.Message) error {
	background := context.Background()
	switch mode {
	case "sync", "ordered":
		for i, one := range messages {
			result, err := sender.SendSync(background, one)
			if err != nil {
				return err
			}
			emitSent("sent", i, result)
		}
	case "oneway":
		for i, one := range messages {
			if err := sender.SendOneWay(background, one); err != nil {
				return err
			}
			emit("sent", event{"index": i, "id": one.GetProperty(primitive.PropertyUniqueClientMessageIdKeyIndex)})
		}
	case "async":
		var open sync.WaitGroup
		open.Add(len(messages))
		for i, one := range messages {
			index := i
			err := sender.SendAsync(background, func(_ context.Context, result *primitive.SendResult, err error) {
				defer open.Done()
				if err != nil {
					emit("error", event{"code": -1, "message": err.Error()})
					return
				}
				emitSent("sent", index, result)
			}, one)
			if err != nil {
				return err
			}
		}
		open.Wait()
	case "batch":
		result, err := sender.SendSync(background, messages...)
		if err != nil {
			return err
		}
		emitSent("batch", 0, result)
		// This client gives the messages of a batch no ids of their own; the broker's are all there is.
		for i, id := range strings.Split(result.OffsetMsgID, ",") {
			emit("sent", event{"index": i, "id": id})
		}
	default:
		return fmt.Errorf("unknown mode %s", mode)
	}
	return nil
}

func message(o options, index int) *primitive.Message {
	body := fmt.Sprintf("%s-%d", o.text("body", "message"), index)
	if missing := o.number("body-size", 0) - len(body); missing > 0 {
		body += strings.Repeat(".", missing)
	}
	one := primitive.NewMessage(o["topic"], []byte(body))
	if tag, ok := o["tag"]; ok {
		one.WithTag(tag)
	}
	if key, ok := o["key"]; ok {
		one.WithKeys([]string{key})
	}
	if text, ok := o["level"]; ok {
		// One level for all, or one for each.
		levels := strings.Split(text, ",")
		level, err := strconv.Atoi(levels[index%len(levels)])
		if err != nil {
			panic(err)
		}
		one.WithDelayTimeLevel(level)
	}
	if at, ok := o["deliver-ms"]; ok {
		// This release has no method for it yet; the property is what the broker reads.
		one.WithProperty("TIMER_DELIVER_MS", at)
	}
	one.WithProperty("index", strconv.Itoa(index))
	one.WithProperty("order", strconv.Itoa(index%o.number("orders", 2)))
	return one
}

func emitSent(name string, index int, result *primitive.SendResult) {
	statuses := map[primitive.SendStatus]string{primitive.SendOK: "SEND_OK"}
	status, ok := statuses[result.Status]
	if !ok {
		status = strconv.Itoa(int(result.Status))
	}
	fields := event{
		"index":       index,
		"id":          result.MsgID,
		"offsetId":    result.OffsetMsgID,
		"status":      status,
		"queueOffset": result.QueueOffset,
	}
	if result.MessageQueue != nil {
		fields["queue"] = result.MessageQueue.QueueId
	}
	emit(name, fields)
}

func consume(o options) error {
	mode := o.text("mode", "concurrent")
	failures := int32(o.number("failures", 0))
	settings := []consumer.Option{
		consumer.WithNameServer([]string{o["namesrv"]}),
		consumer.WithGroupName(o["group"]),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithMaxReconsumeTimes(int32(o.number("max-reconsume", -1))),
		consumer.WithSuspendCurrentQueueTimeMillis(200 * time.Millisecond),
		consumer.WithConsumerOrder(mode == "orderly"),
	}
	if name, ok := os.LookupEnv("INTEROP_ACCESS_KEY"); ok {
		settings = append(settings, consumer.WithCredentials(identity(name)))
	}
	if mode == "broadcasting" {
		settings = append(settings, consumer.WithConsumerModel(consumer.BroadCasting))
	}
	receiver, err := rocketmq.NewPushConsumer(settings...)
	if err != nil {
		return err
	}
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: o.text("expression", "*")}
	err = receiver.Subscribe(o["topic"], selector,
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			isDone := true
			for _, one := range messages {
				isRefused := one.ReconsumeTimes < failures
				emitReceived(one, isRefused)
				isDone = isDone && !isRefused
			}
			if isDone {
				return consumer.ConsumeSuccess, nil
			}
			if mode == "orderly" {
				return consumer.SuspendCurrentQueueAMoment, nil
			}
			return consumer.ConsumeRetryLater, nil
		})
	if err != nil {
		return err
	}
	if err = receiver.Start(); err != nil {
		return err
	}
	emit("ready", event{})
	if _, err = io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return receiver.Shutdown()
}

func emitReceived(one *primitive.MessageExt, isRefused bool) {
	emit("received", event{
		"id":          one.MsgId,
		"topic":       one.Topic,
		"queue":       one.Queue.QueueId,
		"queueOffset": one.QueueOffset,
		"body":        string(one.Body),
		"tags":        one.GetTags(),
		"keys":        one.GetKeys(),
		"attempt":     one.ReconsumeTimes,
		"bornAt":      one.BornTimestamp,
		"storedAt":    one.StoreTimestamp,
		"properties":  one.GetProperties(),
		"isRefused":   isRefused,
	})
}
