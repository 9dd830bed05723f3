"""Mutants of an answer: its syntax tree with one small change, such as people make by mistake."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
_LARGE = 1000  # from here on one more or less is no mistake of anybody, but a power of ten is


@dataclass(frozen=True)
class Mutant:
    """An answer cell with one mistake; ``before`` and ``after``: the line where it is."""

    operator: str
    before: str
    after: str
    source: str


Change = tuple[str, Any]  # the operator's name, and what stands in place of the node


def mutants(source: str) -> list[Mutant]:
    """All mutants of an answer cell, changed between the marks of its solution only; no two are alike."""
    tree = ast.parse(source)
    solution, original = _solution_lines(source), ast.unparse(tree)
    found: dict[str, Mutant] = {}
    for place in _places(tree):
        if place.node.lineno in solution:
            for operator, changed in _changes(place):
                before, after, text = place.texts(tree, changed)
                if text != original and _compiles(text):
                    found.setdefault(text, Mutant(operator, before, after, text))
    return [*found.values()]


def _solution_lines(source: str) -> set[int]:
    inside, lines = False, set()
    for number, line in enumerate(source.splitlines(), start=1):
        inside = line.strip() == BEGIN or (inside and line.strip() != END)
        if inside:
            lines.add(number)
    return lines


def _compiles(source: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # such as `is` beside a number
            compile(source, "<mutant>", "exec")
    except SyntaxError:
        return False
    return True


@dataclass(frozen=True)
class _Place:
    """A node, where it hangs in the tree, and the statement that it is part of."""

    node: Any
    parent: ast.AST
    field: str
    index: int | None
    statement: ast.stmt

    def put(self, node: Any) -> None:
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node

    @property
    def siblings(self) -> list[Any]:
        """The list that the node is in."""
        return getattr(self.parent, self.field) if self.index is not None else []

    def texts(self, tree: ast.AST, changed: Any) -> tuple[str, str, str]:
        """The line before and after, and the whole source.  The tree is as before then."""
        before = _first_line(self.statement)
        if isinstance(changed, _Body):
            kept = list(self.siblings)
            self.siblings[:] = changed.statements
            after, text = changed.words, ast.unparse(tree)
            self.siblings[:] = kept
            return before, after, text
        self.put(changed)
        # The statement itself may be what was changed.
        after = _first_line(changed if self.node is self.statement else self.statement)
        text = ast.unparse(tree)
        self.put(self.node)
        return before, after, text


@dataclass(frozen=True)
class _Body:
    """Statements in place of all those of a body, and in words what has changed."""

    statements: list[ast.stmt]
    words: str


def _first_line(statement: ast.AST) -> str:
    return ast.unparse(statement).splitlines()[0]


def _places(tree: ast.AST) -> Iterator[_Place]:
    """All nodes that stand in a line; no docstrings."""
    pending: list[tuple[ast.AST, ast.stmt | None]] = [(tree, None)]
    while pending:
        parent, statement = pending.pop()
        for field, value in ast.iter_fields(parent):
            several = isinstance(value, list)
            for index, node in enumerate(value if several else [value]):
                if not isinstance(node, ast.AST) or _is_docstring(node):
                    continue
                own = node if isinstance(node, ast.stmt) else statement
                if hasattr(node, "lineno") and own is not None:
                    yield _Place(node, parent, field, index if several else None, own)
                pending.append((node, own))


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _changes(place: _Place) -> Iterator[Change]:
    for name in (type(place.node).__name__, "stmt" if isinstance(place.node, ast.stmt) else "expr"):
        if change := _OPERATORS.get(name):
            yield from change(place)


# --- expressions ---

_COMPARISONS: dict[type, tuple[type, ...]] = {
    ast.Lt: (ast.LtE, ast.Gt), ast.LtE: (ast.Lt, ast.GtE), ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE), ast.Eq: (ast.NotEq, ast.LtE, ast.GtE), ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,), ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
}  # fmt: skip
_ARITHMETIC: dict[type, tuple[type, ...]] = {
    ast.Add: (ast.Sub,), ast.Sub: (ast.Add,), ast.Mult: (ast.Div, ast.Add), ast.Div: (ast.Mult, ast.FloorDiv),
    ast.FloorDiv: (ast.Div, ast.Mod), ast.Mod: (ast.FloorDiv,), ast.Pow: (ast.Mult,),
}  # fmt: skip
_SWAPPED = {
    "left": "right", "right": "left", "to_left": "to_right", "to_right": "to_left",
    "from_left": "from_right", "from_right": "from_left", "max": "min", "min": "max",
}  # fmt: skip
_SWAPPED_METHODS = {"isend": "irecv", "irecv": "isend", "send": "recv", "recv": "send"}


def _compare(place: _Place) -> Iterator[Change]:
    node = place.node
    for number, operator in enumerate(node.ops):
        for other in _COMPARISONS.get(type(operator), ()):
            operators = [*node.ops[:number], other(), *node.ops[number + 1 :]]
            yield "comparison", ast.Compare(node.left, operators, node.comparators)


def _arithmetic(place: _Place) -> Iterator[Change]:
    node = place.node
    for other in _ARITHMETIC.get(type(node.op), ()):
        yield "arithmetic operator", ast.BinOp(node.left, other(), node.right)
    if isinstance(node.op, ast.Div | ast.FloorDiv | ast.Mod):
        yield "division left out", node.left
    else:
        yield "operand left out", node.left
        yield "operand left out", node.right
    if isinstance(node.op, ast.Sub | ast.Div):
        yield "operands swapped", ast.BinOp(node.right, node.op, node.left)


def _boolean(place: _Place) -> Iterator[Change]:
    node = place.node
    yield "and/or", ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    for value in node.values:
        rest = [other for other in node.values if other is not value]
        yield "condition left out", rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)


def _sign(place: _Place) -> Iterator[Change]:
    if isinstance(place.node.op, ast.USub | ast.Not):
        yield "sign or negation left out", place.node.operand


def _constant(place: _Place) -> Iterator[Change]:
    value = place.node.value
    if isinstance(place.parent, ast.JoinedStr | ast.FormattedValue):
        return
    if isinstance(value, bool):
        yield "constant", ast.Constant(not value)
    elif isinstance(value, int | float):
        others = (value * 10, value / 10) if abs(value) > _LARGE else (value + 1, value - 1)
        for other in others:
            yield "constant", ast.Constant(type(value)(other))
    elif isinstance(value, str):
        yield "constant", ast.Constant(value + "?")
    elif value is None:
        yield "constant", ast.Constant(0)


def _index(place: _Place) -> Iterator[Change]:
    """Off by one; indices that are constants are changed as such."""
    node = place.node
    if isinstance(node.slice, ast.Constant | ast.Slice | ast.Attribute):
        return
    for operator in (ast.Add, ast.Sub):
        yield (
            "index off by one",
            ast.Subscript(node.value, ast.BinOp(node.slice, operator(), ast.Constant(1)), node.ctx),
        )


def _slice(place: _Place) -> Iterator[Change]:
    node = place.node
    for end in ("lower", "upper"):
        if (value := getattr(node, end)) is not None:
            yield "slice bound left out", _slice_with(node, **{end: None})
            for operator in (ast.Add, ast.Sub):
                moved = ast.BinOp(value, operator(), ast.Constant(1))
                yield "slice bound off by one", _slice_with(node, **{end: moved})


def _slice_with(node: ast.Slice, **changed: ast.expr | None) -> ast.Slice:
    return ast.Slice(**{"lower": node.lower, "upper": node.upper, "step": node.step, **changed})


def _call(place: _Place) -> Iterator[Change]:
    node = place.node
    for number, pair in enumerate(pairwise(node.args)):
        swapped = [*node.args[:number], *reversed(pair), *node.args[number + 2 :]]
        yield "arguments swapped", ast.Call(node.func, swapped, node.keywords)
    for keyword in node.keywords:
        rest = [each for each in node.keywords if each is not keyword]
        yield "keyword argument left out", ast.Call(node.func, node.args, rest)
    if len(node.args) == 1 and not node.keywords:
        yield "call left out", node.args[0]
    if not node.args and not node.keywords and isinstance(node.func, ast.Attribute):
        yield "call left out", node.func.value
    if isinstance(node.func, ast.Name) and node.func.id == "range":
        yield from _range(node)


def _range(node: ast.Call) -> Iterator[Change]:
    begin, end = (ast.Constant(0), node.args[0]) if len(node.args) == 1 else node.args[:2]
    for operator in (ast.Add, ast.Sub):
        one = ast.Constant(1)
        yield (
            "bound of a range",
            ast.Call(node.func, [begin, ast.BinOp(end, operator(), one), *node.args[2:]], []),
        )
        yield (
            "bound of a range",
            ast.Call(node.func, [ast.BinOp(begin, operator(), one), end, *node.args[2:]], []),
        )


def _name(place: _Place) -> Iterator[Change]:
    if isinstance(place.node.ctx, ast.Load) and (other := _SWAPPED.get(place.node.id)):
        yield (
            "neighbors swapped" if "ight" in other + place.node.id else "max/min",
            ast.Name(other, ast.Load()),
        )


def _attribute(place: _Place) -> Iterator[Change]:
    if other := _SWAPPED_METHODS.get(place.node.attr):
        yield "send/receive swapped", ast.Attribute(place.node.value, other, place.node.ctx)


def _tuple(place: _Place) -> Iterator[Change]:
    node = place.node
    if not isinstance(node.ctx, ast.Load) or isinstance(place.parent, ast.Subscript):
        return
    for number in range(len(node.elts) - 1):
        elements = list(node.elts)
        elements[number : number + 2] = elements[number : number + 2][::-1]
        yield "elements swapped", type(node)(elements, node.ctx)


def _choice(place: _Place) -> Iterator[Change]:
    node = place.node
    yield "condition negated", ast.IfExp(_negated(node.test), node.body, node.orelse)
    yield "choice left out", node.body
    yield "choice left out", node.orelse


def _comprehension(place: _Place) -> Iterator[Change]:
    """Conditions negated and left out."""
    for number, generator in enumerate(place.node.generators):
        for test in generator.ifs:
            for name, tests in (
                ("condition negated", [_negated(test)]), ("condition left out", []),
            ):  # fmt: skip
                ifs = [each for each in generator.ifs if each is not test] + tests
                changed = ast.comprehension(generator.target, generator.iter, ifs, 0)
                generators = [*place.node.generators]
                generators[number] = changed
                yield name, _with(place.node, generators=generators)


def _with(node: ast.AST, **changed: Any) -> Any:
    return ast.copy_location(type(node)(**{**dict(ast.iter_fields(node)), **changed}), node)


def _negated(test: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), test)


# --- statements ---


def _conditional(place: _Place) -> Iterator[Change]:
    yield "condition negated", _with(place.node, test=_negated(place.node.test))
    if isinstance(place.node, ast.If):
        yield "condition left out", _with(place.node, test=ast.Constant(True))
        if place.node.orelse:
            yield "else left out", _with(place.node, orelse=[])


def _loop(place: _Place) -> Iterator[Change]:
    node = place.node
    all_of_it = ast.Call(ast.Name("list", ast.Load()), [node.iter], [])
    for bound in ("lower", "upper"):
        one = ast.Constant(1) if bound == "lower" else ast.UnaryOp(ast.USub(), ast.Constant(1))
        some = ast.Subscript(all_of_it, _slice_with(ast.Slice(None, None, None), **{bound: one}), ast.Load())
        name = "first" if bound == "lower" else "last"
        yield f"{name} turn of a loop left out", _with(node, iter=some)
    backward = ast.Call(ast.Name("reversed", ast.Load()), [all_of_it], [])
    yield "loop backward", _with(node, iter=backward)


def _augmented(place: _Place) -> Iterator[Change]:
    node = place.node
    for other in _ARITHMETIC.get(type(node.op), ()):
        yield "arithmetic operator", _with(node, op=other())
    yield "assigned, not added", ast.Assign([node.target], node.value, lineno=node.lineno)


def _return(place: _Place) -> Iterator[Change]:
    if place.node.value is not None:
        yield "nothing returned", ast.Return(None)


def _statement(place: _Place) -> Iterator[Change]:
    """Left out, swapped with the next one, or moved into the loop before or out of its own loop."""
    node = place.node
    if isinstance(node, ast.FunctionDef) or place.index is None:
        return
    if not isinstance(node, ast.Pass):
        is_wait = isinstance(node, ast.Expr) and ast.unparse(node).endswith(".wait()")
        yield "wait left out" if is_wait else "statement left out", ast.Pass()
    body, number = place.siblings, place.index
    if number + 1 < len(body) and not isinstance(body[number + 1], ast.FunctionDef):
        swapped = [*body[:number], body[number + 1], node, *body[number + 2 :]]
        yield "statements swapped", _Body(swapped, f"after {_first_line(body[number + 1])}")
    if isinstance(node, ast.For):
        yield from _across_the_end(body, number, node)


def _across_the_end(body: list[ast.stmt], number: int, loop: ast.For) -> Iterator[Change]:
    if len(loop.body) > 1:
        shorter = _with(loop, body=loop.body[:-1])
        moved = [*body[:number], shorter, loop.body[-1], *body[number + 1 :]]
        yield "moved out of the loop", _Body(moved, f"behind it {_first_line(loop.body[-1])}")
    if number + 1 < len(body) and not isinstance(body[number + 1], ast.Return | ast.FunctionDef):
        longer = _with(loop, body=[*loop.body, body[number + 1]])
        moved = [*body[:number], longer, *body[number + 2 :]]
        yield "moved into the loop", _Body(moved, f"in it {_first_line(body[number + 1])}")


_OPERATORS = {
    "Compare": _compare, "BinOp": _arithmetic, "BoolOp": _boolean, "UnaryOp": _sign, "Constant": _constant,
    "Subscript": _index, "Slice": _slice, "Call": _call, "Name": _name, "Attribute": _attribute,
    "Tuple": _tuple, "List": _tuple, "IfExp": _choice, "ListComp": _comprehension, "SetComp": _comprehension,
    "GeneratorExp": _comprehension, "DictComp": _comprehension, "If": _conditional, "While": _conditional,
    "For": _loop, "AugAssign": _augmented, "Return": _return, "stmt": _statement,
}  # fmt: skip
