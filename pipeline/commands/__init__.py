"""The commands of `barnabas pipeline`: each turns its line into options, has the job done, and says what came of it."""
