"""``python -m course_lib.train`` is ``course train``: what torchrun and Slurm start."""

import sys

from course_lib.cli import main

if __name__ == "__main__":
    sys.exit(main(["train", *sys.argv[1:]]))
