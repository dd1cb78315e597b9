"""The command line: one file per command; ``printing`` is the only module that prints."""
