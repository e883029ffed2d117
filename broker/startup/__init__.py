"""Starting, serving and stopping. `assembly` wires the components of a broker, here and nowhere else in the product.

`serving` leads from a command line to `process` (signals, garbage collection, the ready line) and `server`, which
starts and stops a broker. Before clients are served, `node_storage` prepares the directories in the phases of
`node_directories` (`node_identity`, `log_dir_formatter`, `log_adoption`) and `log_recovery` loads the logs;
`dynamic_config` puts stored configurations into force; `housekeeping` runs periodic work; `observers` are the probes
and the HTTP port.

Called by cli. It may import every other room of the broker.
"""
