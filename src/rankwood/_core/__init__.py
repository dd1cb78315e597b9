"""Foundations of every package: checks, files, compiling, threads, random streams."""
