package barnabas.suites;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ExecutionException;

import org.apache.kafka.common.Endpoint;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.server.authorizer.AclCreateResult;
import org.apache.kafka.server.authorizer.AclDeleteResult;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.server.authorizer.AuthorizerServerInfo;

/** The ACLs of a process for tests that ask an authorizer object: requests of an administrator. */
final class AdminAuthorizer implements Authorizer {
    private final BrokerProcess process;

    AdminAuthorizer(BrokerProcess process) {
        this.process = process;
    }

    @Override
    public List<? extends CompletionStage<AclCreateResult>> createAcls(
            AuthorizableRequestContext context, List<AclBinding> bindings) {
        List<CompletionStage<AclCreateResult>> results = new ArrayList<>();
        for (var entry : process.admin().createAcls(bindings).values().values()) {
            results.add(entry.toCompletionStage().handle((none, error) ->
                error == null ? AclCreateResult.SUCCESS : new AclCreateResult((ApiException) cause(error))));
        }
        return results;
    }

    @Override
    public List<? extends CompletionStage<AclDeleteResult>> deleteAcls(
            AuthorizableRequestContext context, List<AclBindingFilter> filters) {
        List<CompletionStage<AclDeleteResult>> results = new ArrayList<>();
        for (var entry : process.admin().deleteAcls(filters).values().values()) {
            results.add(entry.toCompletionStage().thenApply(found -> new AclDeleteResult(
                found.values().stream().map(each -> new AclDeleteResult.AclBindingDeleteResult(each.binding())).toList())));
        }
        return results;
    }

    @Override
    public Iterable<AclBinding> acls(AclBindingFilter filter) {
        return Waiting.for_(process.admin().describeAcls(filter).values());
    }

    @Override
    public int aclCount() {
        return ((Collection<AclBinding>) acls(AclBindingFilter.ANY)).size();
    }

    @Override
    public List<AuthorizationResult> authorize(AuthorizableRequestContext context, List<Action> actions) {
        throw StandIns.unreachable("decisions of the authorizer");
    }

    @Override
    public Map<Endpoint, ? extends CompletionStage<Void>> start(AuthorizerServerInfo info) {
        return Map.of();
    }

    @Override
    public void configure(Map<String, ?> configs) {
    }

    @Override
    public void close() {
    }

    private static Throwable cause(Throwable error) {
        return error instanceof ExecutionException || error instanceof java.util.concurrent.CompletionException
            ? error.getCause() : error;
    }
}
