"""Explorers: sliders above a picture, one module each, with a pure function from values to figure inside.

Nothing is imported here: each lesson imports the explorer that it shows.
"""
