"""One broker's logs on disk, in Apache Kafka's own format. Synchronous; usable without a broker.

Reading order: `env` (files, clock, randomness) < `index` < `segment` < `local_log` < `unified_log` <
`log_manager`; beside the tower stand the classes that own one file each (`checkpoints`, `leader_epochs`,
`producer_state`) and the two that are only busy at the door and at the start (`log_validator`, `log_loader`).
"""

if __name__ != "barnabas.storage":  # from the root of a checkout; each module is to exist once
    raise ImportError(f"import barnabas.storage instead of {__name__}")
