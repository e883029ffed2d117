"""What can be asked of a cluster and changed in it, one module for each kind of thing; no command line here."""
