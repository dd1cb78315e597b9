"""Features as small whole numbers: cut points, codes, and binned data that every tree shares."""
