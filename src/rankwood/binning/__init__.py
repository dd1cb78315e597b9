"""Features as small whole numbers, which trees are grown from.

``bins``
    ``fit_bins`` chooses the thresholds of each feature from the data. ``Bins`` stores them, and gives
    every value its code: the number of thresholds below it; 255 if it is missing.
``binned``
    ``bin_data`` does both and returns ``BinnedData``: codes, bins and the ranking data. It can store the codes on disk.
``folder``
    ``open_binned`` opens binned data in a folder, memory-mapped: data larger than memory.

A threshold of a tree is always a threshold of ``Bins``, so a tree decides the same for codes and for raw values.
"""
