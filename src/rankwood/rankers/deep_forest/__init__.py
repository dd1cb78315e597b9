"""Deep forests: cascades of layers of forests."""
