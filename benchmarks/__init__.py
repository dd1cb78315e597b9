"""One file per figure we claim; ``python -m benchmarks`` runs them all."""
