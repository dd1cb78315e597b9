"""Chess positions whose legal moves an engine has scored: the bundled collections, and building more of them."""
