"""What all rankers train with: inputs, bags, rounds, checkpoints, growing forests, boosting."""
