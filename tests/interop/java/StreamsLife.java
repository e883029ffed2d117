import java.nio.charset.StandardCharsets;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;

import org.apache.kafka.streams.KafkaStreams;

/**
 * How an application under test lives: it says each of its states, "running" with the partitions that it reads, and ends
 * in order when its input ends.
 */
final class StreamsLife {
    private StreamsLife() {
    }

    static void live(KafkaStreams streams) throws InterruptedException {
        CountDownLatch ended = new CountDownLatch(1);
        streams.setStateListener((now, before) -> {
            say(now == KafkaStreams.State.RUNNING ? "running " + partitions(streams) : now.name().toLowerCase());
            if (now == KafkaStreams.State.ERROR)
                ended.countDown();
        });
        streams.start();
        Thread input = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    // What it says does not matter, only that it ends.
                }
            } catch (java.io.IOException error) {
                say(error.toString());
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

    private static synchronized void say(String text) {
        System.out.write((text + "\n").getBytes(StandardCharsets.UTF_8), 0, text.length() + 1);
        System.out.flush();
    }
}
