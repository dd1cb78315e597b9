"""The tree engine: one grower for every method. It knows arrays only, no labels and no queries."""
