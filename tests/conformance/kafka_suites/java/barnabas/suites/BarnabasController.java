package barnabas.suites;

import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

import kafka.network.SocketServer;
import kafka.raft.KafkaRaftManager;
import kafka.server.ControllerServer;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.internals.Plugin;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.controller.Controller;
import org.apache.kafka.controller.ResultOrError;
import org.apache.kafka.raft.LogOffsetMetadata;
import org.apache.kafka.raft.RaftLog;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import scala.Option;

/** Kafka's class of a controller before a Barnabas process, which is broker and controller at once. */
public class BarnabasController extends ControllerServer {
    private BarnabasBroker broker;

    private BarnabasController() {
        super(null, null, null);
    }

    static BarnabasController of(BarnabasBroker broker) {
        BarnabasController controller = StandIns.unconstructed(BarnabasController.class);
        controller.broker = broker;
        return controller;
    }

    @Override
    public KafkaConfig config() {
        return broker.config();
    }

    @Override
    public Option<Plugin<Authorizer>> authorizerPlugin() {
        return broker.authorizerPlugin();
    }

    @Override
    public Controller controller() {
        return StandIns.answering(Controller.class, Map.of(
            "isActive", arguments -> true,
            "findAllTopicIds", arguments -> CompletableFuture.completedFuture(broker.topicIds()),
            "findTopicIds", arguments -> CompletableFuture.completedFuture(found((Collection<?>) arguments[1]))));
    }

    private Map<Object, ResultOrError<Uuid>> found(Collection<?> names) {
        Map<Object, ResultOrError<Uuid>> found = new HashMap<>();
        Map<String, Uuid> known = broker.topicIds();
        names.forEach(name -> found.put(name, known.containsKey(name) ? new ResultOrError<>(known.get(name))
            : new ResultOrError<>(Errors.UNKNOWN_TOPIC_OR_PARTITION, "it does not exist")));
        return found;
    }

    @Override
    public KafkaRaftManager<ApiMessageAndVersion> raftManager() {
        return StandIns.unconstructed(Raft.class);
    }

    @Override
    public SocketServer socketServer() {
        throw StandIns.unreachable("the socketServer of a controller");
    }

    private static final class Raft extends KafkaRaftManager<ApiMessageAndVersion> {
        private Raft() {
            super(null, null, null, null, null, null, null, null, null, null, null, null, null, null);
        }

        @Override
        public RaftLog raftLog() {
            return StandIns.answering(RaftLog.class, "endOffset", new LogOffsetMetadata(0));
        }
    }
}
