import java.util.Properties;
import java.util.regex.Pattern;

import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;

/**
 * An application that copies the records of all topics of a pattern: StreamsRegex BOOTSTRAP APPLICATION PATTERN TO DIRECTORY
 *
 * Its group has the classic protocol. One task reads the first partitions of all topics: before it processes records
 * it requests the lag of the partitions that have returned none.
 */
public final class StreamsRegex {
    private StreamsRegex() {
    }

    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", args[0]);
        properties.put("application.id", args[1]);
        properties.put("state.dir", args[4]);
        properties.put("group.protocol", "classic");
        properties.put("commit.interval.ms", "100");
        properties.put("metadata.max.age.ms", "200");
        properties.put("fetch.max.wait.ms", "1500");
        properties.put("auto.offset.reset", "earliest");

        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(Pattern.compile(args[2]), Consumed.with(Serdes.String(), Serdes.String()))
            .to(args[3], Produced.with(Serdes.String(), Serdes.String()));
        StreamsRunner.run(new KafkaStreams(builder.build(), properties));
    }
}
