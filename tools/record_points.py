"""Make a working copy's points the recorded ones, which lessons show where a machine is busy.

    .venv-test/bin/python tools/record_points.py my_course all-reduce

Run the lesson on a calm machine first.  Of points measured more than once under the same conditions the last
one counts.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from course_lib import measurements  # noqa: E402


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="the working copy")
    parser.add_argument("name", help="of the series of points")
    parser.add_argument("--to", type=Path, default=measurements.RECORDED, help="a folder for the file")
    arguments = parser.parse_args(argv)
    stored = measurements.read_file(arguments.folder / measurements.FILE_NAME)
    points = measurements.newest(point for point in stored if point.quantity == arguments.name)
    if not points:
        names = sorted({point.quantity for point in stored})
        print(f"No points of {arguments.name!r} there; there are: {', '.join(names) or 'none'}")
        return 1
    try:
        path = measurements.write_recorded(points, arguments.to)
    except ValueError as error:
        print(error)
        return 1
    print(f"{path.name}: {len(points)} points {measurements.origin_of(points[0])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
