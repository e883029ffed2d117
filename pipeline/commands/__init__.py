"""The commands of `barnabas pipeline`: each turns its arguments into options, runs the job, and prints the result."""
