"""What boosting removes: losses, as the targets their next tree should fit."""
