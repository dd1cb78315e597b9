"""LETOR / SVMlight text: ``text`` reads and writes files, ``blocks`` and ``parse`` parse one block."""
