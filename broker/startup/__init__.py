"""Starting, serving and stopping: the parts of a broker are put together here, and nowhere else in the product.

`server` starts and stops a broker, `serving` leads from a command line to it. Before anybody is served, `node_storage`
makes sure of the directories (`node_identity`, `log_dir_formatter`, `log_adoption`) and `log_recovery` loads the logs;
`dynamic_config` brings what the metadata say of configurations into force; `housekeeping` does what is due now and
then; `observers` are the probes and the HTTP port.

Called by cli. It may import every other room of the broker.
"""
