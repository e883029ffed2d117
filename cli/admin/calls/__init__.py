"""The requests of the admin commands, one module for each kind of resource; they know no command line."""
