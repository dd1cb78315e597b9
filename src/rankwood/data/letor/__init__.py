"""LETOR / SVMlight text: read on all cores, written exactly."""
