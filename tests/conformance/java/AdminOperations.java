import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.StreamSupport;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterClientQuotasOptions;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigsOptions;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreatePartitionsOptions;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.admin.UserScramCredentialAlteration;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;

/** Operations that change a cluster: each returns a map from its objects to "ok", a value or the error. */
final class AdminOperations {
    private AdminOperations() {
    }

    private interface Ask {
        Object value() throws Exception;
    }

    static Object run(String what, Admin admin, JsonNode request) throws Exception {
        boolean dry = request.path("validateOnly").asBoolean();
        return switch (what) {
            case "createTopics" -> createTopics(admin, request.path("topics"), dry);
            case "deleteTopics" -> outcome(admin.deleteTopics(TopicCollection.ofTopicNames(
                List.of(JavaAdmin.strings(request.path("topics"))))).topicNameValues());
            case "deleteTopicIds" -> outcome(admin.deleteTopics(TopicCollection.ofTopicIds(
                List.of(JavaAdmin.strings(request.path("topics"))).stream().map(Uuid::fromString).toList())).topicIdValues());
            case "createPartitions" -> createPartitions(admin, request.path("topics"), dry);
            case "alterConfigs" -> outcome(admin.incrementalAlterConfigs(configs(request.path("resources")),
                new AlterConfigsOptions().validateOnly(dry)).values());
            case "alterQuotas" -> outcome(admin.alterClientQuotas(quotas(request.path("entities")),
                new AlterClientQuotasOptions().validateOnly(dry)).values());
            case "alterScram" -> outcome(admin.alterUserScramCredentials(scram(request.path("users"))).values());
            case "createAcls" -> outcome(admin.createAcls(list(request.path("acls")).map(AdminOperations::acl).toList()).values());
            case "deleteAcls" -> deleteAcls(admin, request.path("acls"));
            case "deleteRecords" -> deleteRecords(admin, request.path("offsets"));
            case "updateFeatures" -> updateFeatures(admin, request.path("features"), dry);
            case "electLeaders" -> electLeaders(admin, request);
            case "reassign" -> reassign(admin, request.path("partitions"));
            case "alterLogDirs" -> alterLogDirs(admin, request.path("replicas"));
            case "unregisterBroker" -> outcome(Map.of("broker", admin.unregisterBroker(request.path("id").asInt()).all()));
            case "describeConfigs" -> describeConfigs(admin, request);
            case "listConfigResources" -> listConfigResources(admin);
            default -> throw new IllegalArgumentException(what);
        };
    }

    private static java.util.stream.Stream<JsonNode> list(JsonNode node) {
        return StreamSupport.stream(node.spliterator(), false);
    }

    private static Map<String, JsonNode> fields(JsonNode node) {
        Map<String, JsonNode> found = new LinkedHashMap<>();
        node.fields().forEachRemaining(field -> found.put(field.getKey(), field.getValue()));
        return found;
    }

    private static Object value(Ask ask) {
        try {
            Object value = ask.value();
            return value == null ? "ok" : value;
        } catch (Exception error) {
            return JavaAdmin.failure(error);
        }
    }

    private static Map<String, Object> outcome(Map<?, ? extends KafkaFuture<?>> futures) {
        Map<String, Object> found = new TreeMap<>();
        futures.forEach((key, future) -> found.put(key.toString(), value(future::get)));
        return found;
    }

    private static TopicPartition partition(String name) {
        int dash = name.lastIndexOf('-');
        return new TopicPartition(name.substring(0, dash), Integer.parseInt(name.substring(dash + 1)));
    }

    private static List<Integer> numbers(JsonNode node) {
        return list(node).map(JsonNode::asInt).toList();
    }

    // -- topics --

    private static Object createTopics(Admin admin, JsonNode topics, boolean dry) {
        List<NewTopic> wanted = new ArrayList<>();
        fields(topics).forEach((name, topic) -> {
            Map<Integer, List<Integer>> assignments = new HashMap<>();
            fields(topic.path("assignments")).forEach((key, replicas) -> assignments.put(Integer.valueOf(key), numbers(replicas)));
            NewTopic one = assignments.isEmpty()
                ? new NewTopic(name, Optional.ofNullable(topic.has("partitions") ? topic.get("partitions").asInt() : null),
                    Optional.ofNullable(topic.has("replicas") ? (short) topic.get("replicas").asInt() : null))
                : new NewTopic(name, assignments);
            Map<String, String> configs = new LinkedHashMap<>();
            fields(topic.path("configs")).forEach((key, value) -> configs.put(key, value.isNull() ? null : value.asText()));
            wanted.add(one.configs(configs));
        });
        var result = admin.createTopics(wanted, new CreateTopicsOptions().validateOnly(dry));
        Map<String, Object> found = new TreeMap<>();
        result.values().keySet().forEach(name -> found.put(name, value(() -> {
            Map<String, Object> one = new TreeMap<>();
            one.put("partitions", result.numPartitions(name).get());
            one.put("replicas", result.replicationFactor(name).get());
            Map<String, Object> configs = new TreeMap<>();
            result.config(name).get().entries().forEach(entry ->
                configs.put(entry.name(), entry.value() + " " + entry.source() + " " + entry.isReadOnly() + " " + entry.isSensitive()));
            one.put("configs", configs);
            return one;
        })));
        return found;
    }

    private static Object createPartitions(Admin admin, JsonNode topics, boolean dry) {
        Map<String, NewPartitions> wanted = new HashMap<>();
        fields(topics).forEach((name, topic) -> wanted.put(name, topic.has("assignments")
            ? NewPartitions.increaseTo(topic.path("count").asInt(),
                list(topic.path("assignments")).map(AdminOperations::numbers).toList())
            : NewPartitions.increaseTo(topic.path("count").asInt())));
        return outcome(admin.createPartitions(wanted, new CreatePartitionsOptions().validateOnly(dry)).values());
    }

    private static Object deleteRecords(Admin admin, JsonNode offsets) {
        Map<TopicPartition, RecordsToDelete> wanted = new HashMap<>();
        fields(offsets).forEach((key, offset) -> wanted.put(partition(key), RecordsToDelete.beforeOffset(offset.asLong())));
        Map<String, Object> found = new TreeMap<>();
        admin.deleteRecords(wanted).lowWatermarks().forEach((key, future) ->
            found.put(key.toString(), value(() -> future.get().lowWatermark())));
        return found;
    }

    // -- configs --

    private static Map<ConfigResource, Collection<AlterConfigOp>> configs(JsonNode resources) {
        Map<ConfigResource, Collection<AlterConfigOp>> wanted = new LinkedHashMap<>();
        list(resources).forEach(resource -> {
            List<AlterConfigOp> operations = new ArrayList<>();
            list(resource.path("ops")).forEach(op -> operations.add(new AlterConfigOp(
                new ConfigEntry(op.get(1).asText(), op.get(2).isNull() ? null : op.get(2).asText()),
                AlterConfigOp.OpType.valueOf(op.get(0).asText()))));
            wanted.put(resource(resource), operations);
        });
        return wanted;
    }

    private static ConfigResource resource(JsonNode node) {
        return new ConfigResource(ConfigResource.Type.valueOf(node.path("type").asText()), node.path("name").asText());
    }

    private static Object describeConfigs(Admin admin, JsonNode request) {
        Map<String, Object> found = new TreeMap<>();
        var options = new org.apache.kafka.clients.admin.DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
        admin.describeConfigs(list(request.path("resources")).map(AdminOperations::resource).toList(), options).values()
            .forEach((key, future) -> found.put(key.toString(), value(() -> {
                Map<String, Object> entries = new TreeMap<>();
                future.get().entries().forEach(entry -> entries.put(entry.name(), ClusterView.config(entry)));
                return entries;
            })));
        return found;
    }

    private static Object listConfigResources(Admin admin) {
        return value(() -> admin.listConfigResources().all().get().stream().map(Object::toString).sorted().toList());
    }

    // -- quotas, users, ACLs --

    private static List<ClientQuotaAlteration> quotas(JsonNode entities) {
        return list(entities).map(one -> {
            Map<String, String> entity = new HashMap<>();
            fields(one.path("entity")).forEach((type, name) -> entity.put(type, name.isNull() ? null : name.asText()));
            List<ClientQuotaAlteration.Op> ops = new ArrayList<>();
            fields(one.path("ops")).forEach((key, value) ->
                ops.add(new ClientQuotaAlteration.Op(key, value.isNull() ? null : value.asDouble())));
            return new ClientQuotaAlteration(new ClientQuotaEntity(entity), ops);
        }).toList();
    }

    private static List<UserScramCredentialAlteration> scram(JsonNode users) {
        return list(users).map(one -> {
            String user = one.path("user").asText();
            ScramMechanism mechanism = ScramMechanism.fromMechanismName(one.path("mechanism").asText());
            return one.has("password")
                ? new UserScramCredentialUpsertion(user, new ScramCredentialInfo(mechanism, one.path("iterations").asInt()),
                    one.path("password").asText().getBytes(java.nio.charset.StandardCharsets.UTF_8),
                    Base64.getDecoder().decode(one.path("salt").asText()))
                : new UserScramCredentialDeletion(user, mechanism);
        }).toList();
    }

    private static AclBinding acl(JsonNode one) {
        return new AclBinding(
            new ResourcePattern(ResourceType.valueOf(one.path("resource").asText()), one.path("name").asText(),
                PatternType.valueOf(one.path("pattern").asText("LITERAL"))),
            new AccessControlEntry(one.path("principal").asText(), one.path("host").asText("*"),
                AclOperation.valueOf(one.path("operation").asText()), AclPermissionType.valueOf(one.path("permission").asText("ALLOW"))));
    }

    private static Object deleteAcls(Admin admin, JsonNode acls) {
        List<AclBindingFilter> filters = list(acls).map(one -> one.isEmpty() ? AclBindingFilter.ANY : acl(one).toFilter()).toList();
        Map<String, Object> found = new TreeMap<>();
        admin.deleteAcls(filters).values().forEach((filter, future) -> found.put(filter.toString(), value(() ->
            future.get().values().stream().map(one -> one.exception() == null ? one.binding().toString()
                : one.exception().toString()).sorted().toList())));
        return found;
    }

    // -- the cluster --

    private static Object updateFeatures(Admin admin, JsonNode features, boolean dry) {
        Map<String, FeatureUpdate> wanted = new HashMap<>();
        fields(features).forEach((name, one) -> wanted.put(name,
            new FeatureUpdate((short) one.path("level").asInt(), FeatureUpdate.UpgradeType.valueOf(one.path("type").asText("UPGRADE")))));
        return outcome(admin.updateFeatures(wanted, new UpdateFeaturesOptions().validateOnly(dry)).values());
    }

    private static Object electLeaders(Admin admin, JsonNode request) throws Exception {
        Set<TopicPartition> partitions = request.has("partitions")
            ? Set.copyOf(list(request.path("partitions")).map(name -> partition(name.asText())).toList()) : null;
        Map<String, Object> found = new TreeMap<>();
        admin.electLeaders(ElectionType.valueOf(request.path("type").asText("PREFERRED")), partitions).partitions().get()
            .forEach((key, error) -> found.put(key.toString(), error.<Object>map(JavaAdmin::failure).orElse("ok")));
        return found;
    }

    private static Object reassign(Admin admin, JsonNode partitions) {
        Map<TopicPartition, Optional<NewPartitionReassignment>> wanted = new HashMap<>();
        fields(partitions).forEach((key, replicas) -> wanted.put(partition(key),
            replicas.isNull() ? Optional.empty() : Optional.of(new NewPartitionReassignment(numbers(replicas)))));
        return outcome(admin.alterPartitionReassignments(wanted).values());
    }

    private static Object alterLogDirs(Admin admin, JsonNode replicas) {
        Map<TopicPartitionReplica, String> wanted = new HashMap<>();
        fields(replicas).forEach((key, path) -> {
            TopicPartition partition = partition(key);
            wanted.put(new TopicPartitionReplica(partition.topic(), partition.partition(), 1), path.asText());
        });
        return outcome(admin.alterReplicaLogDirs(wanted).values());
    }
}
