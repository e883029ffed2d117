import java.io.FileInputStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Clients that log in, driven by lines on standard input; FILE has their properties. It is compiled against old clients too.
 *
 *   trip FILE TOPIC   a transaction that commits and one that aborts, and what a group reads of them
 *   open FILE TOPIC   clients that stay, and a record
 *   send              one more record, by the same connections as long as they live
 *   shut              closes them
 *
 * Each is answered by one line: "ok" and the result, or "failed" with the class of the error and what it says.
 */
public final class Logins {
    private static final Duration PATIENCE = Duration.ofSeconds(90);
    private static final int COUNT = 5;

    private Admin admin;
    private KafkaProducer<String, String> producer;
    private String topic;

    private Logins() {
    }

    public static void main(String[] args) throws Exception {
        Logins program = new Logins();
        var lines = new java.io.BufferedReader(new java.io.InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String answer;
            try {
                answer = "ok " + program.run(line.split(" "));
            } catch (Exception error) {
                answer = "failed " + described(error);
            }
            System.out.println(answer.replace('\n', ' '));
            System.out.flush();
        }
    }

    private static String described(Throwable error) {
        StringBuilder text = new StringBuilder();
        for (Throwable cause = error; cause != null; cause = cause.getCause())
            if (!(cause instanceof ExecutionException))
                text.append(cause.getClass().getSimpleName()).append(": ").append(cause.getMessage()).append("; ");
        return text.toString();
    }

    private String run(String[] words) throws Exception {
        switch (words[0]) {
            case "trip":
                return trip(words[1], words[2]);
            case "open":
                shut();
                topic = words[2];
                admin = Admin.create(properties(words[1]));
                return send(words[1]);
            case "send":
                return send(null);
            case "shut":
                return shut();
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static Properties properties(String file) throws Exception {
        Properties properties = new Properties();
        try (var stream = new FileInputStream(file)) {
            properties.load(stream);
        }
        return properties;
    }

    /** The admin client is asked first: a producer only sees that it is let in no more when its metadata are too old. */
    private String send(String file) throws Exception {
        admin.listTopics().names().get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
        if (file != null)
            producer = new KafkaProducer<>(properties(file), new StringSerializer(), new StringSerializer());
        producer.send(new ProducerRecord<>(topic, "x")).get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
        return "";
    }

    private String shut() {
        if (admin != null)
            admin.close(Duration.ofSeconds(5));
        if (producer != null)
            producer.close(Duration.ofSeconds(5));
        admin = null;
        producer = null;
        return "";
    }

    private static String trip(String file, String topic) throws Exception {
        Properties properties = properties(file);
        properties.put("transactional.id", topic);
        try (var producer = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, "aborted")).get();
            producer.abortTransaction();
            producer.beginTransaction();
            for (int number = 0; number < COUNT; number++)
                producer.send(new ProducerRecord<>(topic, String.valueOf(number)));
            producer.commitTransaction();
        }
        properties.remove("transactional.id");
        properties.put("group.id", topic);
        properties.put("auto.offset.reset", "earliest");
        properties.put("isolation.level", "read_committed");
        List<String> values = new ArrayList<>();
        try (var consumer = new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            long endNs = System.nanoTime() + PATIENCE.toNanos();
            while (values.size() < COUNT && System.nanoTime() < endNs)
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200)))
                    values.add(record.value());
            consumer.commitSync();
            TopicPartition partition = new TopicPartition(topic, 0);
            boolean committed = consumer.committed(Set.of(partition)).get(partition).offset() >= COUNT;
            return String.join(",", values) + (committed ? " committed" : "");
        }
    }
}
