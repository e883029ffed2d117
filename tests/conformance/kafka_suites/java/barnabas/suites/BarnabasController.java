package barnabas.suites;

import kafka.network.SocketServer;
import kafka.raft.KafkaRaftManager;
import kafka.server.ControllerServer;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.internals.Plugin;
import org.apache.kafka.controller.Controller;
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
        return StandIns.answering(Controller.class, "isActive", true);
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
