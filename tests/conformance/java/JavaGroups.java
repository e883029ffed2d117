import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.RegisterBrokerRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.coordinator.common.runtime.KRaftCoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.Utils;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;
import org.apache.kafka.coordinator.group.modern.SubscribedTopicDescriberImpl;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;

/**
 * Apache Kafka's side of the checks of consumer groups: its assignors, its hashes of topics, its regular expressions.
 * A request is a line of words, the answer one line or several, of which the last is "end" or "error CLASS".
 * Strings and UUIDs are in hex; "-" is null.
 */
public final class JavaGroups {
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
                answer.add("error " + error);
            }
            answer.forEach(out::println);
            out.flush();
        }
    }

    private static void handle(Iterator<String> words, List<String> answer) {
        String request = words.next();
        switch (request) {
            case "assign" -> assign(words, answer);
            case "hash" -> hash(words, answer);
            case "match" -> match(words, answer);
            default -> throw new IllegalArgumentException(request);
        }
    }

    private static void assign(Iterator<String> words, List<String> answer) {
        PartitionAssignor assignor = words.next().equals("uniform") ? new UniformAssignor() : new RangeAssignor();
        SubscriptionType type =
            words.next().equals("same") ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        MetadataDelta delta = new MetadataDelta.Builder().setImage(MetadataImage.EMPTY).build();
        for (int left = number(words); left > 0; left--) {
            Uuid id = uuid(words);
            topic(delta, "t" + id, id, number(words), List.of());
        }
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> inverted = new HashMap<>();
        for (int left = number(words); left > 0; left--) {
            member(words, members, inverted);
        }
        GroupAssignment assigned = assignor.assign(
            new GroupSpecImpl(members, type, inverted),
            new SubscribedTopicDescriberImpl(new KRaftCoordinatorMetadataImage(delta.apply(MetadataProvenance.EMPTY))));
        for (Map.Entry<String, MemberAssignment> member : new TreeMap<>(assigned.members()).entrySet()) {
            member.getValue().partitions().forEach((id, partitions) -> {
                for (int partition : new TreeSet<>(partitions)) {
                    answer.add(hex(member.getKey()) + " " + hex(id) + " " + partition);
                }
            });
        }
    }

    private static void member(
        Iterator<String> words,
        Map<String, MemberSubscriptionAndAssignmentImpl> members,
        Map<Uuid, Map<Integer, String>> inverted) {
        String id = text(words);
        Optional<String> instance = Optional.ofNullable(text(words));
        Set<Uuid> topics = new HashSet<>();
        for (int left = number(words); left > 0; left--) {
            topics.add(uuid(words));
        }
        Map<Uuid, Set<Integer>> assigned = new HashMap<>();
        for (int left = number(words); left > 0; left--) {
            Uuid topic = uuid(words);
            List<Integer> partitions = new ArrayList<>();
            for (int more = number(words); more > 0; more--) {
                partitions.add(number(words));
            }
            assigned.put(topic, new HashSet<>(partitions));
            for (int partition : partitions) {
                inverted.computeIfAbsent(topic, key -> new HashMap<>()).put(partition, id);
            }
        }
        members.put(id, new MemberSubscriptionAndAssignmentImpl(
            Optional.empty(), instance, topics, new Assignment(assigned)));
    }

    /** The hash of each topic with its racks, then the hash of all together. */
    private static void hash(Iterator<String> words, List<String> answer) {
        MetadataDelta delta = new MetadataDelta.Builder().setImage(MetadataImage.EMPTY).build();
        int brokers = number(words);
        for (int broker = 0; broker < brokers; broker++) {
            delta.replay(new RegisterBrokerRecord().setBrokerId(broker).setRack(text(words)));
        }
        List<String> names = new ArrayList<>();
        for (int left = number(words); left > 0; left--) {
            String name = text(words);
            names.add(name);
            List<Integer> replicas = new ArrayList<>();
            Uuid id = uuid(words);
            int partitions = number(words);
            for (int more = number(words); more > 0; more--) {
                replicas.add(number(words));
            }
            topic(delta, name, id, partitions, replicas);
        }
        var image = new KRaftCoordinatorMetadataImage(delta.apply(MetadataProvenance.EMPTY));
        Map<String, Long> hashes = new HashMap<>();
        for (String name : names) {
            hashes.put(name, Utils.computeTopicHash(name, image));
            answer.add(hashes.get(name).toString());
        }
        answer.add(Long.toString(Utils.computeGroupHash(hashes)));
    }

    private static void topic(MetadataDelta delta, String name, Uuid id, int partitions, List<Integer> replicas) {
        delta.replay(new TopicRecord().setName(name).setTopicId(id));
        for (int partition = 0; partition < partitions; partition++) {
            delta.replay(new PartitionRecord().setTopicId(id).setPartitionId(partition)
                .setReplicas(replicas).setIsr(replicas).setDirectories(replicas.stream().map(r -> Uuid.ZERO_UUID).toList()));
        }
    }

    /** Whether a pattern is valid, and which whole names it matches. */
    private static void match(Iterator<String> words, List<String> answer) {
        Pattern pattern;
        try {
            pattern = Pattern.compile(text(words));
        } catch (PatternSyntaxException refusal) {
            answer.add("rejected");
            return;
        }
        StringBuilder matches = new StringBuilder("matches");
        while (words.hasNext()) {
            matches.append(pattern.matcher(text(words)).matches() ? " 1" : " 0");
        }
        answer.add(matches.toString());
    }

    private static int number(Iterator<String> words) {
        return Integer.parseInt(words.next());
    }

    private static String text(Iterator<String> words) {
        String word = words.next();
        return word.equals("-") ? null : new String(HEX.parseHex(word.substring(1)), StandardCharsets.UTF_8);
    }

    private static Uuid uuid(Iterator<String> words) {
        ByteBuffer bytes = ByteBuffer.wrap(HEX.parseHex(words.next().substring(1)));
        return new Uuid(bytes.getLong(), bytes.getLong());
    }

    private static String hex(String text) {
        return "x" + HEX.formatHex(text.getBytes(StandardCharsets.UTF_8));
    }

    private static String hex(Uuid id) {
        byte[] bytes = ByteBuffer.allocate(16)
            .putLong(id.getMostSignificantBits()).putLong(id.getLeastSignificantBits()).array();
        return "x" + HEX.formatHex(bytes);
    }
}
