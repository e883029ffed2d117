import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import kafka.log.Cleaner;
import kafka.log.CleanerStats;
import kafka.log.LogToClean;
import kafka.log.UnifiedLog;
import kafka.server.BrokerTopicStats;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogOffsetsListener;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.utils.Throttler;
import scala.Option;
import scala.Tuple2;
import scala.runtime.BoxedUnit;

/**
 * Runs Apache Kafka's own log cleaner on one partition directory that was closed cleanly:
 * JavaCleaner39 DIRECTORY FIRST_DIRTY FIRST_UNCLEANABLE NOW_MS DEDUPE_BYTES IO_BUFFER_BYTES [KEY=VALUE...]
 * FIRST_UNCLEANABLE -1: the active segment. The clock is fixed at NOW_MS. Prints one line of key=value.
 */
public class JavaCleaner39 {
    /** A fixed clock, so that the result does not depend on the time of the run. */
    static class FixedTime implements Time {
        private final long nowMs;

        FixedTime(long nowMs) {
            this.nowMs = nowMs;
        }

        @Override
        public long milliseconds() {
            return nowMs;
        }

        @Override
        public long nanoseconds() {
            return System.nanoTime();
        }

        @Override
        public long hiResClockMs() {
            return System.nanoTime() / 1_000_000;
        }

        @Override
        public void sleep(long ms) {
            throw new UnsupportedOperationException();
        }

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException();
        }
    }

    public static void main(String[] args) throws Exception {
        File directory = new File(args[0]);
        Time time = new FixedTime(Long.parseLong(args[3]));
        Properties properties = new Properties();
        for (int i = 6; i < args.length; i++) {
            String[] setting = args[i].split("=", 2);
            properties.put(setting[0], setting[1]);
        }
        LogConfig config = new LogConfig(properties);
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        UnifiedLog log = UnifiedLog.apply(directory, config, 0L, Long.MAX_VALUE, scheduler, new BrokerTopicStats(false), time,
            300_000, new ProducerStateManagerConfig(86_400_000, false), 600_000, new LogDirFailureChannel(1), true,
            Option.empty(), true, new ConcurrentHashMap<>(), false, LogOffsetsListener.NO_OP_OFFSETS_LISTENER);
        log.updateHighWatermark(log.logEndOffset());
        long uncleanable = Long.parseLong(args[2]);
        LogToClean toClean = new LogToClean(log.topicPartition(), log, Long.parseLong(args[1]),
            uncleanable < 0 ? log.activeSegment().baseOffset() : uncleanable, false);
        int ioBuffer = Integer.parseInt(args[5]);
        Throttler throttler = new Throttler(Double.MAX_VALUE, 300, "cleaner-io", "bytes", Time.SYSTEM);
        Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(Integer.parseInt(args[4])), ioBuffer, ioBuffer, 0.9, throttler,
            Time.SYSTEM, partition -> BoxedUnit.UNIT);
        double cpuSeconds = -cpuSeconds();
        long started = System.nanoTime();
        Tuple2<Object, CleanerStats> result = cleaner.doClean(toClean, time.milliseconds());
        double seconds = (System.nanoTime() - started) / 1e9;
        cpuSeconds += cpuSeconds();
        CleanerStats stats = result._2();
        System.out.println("next=" + result._1() + " seconds=" + seconds + " cpu_seconds=" + cpuSeconds + " index_seconds=" + stats.elapsedIndexSecs()
            + " messages_read=" + stats.messagesRead() + " messages_written=" + stats.messagesWritten()
            + " bytes_read=" + stats.bytesRead() + " bytes_written=" + stats.bytesWritten()
            + " map_messages_read=" + stats.mapMessagesRead() + " invalid=" + stats.invalidMessagesRead()
            + " utilization=" + stats.bufferUtilization() + " peak_kib=" + peakKib());
        log.close();
        scheduler.shutdown();
    }

    private static double cpuSeconds() {
        return ProcessHandle.current().info().totalCpuDuration().orElse(Duration.ZERO).toNanos() / 1e9;
    }

    private static String peakKib() throws Exception {
        Path status = Path.of("/proc/self/status");
        if (!Files.exists(status))
            return "0";
        return Files.readAllLines(status).stream().filter(line -> line.startsWith("VmHWM:")).findFirst().orElse("VmHWM: 0 kB")
            .replaceAll("[^0-9]", "");
    }
}
