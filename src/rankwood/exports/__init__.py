"""Trees on their way to other systems and back: writers, readers, and the proof that a file scores as the model does.

The package is called ``exports`` since ``rankwood.export`` is the function.
"""
