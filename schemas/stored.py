"""What is stored in the changelog as part of a state."""

from msgspec import Struct


class Stored(Struct, omit_defaults=True):
    """Part of a state. A field with its default value is not written, so a default never changes.

    A new field needs a default, which states of older releases then have; an older release forgets the field. Another
    default, or another meaning of a field, is a new field.
    """
