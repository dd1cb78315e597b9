"""Chess positions whose legal moves an engine has judged: the bundled collections, and how to build more."""
