"""The sliders and menus of an explorer."""

from dataclasses import fields


def controls_of(explorer):
    """By the field of the explorer's Choice."""
    names = [field.name for field in fields(explorer.choice)]
    return dict(zip(names, explorer.children[0].children, strict=True))


def stops(control):
    return [value for _, value in control.options]
