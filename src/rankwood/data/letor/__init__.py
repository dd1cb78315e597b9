"""LETOR / SVMlight text: ``text`` reads and writes files, ``blocks`` and ``parse`` one block, ``write`` makes lines."""
