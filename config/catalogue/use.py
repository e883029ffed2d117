"""The reasons for which a key is accepted and has no effect.

A key starts to act by a change of one word in its declaration: the reason becomes ACTED.
"""

from barnabas.config.keys import Use

ACTED = Use(True)

ONE_LOOP = Use(False, "one event loop serves every connection and request; there is no thread pool to size")
NO_BUFFER_CACHE = Use(False, "each batch of records is built in memory of its own; no buffers are kept")
IN_CLUSTER = Use(False, "this broker is alone; it acts where process.roles=broker", in_cluster=True)
CONTROLLERS_ELECT = Use(
    False, "a broker that is alone elects nobody else; in a cluster the controllers act on their own setting"
)
BYTES_BOUND = Use(
    False, "requests in flight are bounded by their bytes, queued.max.request.bytes, not by their number"
)
CLOSED_LISTENERS = Use(
    False, "these listeners stay closed; the controller lives inside the broker", in_cluster=True
)
EMBEDDED_CONTROLLER = Use(False, "the controller lives inside the broker; there is no quorum to tune")
STREAMS_LATER = Use(False, "streams groups come in a later release")
SHARE_LATER = Use(False, "share groups come in a later release")
NO_EARLY_START = Use(False, "no listener opens before the ACLs are read, and all open together then")
NO_FOLLOWERS = Use(False, "no follower of the metadata log needs empty records to see that it is up to date")
TIERING_LATER = Use(False, "tiered storage comes in a later release; every segment stays on the local disk")
NO_JAVA = Use(False, "it names a Java class, and there is no JVM here")
LIBKRB5_RENEWS = Use(
    False, "libkrb5 gets new tickets by the keys of the keytab when they are needed; no thread renews any"
)
NO_PURGATORY_PURGE = Use(False, "completed operations leave the purgatory at once; there is nothing to purge")
PROMETHEUS = Use(False, "metrics are served on barnabas.http.port instead; there are no reporters or samples")
NO_PLUGINS = Use(False, "there are no configuration providers; ${...} is taken literally")
