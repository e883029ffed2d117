package barnabas.suites;

import java.net.InetAddress;
import java.time.Duration;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicReference;

import kafka.network.ConnectionQuotas;
import kafka.network.SocketServer;
import kafka.server.BrokerServer;
import kafka.server.KafkaApis;
import kafka.server.KafkaConfig;
import kafka.server.QuotaFactory;
import kafka.server.ReplicaManager;
import kafka.server.SharedServer;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.internals.Plugin;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.security.scram.ScramCredential;
import org.apache.kafka.common.security.scram.internals.ScramMechanism;
import org.apache.kafka.common.security.token.delegation.internals.DelegationTokenCache;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.image.loader.MetadataLoader;
import org.apache.kafka.image.loader.metrics.MetadataLoaderMetrics;
import org.apache.kafka.metadata.BrokerState;
import org.apache.kafka.metadata.KRaftMetadataCache;
import org.apache.kafka.metadata.LeaderAndIsr;
import org.apache.kafka.security.CredentialProvider;
import org.apache.kafka.server.authorizer.Authorizer;
import scala.Option;

/** Kafka's class of a broker before a Barnabas process: what tests ask of it is asked of the process. */
public class BarnabasBroker extends BrokerServer {
    private KafkaConfig config;
    private BrokerProcess process;
    private BarnabasController controller;

    private BarnabasBroker() {
        super(null);
    }

    /** A broker that has not started. */
    public static BarnabasBroker of(KafkaConfig config, Map<?, ?> more, List<String> formatting) {
        BarnabasBroker broker = StandIns.unconstructed(BarnabasBroker.class);
        var settings = new HashMap<Object, Object>(config.originals());
        settings.put("offsets.topic.replication.factor", "1");
        broker.config = new KafkaConfig(settings);
        more.forEach(settings::putIfAbsent);
        broker.process = new BrokerProcess(settings, formatting);
        broker.controller = BarnabasController.of(broker);
        return broker;
    }

    /** The same process before another configuration. */
    public BarnabasBroker named(KafkaConfig other) {
        BarnabasBroker broker = StandIns.unconstructed(BarnabasBroker.class);
        broker.config = other;
        broker.process = process;
        broker.controller = controller;
        return broker;
    }

    Map<String, Uuid> topicIds() {
        Map<String, Uuid> ids = new HashMap<>();
        Waiting.for_(process.admin().listTopics(new ListTopicsOptions().listInternal(true)).listings())
            .forEach(listing -> ids.put(listing.name(), listing.topicId()));
        return ids;
    }

    public BarnabasController controller() {
        return controller;
    }

    @Override
    public KafkaConfig config() {
        return config;
    }

    @Override
    public void startup() {
        process.start();
    }

    @Override
    public void shutdown(Duration limit) {
        process.stop();
    }

    @Override
    public void shutdown() {
        process.stop();
    }

    @Override
    public void awaitShutdown() {
    }

    @Override
    public boolean isShutdown() {
        return !process.isRunning();
    }

    @Override
    public BrokerState brokerState() {
        return process.isRunning() ? BrokerState.RUNNING : BrokerState.NOT_RUNNING;
    }

    @Override
    public String clusterId() {
        return Waiting.for_(process.admin().describeCluster().clusterId());
    }

    @Override
    public int boundPort(ListenerName listener) {
        return process.port(listener.value());
    }

    @Override
    public SocketServer socketServer() {
        Ports ports = StandIns.unconstructed(Ports.class);
        ports.broker = this;
        return ports;
    }

    @Override
    public Option<Plugin<Authorizer>> authorizerPlugin() {
        if (config.originals().get("authorizer.class.name") == null) {
            return Option.empty();
        }
        return Option.apply(Plugin.wrapInstance(new AdminAuthorizer(process), null, "authorizer.class.name"));
    }

    @Override
    public KafkaApis dataPlaneRequestProcessor() {
        Apis apis = StandIns.unconstructed(Apis.class);
        apis.broker = this;
        return apis;
    }

    @Override
    public KRaftMetadataCache metadataCache() {
        return new DescribedMetadata(this);
    }

    @Override
    public CredentialProvider credentialProvider() {
        CredentialProvider provider = new CredentialProvider(ScramMechanism.mechanismNames(), tokenCache());
        Waiting.for_(process.admin().describeUserScramCredentials().all()).forEach((user, description) ->
            description.credentialInfos().forEach(info -> provider.updateCredential(
                info.mechanism(), user, new ScramCredential(new byte[0], new byte[0], new byte[0], info.iterations()))));
        return provider;
    }

    @Override
    public DelegationTokenCache tokenCache() {
        return new DescribedTokens(process);
    }

    @Override
    public SharedServer sharedServer() {
        return StandIns.unconstructed(Shared.class);
    }

    @Override
    public GroupCoordinator groupCoordinator() {
        Properties compacted = new Properties();
        compacted.put("cleanup.policy", "compact");
        return StandIns.answering(GroupCoordinator.class, "groupMetadataTopicConfigs", compacted);
    }

    @Override
    public Metrics metrics() {
        throw StandIns.unreachable("metrics");
    }

    @Override
    public QuotaFactory.QuotaManagers quotaManagers() {
        throw StandIns.unreachable("quotaManagers");
    }

    @Override
    public ReplicaManager replicaManager() {
        throw StandIns.unreachable("replicaManager");
    }

    /** The process has one port for each listener. */
    private static final class Ports extends SocketServer {
        private BarnabasBroker broker;

        private Ports() {
            super(null, null, null, null, null, null, null);
        }

        @Override
        public int boundPort(ListenerName listener) {
            return broker.boundPort(listener);
        }

        @Override
        public ConnectionQuotas connectionQuotas() {
            IpRates rates = StandIns.unconstructed(IpRates.class);
            rates.broker = broker;
            return rates;
        }
    }

    private static final class IpRates extends ConnectionQuotas {
        private BarnabasBroker broker;

        private IpRates() {
            super(null, null, null);
        }

        @Override
        public int connectionRateForIp(InetAddress address) {
            var rates = Waiting.for_(broker.process.admin().describeClientQuotas(ClientQuotaFilter.all()).entities());
            for (String ip : new String[] {address.getHostAddress(), null}) {
                var rate = rates.getOrDefault(new ClientQuotaEntity(Collections.singletonMap("ip", ip)), Map.of());
                if (rate.containsKey("connection_creation_rate")) {
                    return rate.get("connection_creation_rate").intValue();
                }
            }
            return Integer.MAX_VALUE;
        }
    }

    private static final class Apis extends KafkaApis {
        private BarnabasBroker broker;

        private Apis() {
            super(null, null, null, null, null, null, null, 0, null, null, null, null, null, null, null, null, null, null,
                null, null, null, null, null);
        }

        @Override
        public Option<Plugin<Authorizer>> authorizerPlugin() {
            return broker.authorizerPlugin();
        }

        @Override
        public KRaftMetadataCache metadataCache() {
            return broker.metadataCache();
        }
    }

    /** A process answers once it has published a change: a test need not wait for its metadata. */
    private static final class Shared extends SharedServer {
        private Shared() {
            super(null, null, null, null, null, null, null, null);
        }

        @Override
        public MetadataLoader loader() {
            MetadataLoader loader = StandIns.unconstructed(MetadataLoader.class);
            StandIns.set(loader, "metrics", new MetadataLoaderMetrics(Optional.empty(), ms -> { }, size -> { },
                new AtomicReference<>(new MetadataProvenance(Long.MAX_VALUE, 0, 0, true))));
            return loader;
        }
    }

    private static final class DescribedMetadata extends KRaftMetadataCache {
        private final BarnabasBroker broker;

        private DescribedMetadata(BarnabasBroker broker) {
            super(broker.config.brokerId(), () -> null);
            this.broker = broker;
        }

        private Optional<TopicDescription> described(String topic) {
            try {
                return Optional.of(Waiting.for_(
                    broker.process.admin().describeTopics(List.of(topic)).topicNameValues().get(topic)));
            } catch (UnknownTopicOrPartitionException error) {
                return Optional.empty();
            }
        }

        @Override
        public Optional<Integer> numPartitions(String topic) {
            return described(topic).map(description -> description.partitions().size());
        }

        @Override
        public boolean contains(String topic) {
            return described(topic).isPresent();
        }

        @Override
        public Optional<LeaderAndIsr> getLeaderAndIsr(String topic, int partition) {
            return described(topic).filter(description -> partition < description.partitions().size())
                .map(description -> description.partitions().get(partition)).map(DescribedMetadata::leaderAndIsr);
        }

        @Override
        public boolean hasAliveBroker(int id) {
            return broker.process.isRunning();
        }

        private static LeaderAndIsr leaderAndIsr(TopicPartitionInfo info) {
            int leader = info.leader() == null ? LeaderAndIsr.NO_LEADER : info.leader().id();
            return new LeaderAndIsr(leader, info.isr().stream().map(Node::id).toList());
        }
    }
}
