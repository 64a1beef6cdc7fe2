"""The commands of ``ringrift``, one module each; the first line of a module is what ``ringrift --help`` says of it."""
