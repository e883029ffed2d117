from __future__ import annotations

from barnabas.broker.metrics.oauthbearer_metrics import add_oauthbearer
from barnabas.broker.metrics.prometheus import Metrics
from barnabas.broker.network.listener_security import ListenerSecurity
from barnabas.broker.security.sasl.jwks import ProviderKeys, RefreshTimes
from barnabas.broker.security.sasl.listener import SaslListener
from barnabas.broker.security.sasl.oauthbearer import OAuthBearerMechanism, SignedTokens, UnsecuredTokens
from barnabas.broker.security.sasl.server import Mechanism
from barnabas.security.json_web_tokens import TokenRules
from barnabas.security.unsecured_tokens import UnsecuredRules
from tests.broker.metrics.test_sources import values
from tests.broker.security.sasl.logins import listener
from tests.support.tokens import SigningKey, key_set


def security(mechanism: Mechanism) -> ListenerSecurity:
    return ListenerSecurity("SASL_PLAINTEXT", SaslListener({mechanism.name: mechanism}, 1000))


def test_the_keys_of_listeners_that_check_tokens() -> None:
    now_ms = 1000
    keys = ProviderKeys("http://x", lambda: key_set(SigningKey()), RefreshTimes(), lambda: now_ms)
    keys.fetched(keys.fetch_now())
    keys.failures = 3
    now_ms += 2500
    securities = {
        "TOKENS": security(OAuthBearerMechanism(SignedTokens(keys, TokenRules(), lambda: 0), 0, keys)),
        "TESTS": security(OAuthBearerMechanism(UnsecuredTokens(UnsecuredRules(), lambda: 0))),
        "SASL": ListenerSecurity("SASL_PLAINTEXT", listener()),
    }
    metrics = Metrics()
    add_oauthbearer(metrics, securities.items)
    assert values(metrics, "barnabas_oauthbearer_jwks_age_seconds") == {("TOKENS",): 2.5}
    assert values(metrics, "barnabas_oauthbearer_jwks_keys") == {("TOKENS",): 1}
    assert values(metrics, "barnabas_oauthbearer_jwks_refresh_failures_total") == {("TOKENS",): 3}
