package org.apache.kafka.common.test.junit;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

import barnabas.suites.BarnabasBroker;
import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import kafka.server.KafkaConfig;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.JaasUtils;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.TestKitDefaults;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.fault.FaultHandlerException;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.Extension;
import org.junit.jupiter.api.extension.TestTemplateInvocationContext;

/** Stands in for Kafka's class of this name, which starts the cluster of a test with `@ClusterTest`. */
public class RaftClusterInvocationContext implements TestTemplateInvocationContext {
    private final String baseDisplayName;
    private final ClusterConfig config;
    private final boolean isCombined;

    public RaftClusterInvocationContext(String baseDisplayName, ClusterConfig config, boolean isCombined) {
        this.baseDisplayName = baseDisplayName;
        this.config = config;
        this.isCombined = isCombined;
    }

    @Override
    public String getDisplayName(int invocation) {
        return String.format("%s [%d] %s", baseDisplayName, invocation, isCombined ? "Combined" : "Isolated");
    }

    @Override
    public List<Extension> getAdditionalExtensions() {
        OneBroker cluster = new OneBroker(config, isCombined);
        BeforeEachCallback before = context -> {
            if (!isCombined && config.clusterTypes().contains(Type.CO_KRAFT)) {
                Assumptions.abort("the same process is tested as Combined");
            }
            if (config.isAutoStart()) {
                cluster.start();
            }
        };
        AfterTestExecutionCallback after = context -> cluster.stop();
        return List.of(before, after, new ClusterInstanceParameterResolver(cluster));
    }

    private static final class OneBroker implements ClusterInstance {
        private final ClusterConfig config;
        private final boolean isCombined;
        private BarnabasBroker broker;
        private boolean hasStarted;
        private boolean hasStopped;
        private java.io.File jaas;

        private OneBroker(ClusterConfig config, boolean isCombined) {
            this.config = config;
            this.isCombined = isCombined;
        }

        private BarnabasBroker broker() {
            if (broker == null) {
                broker = BarnabasBroker.of(new KafkaConfig(settings()), Map.of(), List.of());
            }
            return broker;
        }

        private Map<String, Object> settings() {
            String listener = config.brokerListenerName().value();
            String controller = config.controllerListenerName().value();
            Map<String, Object> settings = new HashMap<>();
            settings.put("process.roles", "broker,controller");
            settings.put("node.id", "0");
            settings.put("controller.quorum.voters", "0@localhost:1");
            settings.put("controller.listener.names", controller);
            settings.put("inter.broker.listener.name", listener);
            settings.put("listeners", listener + "://localhost:0," + controller + "://localhost:0");
            settings.put("listener.security.protocol.map", listener + ":" + config.brokerSecurityProtocol() + ","
                + controller + ":" + config.controllerSecurityProtocol());
            settings.put("offsets.topic.replication.factor", "1");
            settings.put("offsets.topic.num.partitions", "5");
            settings.put("transaction.state.log.replication.factor", "1");
            settings.put("transaction.state.log.min.isr", "1");
            settings.put("transaction.state.log.num.partitions", "5");
            settings.put("log.dirs", org.apache.kafka.test.TestUtils.tempDirectory().getPath());
            if (config.brokerSecurityProtocol() == SecurityProtocol.SASL_PLAINTEXT) {
                settings.put("sasl.enabled.mechanisms", "PLAIN");
                settings.put("sasl.mechanism.inter.broker.protocol", "PLAIN");
                settings.put("sasl.mechanism.controller.protocol", "PLAIN");
                settings.put("authorizer.class.name", StandardAuthorizer.class.getName());
                settings.put("super.users", "User:" + JaasUtils.KAFKA_PLAIN_ADMIN);
                settings.put("listener.name." + listener.toLowerCase() + ".plain.sasl.jaas.config", plainUsers());
            }
            settings.putAll(config.serverProperties());
            settings.putAll(config.perServerOverrideProperties().getOrDefault(0, Map.of()));
            return settings;
        }

        private static String plainUsers() {
            return "org.apache.kafka.common.security.plain.PlainLoginModule required"
                + " username=\"" + JaasUtils.KAFKA_PLAIN_ADMIN + "\" password=\"" + JaasUtils.KAFKA_PLAIN_ADMIN_PASSWORD + "\""
                + " user_" + JaasUtils.KAFKA_PLAIN_ADMIN + "=\"" + JaasUtils.KAFKA_PLAIN_ADMIN_PASSWORD + "\""
                + " user_" + JaasUtils.KAFKA_PLAIN_USER1 + "=\"" + JaasUtils.KAFKA_PLAIN_USER1_PASSWORD + "\";";
        }

        @Override
        public void start() {
            if (!hasStarted) {
                hasStarted = true;
                broker().startup();
            }
        }

        @Override
        public void stop() {
            if (!hasStopped && broker != null) {
                broker.shutdown();
            }
            hasStopped = true;
        }

        @Override
        public boolean started() {
            return hasStarted;
        }

        @Override
        public boolean stopped() {
            return hasStopped;
        }

        @Override
        public void shutdownBroker(int id) {
            broker().shutdown();
        }

        @Override
        public void startBroker(int id) {
            broker().startup();
        }

        @Override
        public Type type() {
            return isCombined ? Type.CO_KRAFT : Type.KRAFT;
        }

        @Override
        public ClusterConfig config() {
            return config;
        }

        @Override
        public Map<Integer, KafkaBroker> brokers() {
            return Map.of(broker().config().brokerId(), broker());
        }

        @Override
        public Map<Integer, ControllerServer> controllers() {
            return Map.of(broker().config().brokerId(), broker().controller());
        }

        @Override
        public Set<Integer> controllerIds() {
            return controllers().keySet();
        }

        @Override
        public ListenerName clientListener() {
            return config.brokerListenerName();
        }

        @Override
        public ListenerName controllerListenerName() {
            return config.controllerListenerName();
        }

        @Override
        public String bootstrapServers() {
            return "localhost:" + broker().boundPort(clientListener());
        }

        @Override
        public String bootstrapControllers() {
            throw new Error("a Barnabas process has no listener of a controller");  // not what a test may expect
        }

        @Override
        public String clusterId() {
            return broker().clusterId();
        }

        @Override
        public Set<GroupProtocol> supportedGroupProtocols() {
            return Set.of(GroupProtocol.CLASSIC, GroupProtocol.CONSUMER);
        }

        @Override
        public void waitForReadyBrokers() {
        }

        @Override
        public void ensureConsistentMetadata(
                java.util.Collection<KafkaBroker> brokers, java.util.Collection<ControllerServer> controllers) {
            // A process answers once it has published a change.
        }

        @Override
        public Optional<FaultHandlerException> firstFatalException() {
            return Optional.empty();
        }

        @Override
        public Optional<FaultHandlerException> firstNonFatalException() {
            return Optional.empty();
        }
    }
}
