import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import kafka.docker.KafkaDockerWrapper$;
import kafka.server.ConfigHelper;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.message.DescribeConfigsRequestData.DescribeConfigsResource;
import org.apache.kafka.common.message.DescribeConfigsResponseData.DescribeConfigsResourceResult;
import org.apache.kafka.common.message.DescribeConfigsResponseData.DescribeConfigsSynonym;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.QuotaConfig;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;
import org.apache.kafka.storage.internals.log.LogConfig;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Apache Kafka's side of the configuration checks: its catalogue, its validators, its responses to DescribeConfigs.
 * A request is a line of words, the answer one line or several, of which the last is "end" or "error MESSAGE".
 * Texts are UTF-8 in hex; "-" is null and "." is empty.
 */
public final class JavaConfig {
    private static final HexFormat HEX = HexFormat.of();
    private static final Map<String, ConfigDef> DEFINITIONS = new LinkedHashMap<>();

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        System.setOut(System.err);  // so that no log line comes between the answers
        define();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            List<String> answer = new ArrayList<>();
            try {
                handle(Arrays.asList(line.split(" ")).iterator(), answer);
                answer.add("end");
            } catch (RuntimeException | Error error) {
                answer.add("error " + word(String.valueOf(error.getMessage())));
            }
            answer.forEach(out::println);
            out.flush();
        }
    }

    private static void define() throws Exception {
        DEFINITIONS.put("broker", AbstractKafkaConfig.CONFIG_DEF);
        DEFINITIONS.put("dynamic", QuotaConfig.brokerQuotaConfigs());
        DEFINITIONS.put("topic", LogConfig.configDefCopy());
        DEFINITIONS.put("client_metrics", ClientMetricsConfigs.configDef());
        DEFINITIONS.put("user", QuotaConfig.scramMechanismsPlusUserAndClientQuotaConfigs());
        DEFINITIONS.put("ip", QuotaConfig.ipConfigs());
        Field group = GroupConfig.class.getDeclaredField("CONFIG_DEF");
        group.setAccessible(true);
        DEFINITIONS.put("group", (ConfigDef) group.get(null));
    }

    private static void handle(Iterator<String> words, List<String> answer) throws IOException {
        String request = words.next();
        switch (request) {
            case "catalogue" -> DEFINITIONS.forEach((kind, definition) -> catalogue(kind, definition, answer));
            case "parse" -> answer.add(word(parse(words.next(), text(words), text(words))));
            case "start" -> KafkaConfig.fromProps(properties(words), false);
            case "topic" -> LogConfig.validate(Map.of(), map(properties(words)),
                KafkaConfig.fromProps(properties(words), false).extractLogConfigMap(), false);
            case "load" -> new TreeMap<>(map(properties(words)))
                .forEach((key, value) -> answer.add(word(key) + " " + word(value)));
            case "environment" -> environment(words, answer);
            case "double" -> answer.add(word(Double.toString(Double.parseDouble(text(words)))));
            case "describe_broker" -> describeBroker(KafkaConfig.fromProps(properties(words), false), answer);
            case "describe_topic" -> describeTopic(
                KafkaConfig.fromProps(properties(words), false), properties(words), answer);
            default -> throw new IllegalArgumentException(request);
        }
    }

    private static void catalogue(String kind, ConfigDef definition, List<String> answer) {
        Map<String, String> modes = DynamicBrokerConfig.dynamicConfigUpdateModes();
        for (ConfigDef.ConfigKey key : definition.configKeys().values()) {
            String value = key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null;
            answer.add(String.join(" ", kind, word(key.name), word(key.type.name()), String.valueOf(key.hasDefault()),
                word(value), word(key.importance.name()), String.valueOf(key.internalConfig),
                word(modes.getOrDefault(key.name, "read-only")), word(key.documentation)));
        }
    }

    private static String parse(String kind, String name, String value) {
        ConfigDef.ConfigKey key = DEFINITIONS.get(kind).configKeys().get(name);
        Map<String, Object> parsed = new ConfigDef().define(key).parse(Map.of(name, value));
        Object result = parsed.get(name);
        return key.type == ConfigDef.Type.PASSWORD ? value.trim() : ConfigDef.convertToString(result, key.type);
    }

    private static void environment(Iterator<String> words, List<String> answer) {
        Map<String, String> variables = new HashMap<>();
        while (words.hasNext()) {
            variables.put(text(words), text(words));
        }
        var immutable = scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(variables));
        CollectionConverters.asJava(KafkaDockerWrapper$.MODULE$.getServerConfigsFromEnv(immutable)).stream().sorted()
            .forEach(line -> answer.add(word(line)));
    }

    private static void describeBroker(KafkaConfig config, List<String> answer) {
        config.dynamicConfig().initialize(scala.Option.empty());
        var resource = new DescribeConfigsResource().setResourceType((byte) 4)
            .setResourceName(String.valueOf(config.brokerId())).setConfigurationKeys(null);
        var asked = CollectionConverters.asScala(List.of(resource)).toList();
        var result = new ConfigHelper(null, config, null).describeConfigs(asked, true, false).head();
        result.configs().forEach(entry -> answer.add(entry(entry)));
    }

    private static void describeTopic(KafkaConfig config, Properties overrides, List<String> answer) {
        config.dynamicConfig().initialize(scala.Option.empty());
        ConfigHelper helper = new ConfigHelper(null, config, null);
        LogConfig log = LogConfig.fromProps(config.extractLogConfigMap(), overrides);
        Map<String, Object> values = new TreeMap<>(log.originals());
        values.putAll(log.nonInternalValues());
        values.keySet().retainAll(LogConfig.configNames());
        values.forEach((name, value) ->
            answer.add(entry(helper.createTopicConfigEntry(log, overrides, true, false, name, value))));
    }

    private static String entry(DescribeConfigsResourceResult entry) {
        StringBuilder line = new StringBuilder(String.join(" ", word(entry.name()), word(entry.value()),
            String.valueOf(entry.configSource()), String.valueOf(entry.readOnly()),
            String.valueOf(entry.isSensitive()), String.valueOf(entry.configType())));
        for (DescribeConfigsSynonym synonym : entry.synonyms()) {
            line.append(' ').append(word(synonym.name())).append(' ').append(word(synonym.value()))
                .append(' ').append(synonym.source());
        }
        return line.toString();
    }

    private static Properties properties(Iterator<String> words) throws IOException {
        Properties properties = new Properties();
        String next = words.next();
        properties.load(new ByteArrayInputStream(next.equals(".") ? new byte[0] : HEX.parseHex(next)));
        return properties;
    }

    private static Map<String, String> map(Properties properties) {
        Map<String, String> map = new HashMap<>();
        properties.forEach((key, value) -> map.put((String) key, (String) value));
        return map;
    }

    private static String text(Iterator<String> words) {
        String next = words.next();
        return next.equals(".") ? "" : new String(HEX.parseHex(next), StandardCharsets.UTF_8);
    }

    private static String word(String text) {
        if (text == null) {
            return "-";
        }
        return text.isEmpty() ? "." : HEX.formatHex(text.getBytes(StandardCharsets.UTF_8));
    }
}
