# The course's two commands are `make lab` and `make test`; `make help` lists all.

# The first Python that is new enough; name another one with PYTHON=...
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' 2>/dev/null \
	&& echo $$python && exit; done; echo python3)
# Options of the command behind a target, as in `make lab ARGS=--no-browser`
ARGS ?=
# Where to take torch from, instead of pip's usual place: README.md, "Smaller on Linux"
export TORCH_INDEX ?=
# pip leaves compiling to the first import of a module (tools/environment.py), so Python must be let do it.
export PYTHONDONTWRITEBYTECODE =

TEST_PYTHON := .venv-test/bin/python
NOTEBOOKS = $(wildcard notebooks/*.ipynb exercises/solutions/*.ipynb)
PYTEST = PATH="$(CURDIR)/.venv-test/bin:$$PATH" $(TEST_PYTHON) -m pytest \
	-n 3 --dist loadfile --no-loadscope-reorder --nbval --nbval-cell-timeout=120 tests $(NOTEBOOKS)

.PHONY: help lab test test-all bench pictures lint lock site clean student wheels environment test-environment \
	site-environment tests-are-here

help:
	@echo "make lab        open JupyterLab on lesson 0, in your own copy of the course: my_course/"
	@echo "make test       run the tests (some twelve minutes)"
	@echo "make test-all   run all tests, also the long ones"
	@echo "make bench      measure the course's ratios on this machine (some eight minutes; ARGS=--write keeps them)"
	@echo "make pictures   take the README's pictures anew, in JupyterLab and Chromium"
	@echo "make lint       check the style of code and notebooks, and type hints"
	@echo "make student    write course-student.zip, the course without solutions, for a class"
	@echo "make site       build the course as a web site in _site/ (ARGS=FOLDER: elsewhere)"
	@echo "make wheels     download all packages into wheels/, for a room without internet"
	@echo "make lock       write the locks of versions anew from pyproject.toml (ARGS=--upgrade: newest versions)"
	@echo "make clean      remove the virtual environments and caches; my_course/ stays"

lab: environment
	@.venv/bin/course lab $(ARGS)

test: tests-are-here test-environment
	@$(PYTEST) -m "not long" $(ARGS)

test-all: tests-are-here test-environment
	@$(PYTEST) $(ARGS)

bench: tests-are-here test-environment
	@$(TEST_PYTHON) benchmarks/results.py $(ARGS)

pictures: tests-are-here test-environment
	@$(TEST_PYTHON) tools/readme_pictures.py

lint: test-environment
	@$(TEST_PYTHON) -m ruff check .
	@$(TEST_PYTHON) -m mypy --no-error-summary
	@$(TEST_PYTHON) tools/clean_notebooks.py --check $(NOTEBOOKS)

# Universal: a lock for Linux, macOS and Windows and for each Python that the course supports. In an environment
# of its own, since .venv-test can't be made while the lock contradicts pyproject.toml. What the site is built with has a
# lock of its own, which follows the learners' where both have a package.
UV_COMPILE = "$$folder/bin/uv" pip compile --quiet --universal --python-version 3.11 \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" $(ARGS)
lock:
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && $(PYTHON) -m venv "$$folder" \
	&& "$$folder/bin/pip" install --quiet "$$(sed -n 's/^ *"\(uv==[^"]*\)".*/\1/p' pyproject.toml)" \
	&& $(UV_COMPILE) --all-extras --output-file requirements.lock pyproject.toml \
	&& $(UV_COMPILE) --group site --constraint requirements.lock --output-file tools/site/requirements.lock

site: site-environment
	@.venv-site/bin/python -m tools.site $(ARGS)

student:
	@$(PYTHON) tools/student_copy.py $(ARGS)

# By the environment's own pip, since its Python decides which packages fit.
wheels: environment
	@.venv/bin/python tools/wheels.py wheels $(ARGS)

clean:
	rm -rf .venv .venv-test .venv-site _site .pytest_cache .ruff_cache .mypy_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

environment:
	@$(PYTHON) tools/environment.py .venv

test-environment:
	@$(PYTHON) tools/environment.py .venv-test test classroom dev

site-environment:
	@$(PYTHON) tools/environment.py .venv-site --only tools/site/requirements.lock

# Learners' copies have none.
tests-are-here:
	@test -d tests || { echo "The tests are not in this copy of the course."; exit 1; }
