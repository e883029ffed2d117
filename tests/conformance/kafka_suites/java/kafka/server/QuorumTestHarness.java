package kafka.server;

import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.stream.Stream;

import barnabas.suites.BarnabasBroker;
import javax.security.auth.login.Configuration;
import kafka.utils.Logging;
import kafka.utils.TestInfoUtils;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.metadata.storage.Formatter;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.server.fault.MockFaultHandler;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.TestInfo;
import org.junit.jupiter.params.provider.Arguments;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Stands in for Kafka's class of this name, the base of its tests that start brokers: each broker is a Barnabas process.
 *
 * The process is its own controller: what a test sets for the controller alone is set for the process too. All brokers
 * of a test are the same process, so that topics have one replica at most.
 */
public abstract class QuorumTestHarness implements Logging {
    private final MockFaultHandler faultHandler = new MockFaultHandler("quorumTestHarnessFaultHandler");
    private final List<BarnabasBroker> brokers = new ArrayList<>();
    private TestInfo testInfo;
    private String logIdent;

    @Override
    public String logIdent() {
        return logIdent;
    }

    @Override
    public void logIdent_$eq(String ident) {
        logIdent = ident;
    }

    public static Stream<Arguments> getTestGroupProtocolParametersAll() {
        return QuorumTestHarness$.MODULE$.getTestGroupProtocolParametersAll();
    }

    public static Stream<Arguments> getTestGroupProtocolParametersClassicGroupProtocolOnly() {
        return QuorumTestHarness$.MODULE$.getTestGroupProtocolParametersClassicGroupProtocolOnly();
    }

    public static Stream<Arguments> getTestGroupProtocolParametersConsumerGroupProtocolOnly() {
        return QuorumTestHarness$.MODULE$.getTestGroupProtocolParametersConsumerGroupProtocolOnly();
    }

    public SecurityProtocol controllerListenerSecurityProtocol() {
        return SecurityProtocol.PLAINTEXT;
    }

    public scala.collection.Seq<Properties> kraftControllerConfigs(TestInfo info) {
        return seq(new Properties());
    }

    public MetadataVersion metadataVersion() {
        return MetadataVersion.latestTesting();
    }

    public scala.collection.Seq<SecurityProtocol> extraControllerSecurityProtocols() {
        return seq();
    }

    public void addFormatterSettings(Formatter formatter) {
    }

    public Option<GroupProtocol> maybeGroupProtocolSpecified() {
        return TestInfoUtils.maybeGroupProtocolSpecified(testInfo);
    }

    public GroupProtocol groupProtocolFromTestParameters() {
        return maybeGroupProtocolSpecified().get();
    }

    public MockFaultHandler faultHandler() {
        return faultHandler;
    }

    public ControllerServer controllerServer() {
        return brokers.get(0).controller();
    }

    public scala.collection.Seq<ControllerServer> controllerServers() {
        return seq(controllerServer());
    }

    @BeforeEach
    public void setUp(TestInfo info) {
        testInfo = info;
        Exit.setExitProcedure((status, message) -> {
            throw new IllegalStateException("exit with " + status + ": " + message);
        });
        Exit.setHaltProcedure((status, message) -> {
            throw new IllegalStateException("halt with " + status + ": " + message);
        });
    }

    public KafkaBroker createBroker(KafkaConfig config, Time time, boolean isStarted, Option<String> threadPrefix) {
        if (!brokers.isEmpty() && !brokers.get(0).isShutdown()) {
            BarnabasBroker again = brokers.get(0).named(config);
            brokers.add(again);
            return again;
        }
        brokers.clear();
        Properties controllers = new Properties();
        CollectionConverters.asJava(kraftControllerConfigs(testInfo)).forEach(controllers::putAll);
        controllers.keySet().removeIf(key -> key.toString().startsWith("listener") || key.equals("node.id")
            || key.equals("log.dir") || key.equals("log.dirs"));
        ScramArguments arguments = new ScramArguments();
        addFormatterSettings(arguments);
        if (metadataVersion().isLessThan(MetadataVersion.latestProduction())) {
            arguments.words.addAll(List.of("--release-version", metadataVersion().version()));
        }
        BarnabasBroker broker = BarnabasBroker.of(config, controllers, arguments.words);
        brokers.add(broker);
        if (isStarted) {
            broker.startup();
        }
        return broker;
    }

    public Time createBroker$default$2() {
        return Time.SYSTEM;
    }

    public boolean createBroker$default$3() {
        return true;
    }

    public Option<String> createBroker$default$4() {
        return Option.empty();
    }

    @AfterEach
    public void tearDown() {
        brokers.forEach(BarnabasBroker::shutdown);
        brokers.clear();
        Exit.resetExitProcedure();
        Exit.resetHaltProcedure();
        System.clearProperty("java.security.auth.login.config");
        Configuration.setConfiguration(null);
    }

    @SafeVarargs
    private static <T> Seq<T> seq(T... elements) {
        return CollectionConverters.asScala(List.of(elements)).toList();
    }

    /** Remembers with which users a test wants its cluster formatted, as options of `barnabas storage format`. */
    private static final class ScramArguments extends Formatter {
        private final List<String> words = new ArrayList<>();

        @Override
        public Formatter setScramArguments(List<String> arguments) {
            arguments.forEach(user -> words.addAll(List.of("--add-scram", user)));
            return this;
        }
    }
}
