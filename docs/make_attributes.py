"""An extension of griffe: attributes of classes without the docstrings of `bool`, `dict` and so on.

griffe inspects the objects, and an attribute without a docstring has that of its value's type.
"""

from typing import Any

from griffe import Attribute, Extension


class AttributeDocstrings(Extension):
    """Keep only the docstrings of properties, so the reference leaves other attributes out."""

    def on_attribute_instance(self, *, attr: Attribute, **_: Any) -> None:
        """Remove the docstring of an attribute that is no property (griffe calls this for each)."""
        if "property" not in attr.labels:
            attr.docstring = None
