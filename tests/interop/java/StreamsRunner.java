import java.nio.charset.StandardCharsets;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;

import org.apache.kafka.streams.KafkaStreams;

/**
 * Runs an application under test: prints each of its states, "running" with the partitions that it reads, and closes the
 * application when the input ends.
 */
final class StreamsRunner {
    private StreamsRunner() {
    }

    static void run(KafkaStreams streams) throws InterruptedException {
        CountDownLatch ended = new CountDownLatch(1);
        streams.setStateListener((now, before) -> {
            print(now == KafkaStreams.State.RUNNING ? "running " + partitions(streams) : now.name().toLowerCase());
            if (now == KafkaStreams.State.ERROR)
                ended.countDown();
        });
        streams.start();
        Thread input = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    // Only the end of the input matters.
                }
            } catch (java.io.IOException error) {
                print(error.toString());
            }
            ended.countDown();
        });
        input.setDaemon(true);
        input.start();
        ended.await();
        streams.close();
    }

    private static TreeSet<String> partitions(KafkaStreams streams) {
        TreeSet<String> found = new TreeSet<>();
        streams.metadataForLocalThreads().forEach(thread -> thread.activeTasks().forEach(task ->
            task.topicPartitions().forEach(partition -> found.add(partition.toString()))));
        return found;
    }

    private static synchronized void print(String text) {
        System.out.write((text + "\n").getBytes(StandardCharsets.UTF_8), 0, text.length() + 1);
        System.out.flush();
    }
}
