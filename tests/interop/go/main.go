// The franz-go client at its defaults, driven by lines on standard input:
//
//	produce TOPIC PARTITIONS COUNT CODEC  records of every kind, in runs over the partitions
//	consume TOPIC PARTITIONS COUNT        all partitions from the beginning
//
// Each is answered by one line: "ok" and, for each partition, the count of records and a CRC-32 over all their bytes
// (count:crc), as tests/interop/workload.py computes it; or "failed" and the reason.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	run = 20
	// The client's own limit for a batch is 1,000,012 bytes.
	bigValueBytes = 999_900
	patience      = 30 * time.Second
)

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

type digest struct {
	count int
	crc   uint32
}

func length(data []byte) uint32 {
	if data == nil {
		return 0xFFFFFFFF
	}
	return uint32(len(data))
}

func (d *digest) add(record *kgo.Record) {
	buffer := binary.BigEndian.AppendUint64(nil, uint64(record.Timestamp.UnixMilli()))
	buffer = binary.BigEndian.AppendUint32(buffer, length(record.Key))
	buffer = binary.BigEndian.AppendUint32(buffer, length(record.Value))
	buffer = binary.BigEndian.AppendUint32(buffer, uint32(len(record.Headers)))
	buffer = append(buffer, record.Key...)
	d.crc = crc32.Update(d.crc, crc32.IEEETable, buffer)
	d.crc = crc32.Update(d.crc, crc32.IEEETable, record.Value)
	for _, header := range record.Headers {
		buffer = binary.BigEndian.AppendUint32(buffer[:0], uint32(len(header.Key)))
		buffer = binary.BigEndian.AppendUint32(buffer, length(header.Value))
		buffer = append(append(buffer, header.Key...), header.Value...)
		d.crc = crc32.Update(d.crc, crc32.IEEETable, buffer)
	}
	d.count++
}

func describe(digests []digest) string {
	words := make([]string, len(digests))
	for i, d := range digests {
		words[i] = fmt.Sprintf("%d:%08x", d.count, d.crc)
	}
	return strings.Join(words, " ")
}

func pool() []byte {
	data := make([]byte, 1<<16)
	state := uint32(1)
	for i := range data {
		state = state*1664525 + 1013904223
		data[i] = byte(state >> 24)
		if i > len(data)/2 {
			data[i] = 'a' + data[i]&7
		}
	}
	return data
}

// record makes the record with a number: with nulls, empty keys and values, headers, and two big values.
func record(number, count int, noise []byte, started time.Time) *kgo.Record {
	made := &kgo.Record{Timestamp: started.Add(time.Duration(number) * time.Millisecond)}
	if number == count/4 || number == count*3/4 {
		for len(made.Value) < bigValueBytes {
			made.Value = append(made.Value, noise...)
		}
		made.Value = made.Value[:bigValueBytes]
		return made
	}
	switch {
	case number%7 == 2:
	case number%19 == 6:
		made.Key = []byte{}
	default:
		made.Key = []byte(fmt.Sprintf("key-%d", number%5003))
	}
	switch {
	case number%11 == 3:
	case number%13 == 5:
		made.Value = []byte{}
	default:
		start := number * 7919 % (len(noise) - 200)
		made.Value = noise[start : start+1+number*31%199]
	}
	switch number % 6 {
	case 1:
		made.Headers = []kgo.RecordHeader{{Key: "trace", Value: []byte("4bf92f3577b34da6")}}
	case 3:
		made.Headers = []kgo.RecordHeader{{Key: "a", Value: []byte{1}}, {Key: "a", Value: []byte{}}}
	case 5:
		made.Headers = []kgo.RecordHeader{{Key: "größe-✓", Value: []byte{255, 0}}, {Key: "", Value: nil}}
	}
	return made
}

func produce(bootstrap, topic string, partitions, count int, codec string) (string, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap),
		kgo.DefaultProduceTopic(topic),
		kgo.ProducerBatchCompression(codecs[codec]),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	if err != nil {
		return "", err
	}
	defer client.Close()
	digests, noise := make([]digest, partitions), pool()
	started := time.UnixMilli(time.Now().UnixMilli() - 3_600_000)
	var failed error
	var lock sync.Mutex
	for number := 0; number < count; number++ {
		made := record(number, count, noise, started)
		made.Partition = int32(number / run % partitions)
		digests[made.Partition].add(made)
		client.Produce(context.Background(), made, func(_ *kgo.Record, err error) {
			if err != nil {
				lock.Lock()
				failed = err
				lock.Unlock()
			}
		})
	}
	if err := client.Flush(context.Background()); err != nil {
		return "", err
	}
	return describe(digests), failed
}

func consume(bootstrap, topic string, partitions, count int) (string, error) {
	offsets := map[int32]kgo.Offset{}
	for partition := range partitions {
		offsets[int32(partition)] = kgo.NewOffset().AtStart()
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: offsets}),
	)
	if err != nil {
		return "", err
	}
	defer client.Close()
	digests := make([]digest, partitions)
	for seen := 0; seen < count; {
		limited, cancel := context.WithTimeout(context.Background(), patience)
		fetches := client.PollFetches(limited)
		cancel()
		if err := fetches.Err(); err != nil {
			return "", fmt.Errorf("%d of %d records, then %w", seen, count, err)
		}
		var wrong error
		fetches.EachRecord(func(read *kgo.Record) {
			d := &digests[read.Partition]
			if read.Offset != int64(d.count) {
				wrong = fmt.Errorf("offset %d where %d comes next", read.Offset, d.count)
			}
			d.add(read)
			seen++
		})
		if wrong != nil {
			return "", wrong
		}
	}
	return describe(digests), nil
}

func answer(bootstrap string, words []string) (string, error) {
	if len(words) < 4 {
		return "", fmt.Errorf("too few words")
	}
	partitions, err := strconv.Atoi(words[2])
	if err != nil {
		return "", err
	}
	count, err := strconv.Atoi(words[3])
	if err != nil {
		return "", err
	}
	if words[0] == "produce" {
		return produce(bootstrap, words[1], partitions, count, words[4])
	}
	return consume(bootstrap, words[1], partitions, count)
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if text, err := answer(os.Args[1], strings.Fields(lines.Text())); err != nil {
			fmt.Println("failed", strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			fmt.Println("ok", text)
		}
	}
}
