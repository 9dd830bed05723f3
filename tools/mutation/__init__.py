"""Proof of the exercises' checks: solutions with one mistake in each, and what the checks say of them.

``operators`` makes the mutants, ``trial`` has them checked, ``inputs`` tells those that differ from the
solution from those that do not, ``results`` keeps what was found, ``report`` writes it down.  The command is
tools/mutate_solutions.py.

Public tools (cosmic-ray, mutmut, mutatest) mutate files of a package and start the tests anew for each
mutant: here the code is in notebooks' cells, each start of torch takes seconds, and the mistakes that matter
most (a wait left out, neighbors swapped, messages in another order) are none of their operators.
"""
