"""Make a virtual environment with the course in it, or do nothing if it is already there and up to date.

    python3 tools/environment.py FOLDER [EXTRA ...]
    python3 tools/environment.py FOLDER --only LOCK      what a file of exact versions names, not the course

Needs only Python's standard library. What was installed, from what, where and by which Python is written to
FOLDER/course-installed when all has gone well. The next call compares that with what it finds, so an
interrupted installation, a changed lock, a moved folder or a replaced Python leads to a fresh one.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys

# No newer syntax than Python 3.6 has: an older Python must get as far as saying that it is too old.

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LOCK = os.path.join(ROOT, "requirements.lock")
OLDEST, TOO_NEW = (3, 11), (3, 15)  # requires-python in pyproject.toml; a test compares them


def main():
    if not OLDEST <= sys.version_info[:2] < TOO_NEW:
        return (
            f"The course needs Python 3.11 to 3.14, and {sys.executable} is {python_version()}.\n"
            "Install one of these, then name it: make lab PYTHON=python3.12"
        )
    folder, extras = os.path.abspath(sys.argv[1]), sys.argv[2:]
    wanted = description(folder, extras)
    if read(stamp(folder)) == wanted and python_works(folder, extras):
        return 0
    try:
        install(folder, extras)
    except KeyboardInterrupt:
        return "\nInterrupted. The same command starts the installation again."
    except subprocess.CalledProcessError as error:
        return f"Not installed: `{' '.join(error.cmd)}` failed, see above.\nThe same command tries again."
    with open(stamp(folder), "w") as file:
        file.write(wanted)
    return 0


def stamp(folder):
    return os.path.join(folder, "course-installed")


def read(path):
    if not os.path.exists(path):
        return None
    with open(path) as file:
        return file.read()


def description(folder, extras):
    """What an environment must match: its place, its Python, its extras, and what it was made from."""
    return "\n".join([folder, python_version(), " ".join(sorted(extras)), digest_of_sources(extras), ""])


def lock_alone(extras):
    """The file behind --only, or None where the course itself is wanted."""
    return extras[1] if extras[:1] == ["--only"] else None


def python_version():
    return f"{sys.version_info[0]}.{sys.version_info[1]}"


def digest_of_sources(extras):
    import tomllib  # absent before Python 3.11

    if lock_alone(extras):
        with open(lock_alone(extras), "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    with open(os.path.join(ROOT, "pyproject.toml"), "rb") as file:
        tables = tomllib.load(file)
    installed_from = {name: tables[name] for name in ("build-system", "project")}
    with open(LOCK, "rb") as file:
        return hashlib.sha256(json.dumps(installed_from).encode() + file.read()).hexdigest()


def python_of(folder):
    return os.path.join(folder, *(("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")))


def python_works(folder, extras):
    """False where the Python that the environment links to was removed or replaced by an update."""
    imports = "" if lock_alone(extras) else "import course_lib"
    try:
        return subprocess.call([python_of(folder), "-I", "-c", imports]) == 0
    except OSError:
        return False


def install(folder, extras):
    what = "what the site is built with" if lock_alone(extras) else "the course"
    print(f"Installing {what} into {os.path.relpath(folder)} (once)", flush=True)
    make(folder)
    pip = [python_of(folder), "-m", "pip", "--disable-pip-version-check", "install"]
    # Compiling all modules takes longer than copying them, and most are never imported.
    pip.append("--no-compile")
    if not sys.stdout.isatty():
        pip.append("--quiet")
    if lock_alone(extras):
        subprocess.check_call(pip + ["--requirement", lock_alone(extras)])
        return
    pip += ["--constraint", LOCK]
    if os.environ.get("TORCH_INDEX"):
        subprocess.check_call(pip + ["--no-deps", "--index-url", os.environ["TORCH_INDEX"], "torch"])
    course = f"{ROOT}[{','.join(extras)}]" if extras else ROOT
    subprocess.check_call(pip + ["--editable", course])


def make(folder):
    """An empty environment. Whatever an earlier installation left there goes, its stamp first."""
    if os.path.exists(folder):
        if os.path.exists(stamp(folder)):
            os.remove(stamp(folder))
        if os.listdir(folder) and not os.path.exists(os.path.join(folder, "pyvenv.cfg")):
            sys.exit(f"{folder} exists and is no virtual environment: move it away.")
        shutil.rmtree(folder)
    try:
        subprocess.check_call([sys.executable, "-m", "venv", folder])
    except subprocess.CalledProcessError:
        print("On Debian and Ubuntu, venv is a package of its own: sudo apt install python3-venv")
        raise


if __name__ == "__main__":
    sys.exit(main())
