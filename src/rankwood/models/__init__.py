"""Whatever scores documents and is stored: the forest, how it scores, and the model file."""
