import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Collectors;

import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Members of groups by Kafka's own clients, a thread for each, driven by lines: see tests/interop/members/__init__.py.
 */
public final class Members {
    private static String bootstrap;

    private Members() {
    }

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        Map<String, Member> members = new HashMap<>();
        var lines = new java.io.BufferedReader(new java.io.InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("leave")) {
                members.get(words[1]).leaves.set(true);
            } else {
                Member member = words[0].equals("chain") ? new Chain(words) : new Member(words);
                members.put(member.name, member);
                member.start();
            }
        }
        members.values().forEach(member -> member.leaves.set(true));
        for (Member member : members.values())
            member.join();
    }

    private static synchronized void print(String line) {
        System.out.println(line);
        System.out.flush();
    }

    /** A member that reads records and commits them. */
    private static class Member extends Thread {
        final AtomicBoolean leaves = new AtomicBoolean();
        final String name;
        final String topic;
        KafkaConsumer<byte[], byte[]> consumer;
        private final String group;
        private final String protocol;
        private final String instance;

        Member(String[] words) {
            this(words[1], words[2], words[3], words[4], words.length > 5 ? words[5] : null);
        }

        Member(String name, String topic, String group, String protocol, String instance) {
            this.name = name;
            this.topic = topic;
            this.group = group;
            this.protocol = protocol;
            this.instance = instance;
        }

        @Override
        public void run() {
            try {
                while (!leaves.get())
                    consume();
            } catch (Exception error) {
                print("failed " + name + " " + error.toString().replace('\n', ' '));
                return;
            } finally {
                end();
            }
            print("left " + name);
        }

        /** Reads until the member leaves, or until its position is unknown, so that it needs a new consumer. */
        private void consume() {
            try (var closing = new KafkaConsumer<>(properties(), new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
                consumer = closing;
                closing.subscribe(List.of(topic), new Owned());
                boolean knowsPosition = true;
                while (knowsPosition && !leaves.get()) {
                    ConsumerRecords<byte[], byte[]> records = closing.poll(Duration.ofMillis(100));
                    knowsPosition = records.isEmpty() || process(records);
                }
            }
        }

        void handle(ConsumerRecords<byte[], byte[]> records, Map<TopicPartition, OffsetAndMetadata> ends) {
            consumer.commitSync(ends);
        }

        void end() {
        }

        /** Returns false if the commit failed and the committed offsets are unknown too. */
        private boolean process(ConsumerRecords<byte[], byte[]> records) {
            Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
            for (TopicPartition partition : records.partitions())
                ends.put(partition, new OffsetAndMetadata(printReceived(partition.partition(), records.records(partition)) + 1));
            try {
                handle(records, ends);
            } catch (KafkaException error) {
                print("uncommitted " + name + " " + error.toString().replace('\n', ' '));
                return seekToCommitted(records);
            }
            ends.forEach((partition, end) -> print("committed " + name + " " + partition.partition() + " " + end.offset()));
            return true;
        }

        /** Seeks to the committed offsets: a commit without a response may have happened. */
        private boolean seekToCommitted(ConsumerRecords<byte[], byte[]> records) {
            Set<TopicPartition> partitions = new HashSet<>(records.partitions());
            partitions.retainAll(consumer.assignment());
            try {
                Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(partitions);
                for (TopicPartition partition : partitions) {
                    OffsetAndMetadata there = committed.get(partition);
                    long first = records.records(partition).get(0).offset();
                    consumer.seek(partition, there != null ? there.offset() : first);
                }
                return true;
            } catch (KafkaException error) {
                return false;
            }
        }

        private long printReceived(int partition, List<ConsumerRecord<byte[], byte[]>> records) {
            long first = records.get(0).offset();
            long last = first - 1;
            for (ConsumerRecord<byte[], byte[]> record : records) {
                if (record.offset() != last + 1) {
                    print("got " + name + " " + partition + " " + first + "-" + last);
                    first = record.offset();
                }
                last = record.offset();
            }
            print("got " + name + " " + partition + " " + first + "-" + last);
            return last;
        }

        private Properties properties() {
            Properties properties = new Properties();
            properties.put("bootstrap.servers", bootstrap);
            properties.put("group.id", group);
            properties.put("client.id", name);
            properties.put("enable.auto.commit", "false");
            properties.put("auto.offset.reset", "earliest");
            properties.put("isolation.level", "read_committed");
            if (instance != null)
                properties.put("group.instance.id", instance);
            if (protocol.equals("consumer")) {
                properties.put("group.protocol", "consumer");
                return properties;
            }
            String assignor = protocol.equals("eager") ? "RangeAssignor" : "CooperativeStickyAssignor";
            properties.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer." + assignor);
            properties.put("session.timeout.ms", "1500");
            properties.put("heartbeat.interval.ms", "300");
            return properties;
        }

        /** Prints the consumer's partitions after each callback. */
        private final class Owned implements ConsumerRebalanceListener {
            private final TreeSet<Integer> now = new TreeSet<>();

            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                partitions.forEach(partition -> now.add(partition.partition()));
                printOwned();
            }

            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                partitions.forEach(partition -> now.remove(partition.partition()));
                printOwned();
            }

            private void printOwned() {
                print("assigned " + name + " " + now.stream().map(String::valueOf).collect(Collectors.joining(",")));
            }
        }
    }

    /** A member that copies records in transactions. */
    private static final class Chain extends Member {
        private final String target;
        private final int abortEvery;
        private int count = 0;
        private KafkaProducer<byte[], byte[]> producer;

        Chain(String[] words) {
            super(words[1], words[2], words[4], words[5], null);
            target = words[3];
            abortEvery = Integer.parseInt(words[6]);
            producer = producer();
        }

        @Override
        void handle(ConsumerRecords<byte[], byte[]> records, Map<TopicPartition, OffsetAndMetadata> ends) {
            count++;
            try {
                producer.beginTransaction();
                for (ConsumerRecord<byte[], byte[]> record : records)
                    producer.send(new ProducerRecord<>(target, record.key(), record.value()));
                producer.sendOffsetsToTransaction(ends, consumer.groupMetadata());
                if (abortEvery > 0 && count % abortEvery == 0)
                    throw new KafkaException("on purpose");
                commit();
            } catch (KafkaException error) {
                abort();
                throw error;
            }
        }

        private void commit() {
            for (int attempt = 1; ; attempt++) {
                try {
                    producer.commitTransaction();
                    return;
                } catch (TimeoutException error) {
                    // Without the result of a commit a producer may only retry it.
                    if (attempt == 5)
                        throw error;
                }
            }
        }

        @Override
        void end() {
            producer.close();
        }

        private void abort() {
            try {
                producer.abortTransaction();
            } catch (KafkaException | IllegalStateException fatal) {
                producer.close(Duration.ZERO);
                producer = producer();
            }
        }

        private KafkaProducer<byte[], byte[]> producer() {
            Properties properties = new Properties();
            properties.put("bootstrap.servers", bootstrap);
            properties.put("transactional.id", name);
            properties.put("transaction.timeout.ms", "5000");
            properties.put("max.block.ms", "20000");
            var created = new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
            created.initTransactions();
            return created;
        }
    }
}
