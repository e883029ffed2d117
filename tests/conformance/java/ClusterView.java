import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.OptionalLong;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.DescribeProducersOptions;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.QuorumInfo;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Everything that a broker reports of its cluster to the Java clients, as one tree of maps, lists and plain values. */
final class ClusterView {
    private static final long READ_LIMIT_NS = 60_000_000_000L;

    private final Admin admin;
    private final String bootstrap;
    private final Set<String> parts;
    private final Map<String, Object> shown = new LinkedHashMap<>();

    /** "parts": the names of the requested parts; all when it is empty. */
    ClusterView(Admin admin, JsonNode request) {
        this.admin = admin;
        this.bootstrap = request.path("bootstrap").asText();
        this.parts = Set.of(JavaAdmin.strings(request.path("parts")));
    }

    private interface Part {
        Object look() throws Exception;
    }

    private void add(String name, Part part) {
        if (parts.isEmpty() || parts.contains(name)) {
            try {
                shown.put(name, part.look());
            } catch (Exception error) {
                shown.put(name, JavaAdmin.failure(error));
            }
        }
    }

    Map<String, Object> everything() throws Exception {
        List<String> topics = new ArrayList<>(new TreeSet<>(
            admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get()));
        Map<String, TopicDescription> described = admin.describeTopics(topics,
            new DescribeTopicsOptions().includeAuthorizedOperations(true)).allTopicNames().get();
        List<TopicPartition> partitions = described.values().stream()
            .flatMap(topic -> topic.partitions().stream().map(one -> new TopicPartition(topic.name(), one.partition())))
            .sorted(Comparator.comparing(TopicPartition::topic).thenComparing(TopicPartition::partition)).toList();
        add("cluster", this::cluster);
        add("features", this::features);
        add("quorum", this::quorum);
        add("topics", () -> topics(described));
        add("configs", () -> configs(topics));
        add("quotas", () -> text(admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get()));
        add("scram", () -> text(admin.describeUserScramCredentials().all().get()));
        add("acls", () -> admin.describeAcls(AclBindingFilter.ANY).values().get().stream().map(Object::toString).sorted().toList());
        add("logDirs", this::logDirs);
        add("offsets", () -> offsets(partitions));
        add("producers", () -> producers(partitions));
        add("reassignments", () -> admin.listPartitionReassignments().reassignments().get().toString());
        add("committed", () -> records(partitions, "read_committed"));
        add("uncommitted", () -> records(partitions, "read_uncommitted"));
        add("groups", this::groups);
        add("transactions", this::transactions);
        return shown;
    }

    private Object cluster() throws Exception {
        var cluster = admin.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(true).includeFencedBrokers(true));
        Map<String, Object> found = new TreeMap<>();
        found.put("id", cluster.clusterId().get());
        found.put("controller", cluster.controller().get().id());
        found.put("operations", sorted(cluster.authorizedOperations().get()));
        Map<String, Object> nodes = new TreeMap<>();
        for (Node node : cluster.nodes().get()) {
            nodes.put(node.idString(), node.host() + " rack=" + node.rack() + " fenced=" + node.isFenced());
        }
        found.put("nodes", nodes);
        return found;
    }

    private Object features() throws Exception {
        var metadata = admin.describeFeatures().featureMetadata().get();
        return Map.of("finalized", text(metadata.finalizedFeatures()), "supported", text(metadata.supportedFeatures()),
            "epoch", metadata.finalizedFeaturesEpoch().orElse(-1L));
    }

    private Object quorum() throws Exception {
        QuorumInfo quorum = admin.describeMetadataQuorum().quorumInfo().get();
        Map<String, Object> found = new TreeMap<>();
        found.put("leader", quorum.leaderId());
        found.put("epoch", quorum.leaderEpoch());
        found.put("highWatermark", quorum.highWatermark());
        found.put("voters", quorum.voters().stream().map(one -> one.replicaId() + " " + one.replicaDirectoryId()).toList());
        found.put("observers", quorum.observers().stream().map(one -> one.replicaId() + " " + one.replicaDirectoryId()).toList());
        found.put("nodes", quorum.nodes().keySet().toString());
        return found;
    }

    private Object topics(Map<String, TopicDescription> described) {
        Map<String, Object> found = new TreeMap<>();
        described.forEach((name, topic) -> {
            Map<String, Object> one = new LinkedHashMap<>();
            one.put("id", topic.topicId().toString());
            one.put("internal", topic.isInternal());
            one.put("operations", sorted(topic.authorizedOperations()));
            one.put("partitions", topic.partitions().stream().map(partition -> partition.partition() + " leader="
                + (partition.leader() == null ? "none" : partition.leader().idString()) + " replicas=" + ids(partition.replicas())
                + " isr=" + ids(partition.isr()) + " elr=" + ids(partition.elr()) + " lastKnownElr="
                + ids(partition.lastKnownElr())).toList());
            found.put(name, one);
        });
        return found;
    }

    private static String ids(List<Node> nodes) {
        return nodes == null ? "null" : nodes.stream().map(Node::idString).collect(Collectors.joining(","));
    }

    private Object configs(List<String> topics) throws Exception {
        Collection<ConfigResource> resources = new ArrayList<>();
        topics.forEach(topic -> resources.add(new ConfigResource(ConfigResource.Type.TOPIC, topic)));
        resources.add(new ConfigResource(ConfigResource.Type.BROKER, ""));
        for (Node node : admin.describeCluster().nodes().get()) {
            resources.add(new ConfigResource(ConfigResource.Type.BROKER, node.idString()));
        }
        var kinds = Set.of(ConfigResource.Type.CLIENT_METRICS, ConfigResource.Type.GROUP);
        resources.addAll(admin.listConfigResources(kinds, new org.apache.kafka.clients.admin.ListConfigResourcesOptions()).all().get());
        var options = new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
        Map<String, Object> found = new TreeMap<>();
        for (Map.Entry<ConfigResource, Config> one : admin.describeConfigs(resources, options).all().get().entrySet()) {
            Map<String, Object> entries = new TreeMap<>();
            one.getValue().entries().forEach(entry -> entries.put(entry.name(), config(entry)));
            found.put(one.getKey().type() + " " + one.getKey().name(), entries);
        }
        return found;
    }

    static Object config(ConfigEntry entry) {
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("value", entry.value());
        found.put("source", entry.source().name());
        found.put("type", entry.type().name());
        found.put("sensitive", entry.isSensitive());
        found.put("readOnly", entry.isReadOnly());
        found.put("synonyms", entry.synonyms().stream().map(one -> one.source() + " " + one.name() + "=" + one.value()).toList());
        found.put("documentation", entry.documentation());
        return found;
    }

    private Object logDirs() throws Exception {
        Map<String, Object> found = new TreeMap<>();
        for (Node node : admin.describeCluster().nodes().get()) {
            admin.describeLogDirs(List.of(node.id())).allDescriptions().get().get(node.id()).forEach((path, dir) -> {
                Map<String, Object> one = new TreeMap<>();
                one.put("error", String.valueOf(dir.error()));
                one.put("cordoned", dir.isCordoned());
                one.put("bytes known", dir.totalBytes().isPresent() && dir.usableBytes().isPresent());
                Map<String, Object> replicas = new TreeMap<>();
                dir.replicaInfos().forEach((key, info) -> replicas.put(key.toString(),
                    "size=" + info.size() + " lag=" + info.offsetLag() + " future=" + info.isFuture()));
                one.put("replicas", replicas);
                found.put(path, one);
            });
        }
        return found;
    }

    private Object offsets(List<TopicPartition> partitions) throws Exception {
        Map<String, Map<String, Object>> found = new TreeMap<>();
        partitions.forEach(key -> found.put(key.toString(), new TreeMap<>()));
        add(found, partitions, "earliest", OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED);
        add(found, partitions, "latest", OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED);
        add(found, partitions, "stable", OffsetSpec.latest(), IsolationLevel.READ_COMMITTED);
        add(found, partitions, "youngest", OffsetSpec.maxTimestamp(), IsolationLevel.READ_UNCOMMITTED);
        add(found, partitions, "local", OffsetSpec.earliestLocal(), IsolationLevel.READ_UNCOMMITTED);
        return found;
    }

    private void add(Map<String, Map<String, Object>> found, List<TopicPartition> partitions, String name, OffsetSpec spec,
                     IsolationLevel isolation) throws Exception {
        var asked = partitions.stream().collect(Collectors.toMap(key -> key, key -> spec));
        admin.listOffsets(asked, new ListOffsetsOptions(isolation)).all().get().forEach((key, one) -> found.get(key.toString())
            .put(name, one.offset() + " @" + one.timestamp() + " epoch=" + one.leaderEpoch().orElse(-1)));
    }

    private Object producers(List<TopicPartition> partitions) throws Exception {
        Map<String, Object> found = new TreeMap<>();
        admin.describeProducers(partitions, new DescribeProducersOptions()).all().get().forEach((key, states) -> {
            if (!states.activeProducers().isEmpty()) {
                found.put(key.toString(), states.activeProducers().stream().map(Object::toString).sorted().toList());
            }
        });
        return found;
    }

    private Object records(List<TopicPartition> partitions, String isolation) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("isolation.level", isolation);
        properties.put("enable.auto.commit", "false");
        properties.put("enable.metrics.push", "false");
        properties.put("allow.auto.create.topics", "false");
        properties.put("fetch.max.wait.ms", "10");
        properties.put("max.poll.records", "20000");
        Map<TopicPartition, PartitionDigest> digests = new LinkedHashMap<>();
        for (TopicPartition partition : partitions) {
            digests.put(partition, new PartitionDigest());
        }
        try (var consumer = new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            Map<TopicPartition, Long> ends = new LinkedHashMap<>(consumer.endOffsets(partitions));
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            long deadline = System.nanoTime() + READ_LIMIT_NS;
            while (!ends.isEmpty()) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("no end of " + ends);
                }
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(20))) {
                    digests.get(new TopicPartition(record.topic(), record.partition())).add(record);
                }
                ends.entrySet().removeIf(end -> consumer.position(end.getKey()) >= end.getValue());
            }
        }
        Map<String, Object> found = new TreeMap<>();
        digests.forEach((key, digest) -> found.put(key.toString(), digest.text()));
        return found;
    }

    /** A summary of a partition's records: their number, the offsets, and a digest of all that an application receives. */
    private static final class PartitionDigest {
        private final MessageDigest digest = digest();
        private int count;
        private long first = -1;
        private long last = -1;

        private static MessageDigest digest() {
            try {
                return MessageDigest.getInstance("SHA-256");
            } catch (java.security.NoSuchAlgorithmException error) {
                throw new IllegalStateException(error);
            }
        }

        void add(ConsumerRecord<byte[], byte[]> record) {
            first = count == 0 ? record.offset() : first;
            last = record.offset();
            count++;
            update(record.offset() + " " + record.timestampType() + " " + record.timestamp() + " " + record.leaderEpoch().orElse(-1));
            update(record.key());
            update(record.value());
            for (Header header : record.headers()) {
                update(header.key());
                update(header.value());
            }
            update("end");
        }

        private void update(String text) {
            update(text.getBytes(StandardCharsets.UTF_8));
        }

        private void update(byte[] bytes) {
            digest.update((bytes == null ? "null;" : bytes.length + ";").getBytes(StandardCharsets.UTF_8));
            if (bytes != null) {
                digest.update(bytes);
            }
        }

        String text() {
            return count + " records " + first + ".." + last + " " + HexFormat.of().formatHex(digest.digest(), 0, 8);
        }
    }

    private Object groups() throws Exception {
        Map<String, Object> found = new TreeMap<>();
        for (var group : admin.listGroups().all().get()) {
            Map<String, Object> one = new TreeMap<>();
            one.put("type", group.type().map(Object::toString).orElse("none"));
            one.put("state", group.groupState().map(Object::toString).orElse("none"));
            Map<String, Object> offsets = new TreeMap<>();
            admin.listConsumerGroupOffsets(group.groupId()).partitionsToOffsetAndMetadata().get().forEach((key, offset) ->
                offsets.put(key.toString(), Objects.toString(offset)));
            one.put("offsets", offsets);
            found.put(group.groupId(), one);
        }
        return found;
    }

    private Object transactions() throws Exception {
        Map<String, Object> found = new TreeMap<>();
        List<String> names = admin.listTransactions().all().get().stream().map(one -> one.transactionalId()).sorted().toList();
        admin.describeTransactions(names).all().get().forEach((name, one) -> found.put(name, one.state() + " producer="
            + one.producerId() + "/" + one.producerEpoch() + " timeout=" + one.transactionTimeoutMs() + " start="
            + text(one.transactionStartTimeMs()) + " partitions=" + sorted(one.topicPartitions())));
        return found;
    }

    private static String text(OptionalLong number) {
        return number.isPresent() ? String.valueOf(number.getAsLong()) : "none";
    }

    private static Map<String, String> text(Map<?, ?> map) {
        Map<String, String> found = new TreeMap<>();
        map.forEach((key, value) -> found.put(key.toString(),
            value instanceof Map<?, ?> inner ? new TreeMap<>(inner).toString() : value.toString()));
        return found;
    }

    private static List<String> sorted(Collection<?> values) {
        return values == null ? null : values.stream().map(Object::toString).sorted().toList();
    }
}
