package barnabas.suites;

import java.util.Collection;

import org.apache.kafka.common.security.scram.internals.ScramMechanism;
import org.apache.kafka.common.security.token.delegation.DelegationToken;
import org.apache.kafka.common.security.token.delegation.TokenInformation;
import org.apache.kafka.common.security.token.delegation.internals.DelegationTokenCache;

/** The delegation tokens of a process, described each time. */
final class DescribedTokens extends DelegationTokenCache {
    private final BrokerProcess process;

    DescribedTokens(BrokerProcess process) {
        super(ScramMechanism.mechanismNames());
        this.process = process;
    }

    @Override
    public Collection<TokenInformation> tokens() {
        return Waiting.for_(process.admin().describeDelegationToken().delegationTokens()).stream()
            .map(DelegationToken::tokenInfo).toList();
    }
}
