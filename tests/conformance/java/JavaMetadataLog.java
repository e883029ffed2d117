import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.raft.Batch;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.snapshot.FileRawSnapshotReader;
import org.apache.kafka.snapshot.RecordsSnapshotReader;

/**
 * Apache Kafka's side of the checks of metadata records and snapshots.
 *
 * <p>A request on standard input is an int32 length, one byte for the operation, and its payload; the answer on standard
 * output an int32 length, one byte (0, or 1 for an error) and the result.
 *
 * <p>The operations: 'f' a framed record, read and written again; 'v' a metadata.version as int16: the versions of
 * RegisterBrokerRecord, PartitionRecord and PartitionChangeRecord; 's' the directory, end offset and epoch of a
 * snapshot, in lines: the timestamp of its header, then its records as Kafka's serde writes them, each after its length.
 */
public final class JavaMetadataLog {
    private static final int MAX_BATCH_BYTES = 8 * 1024 * 1024;

    private JavaMetadataLog() {
    }

    public static void main(String[] args) throws IOException {
        DataInputStream in = new DataInputStream(new BufferedInputStream(System.in));
        DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out));
        while (true) {
            byte[] request;
            try {
                request = new byte[in.readInt()];
            } catch (EOFException end) {
                return;
            }
            in.readFully(request);
            byte status = 0;
            byte[] answer;
            try {
                answer = answer(ByteBuffer.wrap(request));
            } catch (RuntimeException | IOException refusal) {
                status = 1;
                answer = refusal.toString().getBytes(StandardCharsets.UTF_8);
            }
            out.writeInt(1 + answer.length);
            out.writeByte(status);
            out.write(answer);
            out.flush();
        }
    }

    private static byte[] answer(ByteBuffer request) throws IOException {
        char operation = (char) request.get();
        switch (operation) {
            case 'f':
                return written(MetadataRecordSerde.INSTANCE.read(new ByteBufferAccessor(request), request.remaining()));
            case 'v':
                return versions(MetadataVersion.fromFeatureLevel(request.getShort()));
            case 's':
                return snapshot(StandardCharsets.UTF_8.decode(request).toString().split("\n"));
            default:
                throw new IllegalArgumentException("operation " + operation);
        }
    }

    private static byte[] written(ApiMessageAndVersion record) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(MetadataRecordSerde.INSTANCE.recordSize(record, cache));
        MetadataRecordSerde.INSTANCE.write(record, cache, new ByteBufferAccessor(buffer));
        return buffer.array();
    }

    private static byte[] versions(MetadataVersion version) {
        return new byte[] {
            (byte) version.registerBrokerRecordVersion(),
            (byte) version.partitionRecordVersion(),
            (byte) version.partitionChangeRecordVersion(),
        };
    }

    private static byte[] snapshot(String[] words) throws IOException {
        OffsetAndEpoch id = new OffsetAndEpoch(Long.parseLong(words[1]), Integer.parseInt(words[2]));
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(bytes);
        try (FileRawSnapshotReader raw = FileRawSnapshotReader.open(Path.of(words[0]), id);
                RecordsSnapshotReader<ApiMessageAndVersion> reader = RecordsSnapshotReader.of(
                    raw, MetadataRecordSerde.INSTANCE, BufferSupplier.create(), MAX_BATCH_BYTES, true, new LogContext())) {
            out.writeLong(reader.lastContainedLogTimestamp());
            while (reader.hasNext()) {
                Batch<ApiMessageAndVersion> batch = reader.next();
                for (ApiMessageAndVersion record : batch) {
                    byte[] value = written(record);
                    out.writeInt(value.length);
                    out.write(value);
                }
            }
        }
        return bytes.toByteArray();
    }
}
