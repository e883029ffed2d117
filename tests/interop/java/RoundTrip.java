import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.atomic.AtomicReference;
import java.util.zip.CRC32;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The stock Java clients at their defaults, driven by lines on standard input:
 *
 *   create  TOPIC PARTITIONS              with the Admin client
 *   produce TOPIC PARTITIONS COUNT CODEC  records of every kind, in runs over the partitions
 *   consume TOPIC PARTITIONS COUNT        all partitions from the beginning
 *
 * Each is answered by one line: "ok" and, for each partition, the count of records and a CRC-32 over all their bytes
 * (count:crc), as tests/interop/workload.py computes it; or "failed" and the reason.
 */
public final class RoundTrip {
    private static final int RUN = 20;
    private static final int BIG_VALUE_BYTES = 1_000_000;
    private static final int POOL_BYTES = 1 << 16;
    private static final Duration PATIENCE = Duration.ofSeconds(30);

    private final String bootstrap;
    private final byte[] pool = new byte[POOL_BYTES];

    private RoundTrip(String bootstrap) {
        this.bootstrap = bootstrap;
        new Random(1).nextBytes(pool);
        for (int i = POOL_BYTES / 2; i < POOL_BYTES; i++)
            pool[i] = (byte) ('a' + (pool[i] & 7));
    }

    public static void main(String[] args) throws Exception {
        RoundTrip program = new RoundTrip(args[0]);
        var lines = new java.io.BufferedReader(new java.io.InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String answer;
            try {
                answer = "ok " + program.run(line.split(" "));
            } catch (Exception error) {
                answer = "failed " + error.toString().replace('\n', ' ');
            }
            System.out.println(answer);
            System.out.flush();
        }
    }

    private String run(String[] words) throws Exception {
        String topic = words[1];
        int partitions = Integer.parseInt(words[2]);
        switch (words[0]) {
            case "create":
                return create(topic, partitions);
            case "produce":
                return Digest.describe(produce(topic, partitions, Integer.parseInt(words[3]), words[4]));
            case "consume":
                return Digest.describe(consume(topic, partitions, Integer.parseInt(words[3])));
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private Properties properties() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        return properties;
    }

    private String create(String topic, int partitions) throws Exception {
        try (Admin admin = Admin.create(properties())) {
            admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1))).all().get();
            return String.valueOf(admin.describeCluster().nodes().get().size());
        }
    }

    private Digest[] produce(String topic, int partitions, int count, String codec) throws Exception {
        Digest[] digests = Digest.array(partitions);
        AtomicReference<Exception> failure = new AtomicReference<>();
        Properties properties = properties();
        properties.put("compression.type", codec);
        long startedMs = System.currentTimeMillis() - 3_600_000;
        try (var producer = new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int i = 0; i < count; i++) {
                int partition = i / RUN % partitions;
                byte[] key = key(i);
                byte[] value = value(i, count);
                List<Header> headers = headers(i);
                digests[partition].add(key, value, headers, startedMs + i);
                var record = new ProducerRecord<>(topic, partition, startedMs + i, key, value, headers);
                producer.send(record, (metadata, error) -> {
                    if (error != null)
                        failure.compareAndSet(null, error);
                });
            }
            producer.flush();
        }
        if (failure.get() != null)
            throw failure.get();
        return digests;
    }

    private Digest[] consume(String topic, int partitions, int count) {
        Digest[] digests = Digest.array(partitions);
        try (var consumer = new KafkaConsumer<>(properties(), new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> assigned = new ArrayList<>();
            for (int partition = 0; partition < partitions; partition++)
                assigned.add(new TopicPartition(topic, partition));
            consumer.assign(assigned);
            consumer.seekToBeginning(assigned);
            int seen = 0;
            while (seen < count) {
                var records = consumer.poll(PATIENCE);
                if (records.isEmpty())
                    throw new IllegalStateException(seen + " of " + count + " records, then nothing");
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    Digest digest = digests[record.partition()];
                    if (record.offset() != digest.count)
                        throw new IllegalStateException(record.offset() + " where " + digest.count + " comes next");
                    digest.add(record.key(), record.value(), List.of(record.headers().toArray()), record.timestamp());
                    seen++;
                }
            }
        }
        return digests;
    }

    private static byte[] key(int i) {
        if (i % 7 == 2)
            return null;
        return i % 19 == 6 ? new byte[0] : ("key-" + i % 5003).getBytes(StandardCharsets.UTF_8);
    }

    private byte[] value(int i, int count) {
        if (i == count / 4 || i == count * 3 / 4) {
            byte[] big = new byte[BIG_VALUE_BYTES];
            for (int at = 0; at < big.length; at += POOL_BYTES)
                System.arraycopy(pool, 0, big, at, Math.min(POOL_BYTES, big.length - at));
            return big;
        }
        if (i % 11 == 3)
            return null;
        int size = i % 13 == 5 ? 0 : 1 + i * 31 % 199;
        int start = (int) ((long) i * 7919 % (POOL_BYTES - 200));
        return java.util.Arrays.copyOfRange(pool, start, start + size);
    }

    private static List<Header> headers(int i) {
        switch (i % 6) {
            case 1:
                return List.of(new RecordHeader("trace", "4bf92f3577b34da6a3ce929d0e0e4736".getBytes()));
            case 3:
                return List.of(new RecordHeader("a", new byte[] {1}), new RecordHeader("a", new byte[0]));
            case 5:
                return List.of(new RecordHeader("größe-✓", new byte[] {-1, 0}), new RecordHeader("", (byte[]) null));
            default:
                return Collections.emptyList();
        }
    }

    /** The count of the records of a partition, and a checksum over all of them. */
    private static final class Digest {
        private final CRC32 crc = new CRC32();
        private int count = 0;

        static Digest[] array(int partitions) {
            Digest[] digests = new Digest[partitions];
            for (int i = 0; i < partitions; i++)
                digests[i] = new Digest();
            return digests;
        }

        static String describe(Digest[] digests) {
            StringBuilder text = new StringBuilder();
            for (Digest digest : digests)
                text.append(String.format("%d:%08x ", digest.count, digest.crc.getValue()));
            return text.toString().trim();
        }

        void add(byte[] key, byte[] value, List<Header> headers, long timestampMs) {
            ByteBuffer lengths = ByteBuffer.allocate(20);
            lengths.putLong(timestampMs).putInt(length(key)).putInt(length(value)).putInt(headers.size());
            crc.update(lengths.array());
            update(key);
            update(value);
            for (Header header : headers) {
                byte[] name = header.key().getBytes(StandardCharsets.UTF_8);
                crc.update(ByteBuffer.allocate(8).putInt(name.length).putInt(length(header.value())).array());
                crc.update(name);
                update(header.value());
            }
            count++;
        }

        private void update(byte[] data) {
            if (data != null)
                crc.update(data);
        }

        private static int length(byte[] data) {
            return data == null ? -1 : data.length;
        }
    }
}
