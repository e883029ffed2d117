import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.metadata.MetadataRecordType;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.image.node.MetadataImageNode;
import org.apache.kafka.image.node.MetadataNode;
import org.apache.kafka.image.node.printer.MetadataNodeRedactionCriteria;
import org.apache.kafka.image.node.printer.NodeStringifier;
import org.apache.kafka.metadata.MetadataRecordSerde;

/** The image that Apache Kafka builds from files of metadata records, as the tree of its metadata shell. */
final class MetadataTree {
    private MetadataTree() {
    }

    /** "tree": the image; "records": the number of records of each type. A snapshot comes before the segments after it. */
    static Object of(String[] files) throws IOException {
        MetadataDelta delta = new MetadataDelta.Builder().setImage(MetadataImage.EMPTY).build();
        Map<String, Integer> counts = new TreeMap<>();
        List<ApiMessage> transaction = null;
        long last = -1;
        int epoch = -1;
        for (String name : files) {
            try (FileRecords records = FileRecords.open(new File(name), false)) {
                for (RecordBatch batch : records.batches()) {
                    batch.ensureValid();
                    boolean snapshot = name.endsWith(".checkpoint");
                    if (batch.isControlBatch() || !snapshot && batch.lastOffset() <= last) {
                        continue;
                    }
                    for (Record record : batch) {
                        ApiMessage message = message(record.value());
                        MetadataRecordType type = MetadataRecordType.fromId(message.apiKey());
                        counts.merge(type.name(), 1, Integer::sum);
                        if (type == MetadataRecordType.BEGIN_TRANSACTION_RECORD) {
                            transaction = new ArrayList<>();
                        } else if (type == MetadataRecordType.END_TRANSACTION_RECORD) {
                            transaction.forEach(delta::replay);
                            transaction = null;
                        } else if (type == MetadataRecordType.ABORT_TRANSACTION_RECORD) {
                            transaction = null;
                        } else if (transaction != null) {
                            transaction.add(message);
                        } else {
                            delta.replay(message);
                        }
                    }
                    if (!snapshot) {
                        last = batch.lastOffset();
                    }
                    epoch = Math.max(epoch, batch.partitionLeaderEpoch());
                }
            }
            if (name.endsWith(".checkpoint")) {
                last = Long.parseLong(new File(name).getName().split("-")[0]) - 1;
                delta.finishSnapshot();
            }
        }
        Map<String, Object> shown = new LinkedHashMap<>();
        shown.put("tree", tree(new MetadataImageNode(delta.apply(new MetadataProvenance(last, epoch, 0, true)))));
        shown.put("records", counts);
        return shown;
    }

    private static ApiMessage message(ByteBuffer value) {
        return new MetadataRecordSerde().read(new ByteBufferAccessor(value), value.remaining()).message();
    }

    private static Object tree(MetadataNode node) {
        if (node == null) {
            return null;  // Kafka's own nodes do not find some names of quotas that they list
        }
        if (!node.isDirectory()) {
            NodeStringifier text = new NodeStringifier(new MetadataNodeRedactionCriteria.Disabled());
            node.print(text);
            return text.toString();
        }
        Map<String, Object> shown = new TreeMap<>();
        for (String name : node.childNames()) {
            shown.put(name, tree(node.child(name)));
        }
        return shown;
    }
}
