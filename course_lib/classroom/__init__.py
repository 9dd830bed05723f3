"""Checking a learner's notebook, and what an instructor needs for a class."""
