"""The library behind the course. Nothing is imported here: each lesson imports the parts that it uses."""

__version__ = "0.1.0"
