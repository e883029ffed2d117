// Members of groups by franz-go, driven by lines: see tests/interop/members/__init__.py.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	bootstrap string
	output    sync.Mutex
)

func printLine(words ...any) {
	output.Lock()
	defer output.Unlock()
	fmt.Println(words...)
}

// owned prints all partitions that a member owns after each change.
type owned struct {
	name string
	lock sync.Mutex
	now  map[int32]bool
}

func (o *owned) change(changed map[string][]int32, there bool) {
	o.lock.Lock()
	defer o.lock.Unlock()
	for _, partitions := range changed {
		for _, partition := range partitions {
			if there {
				o.now[partition] = true
			} else {
				delete(o.now, partition)
			}
		}
	}
	numbers := make([]int, 0, len(o.now))
	for partition := range o.now {
		numbers = append(numbers, int(partition))
	}
	sort.Ints(numbers)
	texts := make([]string, len(numbers))
	for i, number := range numbers {
		texts[i] = strconv.Itoa(number)
	}
	printLine("assigned", o.name, strings.Join(texts, ","))
}

func (o *owned) assigned(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
	o.change(changed, true)
}
func (o *owned) removed(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
	o.change(changed, false)
}

func options(name, topic, group, protocol string) []kgo.Opt {
	o := &owned{name: name, now: map[int32]bool{}}
	all := []kgo.Opt{
		kgo.SeedBrokers(bootstrap),
		kgo.ClientID(name),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(o.assigned),
		kgo.OnPartitionsRevoked(o.removed),
		kgo.OnPartitionsLost(o.removed),
	}
	switch protocol {
	case "consumer":
		next := context.WithValue(context.Background(), "opt_in_kafka_next_gen_balancer_beta", true)
		return append(all, kgo.WithContext(next))
	case "eager":
		all = append(all, kgo.Balancers(kgo.RangeBalancer()))
	default:
		all = append(all, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	}
	return append(all, kgo.SessionTimeout(1500*time.Millisecond), kgo.HeartbeatInterval(300*time.Millisecond))
}

func printReceived(name string, records []*kgo.Record) {
	runs := map[int32][2]int64{}
	printRun := func(partition int32, run [2]int64) {
		printLine("got", name, partition, fmt.Sprintf("%d-%d", run[0], run[1]))
	}
	for _, record := range records {
		run, there := runs[record.Partition]
		if there && record.Offset == run[1]+1 {
			run[1] = record.Offset
		} else {
			if there {
				printRun(record.Partition, run)
			}
			run = [2]int64{record.Offset, record.Offset}
		}
		runs[record.Partition] = run
	}
	for partition, run := range runs {
		printRun(partition, run)
	}
}

func ends(records []*kgo.Record) map[int32]int64 {
	next := map[int32]int64{}
	for _, record := range records {
		next[record.Partition] = record.Offset + 1
	}
	return next
}

func printCommitted(name string, records []*kgo.Record) {
	for partition, end := range ends(records) {
		printLine("committed", name, partition, end)
	}
}

// seekBack makes the client read the records again, if the member still owns their partitions: a cooperative member
// keeps its position through a rebalance in which its commit was rejected.
func seekBack(client *kgo.Client, records []*kgo.Record) {
	firsts := map[string]map[int32]kgo.EpochOffset{}
	for _, record := range records {
		if firsts[record.Topic] == nil {
			firsts[record.Topic] = map[int32]kgo.EpochOffset{}
		}
		if _, there := firsts[record.Topic][record.Partition]; !there {
			firsts[record.Topic][record.Partition] = kgo.EpochOffset{Epoch: -1, Offset: record.Offset}
		}
	}
	client.SetOffsets(firsts)
}

func poll(client interface {
	PollRecords(context.Context, int) kgo.Fetches
}) []*kgo.Record {
	waiting, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	return client.PollRecords(waiting, 500).Records()
}

// member reads records and commits them until leave is closed.
func member(leave chan struct{}, name string, words []string) error {
	all := append(options(name, words[0], words[1], words[2]), kgo.BlockRebalanceOnPoll())
	if len(words) > 3 {
		all = append(all, kgo.InstanceID(words[3]))
	}
	client, err := kgo.NewClient(all...)
	if err != nil {
		return err
	}
	defer client.CloseAllowingRebalance()
	for {
		select {
		case <-leave:
			return nil
		default:
		}
		if records := poll(client); len(records) > 0 {
			printReceived(name, records)
			if err := client.CommitRecords(context.Background(), records...); err != nil {
				printLine("uncommitted", name, err)
				seekBack(client, records)
			} else {
				printCommitted(name, records)
			}
		}
		client.AllowRebalance()
	}
}

// chain copies records in transactions.
//
// It does not block rebalances: the session does not commit records of partitions that were revoked meanwhile, and its
// end would wait for a heartbeat that waits for the rebalance.
func chain(leave chan struct{}, name string, words []string) error {
	every, err := strconv.Atoi(words[4])
	if err != nil {
		return err
	}
	all := append(
		options(name, words[0], words[2], words[3]),
		kgo.TransactionalID(name),
		kgo.TransactionTimeout(5*time.Second),
		kgo.DefaultProduceTopic(words[1]),
		kgo.RequireStableFetchOffsets(),
	)
	session, err := kgo.NewGroupTransactSession(all...)
	if err != nil {
		return err
	}
	defer session.Close()
	for count := 1; ; count++ {
		select {
		case <-leave:
			return nil
		default:
		}
		records := poll(session)
		if len(records) == 0 {
			count--
			continue
		}
		printReceived(name, records)
		if err := session.Begin(); err != nil {
			return err
		}
		promise := kgo.AbortingFirstErrPromise(session.Client())
		for _, record := range records {
			session.Produce(context.Background(), &kgo.Record{Key: record.Key, Value: record.Value}, promise.Promise())
		}
		failed := promise.Err() != nil
		onPurpose := every > 0 && count%every == 0
		committed, err := session.End(context.Background(), kgo.TransactionEndTry(!failed && !onPurpose))
		if err != nil {
			return err
		}
		if committed {
			printCommitted(name, records)
		} else {
			printLine("uncommitted", name, "aborted")
		}
	}
}

func main() {
	bootstrap = os.Args[1]
	leaving := map[string]chan struct{}{}
	var all sync.WaitGroup
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		name := words[1]
		if words[0] == "leave" {
			close(leaving[name])
			delete(leaving, name)
			continue
		}
		leave, runMember := make(chan struct{}), member
		leaving[name] = leave
		if words[0] == "chain" {
			runMember = chain
		}
		all.Add(1)
		go func() {
			defer all.Done()
			if err := runMember(leave, name, words[2:]); err != nil {
				printLine("failed", name, strings.ReplaceAll(err.Error(), "\n", " "))
			} else {
				printLine("left", name)
			}
		}()
	}
	for _, leave := range leaving {
		close(leave)
	}
	all.Wait()
}
