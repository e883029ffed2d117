import java.io.FileInputStream;
import java.util.Properties;

import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * One instance of an application that counts words exactly once: StreamsCount BOOTSTRAP APPLICATION FROM TO [LOGIN] DIRECTORY
 *
 * LOGIN is a file with more properties. Every record of FROM is a line of words; TO gets a record for each word, with the word as key and its count so far as
 * value.
 */
public final class StreamsCount {
    private StreamsCount() {
    }

    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", args[0]);
        properties.put("application.id", args[1]);
        properties.put("state.dir", args[args.length - 1]);
        if (args.length > 5) {
            try (FileInputStream login = new FileInputStream(args[4])) {
                properties.load(login);
            }
        }
        properties.put("processing.guarantee", "exactly_once_v2");
        properties.put("num.stream.threads", "2");
        properties.put("commit.interval.ms", "100");
        properties.put("statestore.cache.max.bytes", "0");
        properties.put("auto.offset.reset", "earliest");
        properties.put("session.timeout.ms", "1500");
        properties.put("heartbeat.interval.ms", "300");
        properties.put("producer.transaction.timeout.ms", "5000");

        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(args[2], Consumed.with(Serdes.String(), Serdes.String()))
            .flatMapValues(line -> java.util.Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
            .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts").withValueSerde(Serdes.Long()))
            .toStream()
            .mapValues(String::valueOf)
            .to(args[3], Produced.with(Serdes.String(), Serdes.String()));

        StreamsRunner.run(new KafkaStreams(builder.build(), properties));
    }
}
