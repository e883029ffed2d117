import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.List;
import java.util.StringJoiner;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.ByteBufferOutputStream;

/**
 * Apache Kafka's side of the record conformance checks: reads and builds record batches with Kafka's own classes.
 * A request is a line of words, the answer one line or several, of which the last is "end" or "error CLASS".
 * Bytes are in hex; "-" is null and "." is empty.
 */
public final class JavaRecords {
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] args) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Iterator<String> words = Arrays.asList(line.split(" ")).iterator();
            List<String> answer = new ArrayList<>();
            try {
                handle(words, answer);
                answer.add("end");
            } catch (RuntimeException | Error error) {
                answer.add("error " + error.getClass().getSimpleName());
            }
            answer.forEach(out::println);
            out.flush();
        }
    }

    private static void handle(Iterator<String> words, List<String> answer) throws IOException {
        String request = words.next();
        switch (request) {
            case "read" -> read(bytes(words.next()), answer);
            case "build" -> answer.add(hex(build(words)));
            case "marker" -> answer.add(hex(marker(words)));
            case "stamp" -> answer.add(hex(stamp(words)));
            default -> throw new IllegalArgumentException(request);
        }
    }

    /** read HEX: every batch as "batch ...", its records as "record ...". */
    private static void read(byte[] data, List<String> answer) {
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(data)).batches()) {
            batch.ensureValid();
            List<String> lines = new ArrayList<>();
            for (Record record : batch) {
                lines.add(describe(record));
            }
            answer.add(describe(batch));
            answer.addAll(lines);
        }
    }

    private static String describe(RecordBatch batch) {
        return words("batch", batch.magic(), batch.baseOffset(), batch.lastOffset(), batch.nextOffset(),
            batch.sizeInBytes(), batch.partitionLeaderEpoch(), batch.checksum(), batch.compressionType().id,
            batch.timestampType().id, batch.maxTimestamp(), batch.producerId(), batch.producerEpoch(),
            batch.baseSequence(), batch.lastSequence(), batch.isTransactional(), batch.isControlBatch(),
            batch.deleteHorizonMs().isPresent() ? batch.deleteHorizonMs().getAsLong() : "-",
            batch.countOrNull() == null ? "-" : batch.countOrNull());
    }

    private static String describe(Record record) {
        StringJoiner line = new StringJoiner(" ");
        line.add(words("record", record.offset(), record.timestamp(), record.sequence(),
            hex(record.key()), hex(record.value())));
        for (Header header : record.headers()) {
            line.add(hex(header.key().getBytes(StandardCharsets.UTF_8)));
            line.add(hex(header.value()));
        }
        return line.toString();
    }

    /**
     * build MAGIC CODEC LEVEL TIMESTAMP_TYPE BASE_OFFSET LOG_APPEND_TIME PRODUCER_ID PRODUCER_EPOCH BASE_SEQUENCE
     * TRANSACTIONAL CONTROL LEADER_EPOCH DELETE_HORIZON COUNT, then for each record OFFSET TIMESTAMP KEY VALUE HEADERS
     * and for each header KEY VALUE.
     */
    private static byte[] build(Iterator<String> words) {
        byte magic = Byte.parseByte(words.next());
        Compression compression = compression(words);
        TimestampType type = timestampType(words);
        long baseOffset = number(words);
        long logAppendTime = number(words);
        long producerId = number(words);
        short producerEpoch = (short) number(words);
        int baseSequence = (int) number(words);
        boolean transactional = Boolean.parseBoolean(words.next());
        boolean control = Boolean.parseBoolean(words.next());
        int leaderEpoch = (int) number(words);
        long deleteHorizon = number(words);
        ByteBufferOutputStream out = new ByteBufferOutputStream(1024);
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(out, magic, compression, type, baseOffset,
            logAppendTime, producerId, producerEpoch, baseSequence, transactional, control, leaderEpoch,
            Integer.MAX_VALUE, deleteHorizon);
        for (long left = number(words); left > 0; left--) {
            append(builder, control, words);
        }
        return content(builder.build().buffer());
    }

    private static void append(MemoryRecordsBuilder builder, boolean control, Iterator<String> words) {
        long offset = number(words);
        long timestamp = number(words);
        byte[] key = bytes(words.next());
        byte[] value = bytes(words.next());
        if (control) {
            ControlRecordType type = ControlRecordType.parse(ByteBuffer.wrap(key));
            builder.appendControlRecord(timestamp, type, ByteBuffer.wrap(value));
            number(words);
            return;
        }
        Header[] headers = new Header[(int) number(words)];
        for (int i = 0; i < headers.length; i++) {
            headers[i] = new RecordHeader(new String(bytes(words.next()), StandardCharsets.UTF_8), bytes(words.next()));
        }
        builder.appendWithOffset(offset, timestamp, key, value, headers);
    }

    /** marker OFFSET TIMESTAMP LEADER_EPOCH PRODUCER_ID PRODUCER_EPOCH COMMIT COORDINATOR_EPOCH. */
    private static byte[] marker(Iterator<String> words) {
        long offset = number(words);
        long timestamp = number(words);
        int leaderEpoch = (int) number(words);
        long producerId = number(words);
        short producerEpoch = (short) number(words);
        ControlRecordType type = Boolean.parseBoolean(words.next()) ? ControlRecordType.COMMIT : ControlRecordType.ABORT;
        EndTransactionMarker marker = new EndTransactionMarker(type, (int) number(words));
        return content(MemoryRecords.withEndTransactionMarker(
            offset, timestamp, leaderEpoch, producerId, producerEpoch, marker).buffer());
    }

    /** stamp HEX LAST_OFFSET LEADER_EPOCH TIMESTAMP_TYPE MAX_TIMESTAMP: the fields that a leader sets in a batch. */
    private static byte[] stamp(Iterator<String> words) {
        ByteBuffer buffer = ByteBuffer.wrap(bytes(words.next()));
        MutableRecordBatch batch = MemoryRecords.readableRecords(buffer).batches().iterator().next();
        batch.setLastOffset(number(words));
        batch.setPartitionLeaderEpoch((int) number(words));
        batch.setMaxTimestamp(timestampType(words), number(words));
        return content(buffer);
    }

    private static Compression compression(Iterator<String> words) {
        CompressionType codec = CompressionType.forId((int) number(words));
        String level = words.next();
        if (level.equals("-")) {
            return Compression.of(codec).build();
        }
        return switch (codec) {
            case GZIP -> Compression.gzip().level(Integer.parseInt(level)).build();
            case LZ4 -> Compression.lz4().level(Integer.parseInt(level)).build();
            case ZSTD -> Compression.zstd().level(Integer.parseInt(level)).build();
            default -> throw new IllegalArgumentException(codec + " has no levels");
        };
    }

    private static TimestampType timestampType(Iterator<String> words) {
        int id = (int) number(words);
        return Arrays.stream(TimestampType.values()).filter(type -> type.id == id).findFirst().orElseThrow();
    }

    private static long number(Iterator<String> words) {
        return Long.parseLong(words.next());
    }

    private static String words(Object... values) {
        StringJoiner line = new StringJoiner(" ");
        for (Object value : values) {
            line.add(String.valueOf(value));
        }
        return line.toString();
    }

    private static byte[] bytes(String word) {
        return word.equals("-") ? null : word.equals(".") ? new byte[0] : HEX.parseHex(word);
    }

    private static String hex(byte[] data) {
        return data == null ? "-" : data.length == 0 ? "." : HEX.formatHex(data);
    }

    private static String hex(ByteBuffer data) {
        return data == null ? "-" : hex(content(data));
    }

    private static byte[] content(ByteBuffer buffer) {
        byte[] data = new byte[buffer.remaining()];
        buffer.duplicate().get(data);
        return data;
    }
}
