"""One module per exercise, each with one check for each of its parts; ``part`` says how a check works."""
