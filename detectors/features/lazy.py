"""Features that are computed on first access."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

_T = TypeVar("_T")


class lazy(Generic[_T]):  # noqa: N801 - it is used as a decorator, such as property
    """A property that is computed once per object: its value then becomes an attribute of the object.

    Like `functools.cached_property`, without the lock that Python 3.11 takes in it: the features of an event are read
    by one thread, several times per event. It also avoids access to `__dict__`, after which every attribute of the
    object is ten times as slow.
    """

    def __init__(self, function: Callable[[Any], _T]) -> None:
        self._function = function
        self._name = function.__name__
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> "lazy[_T]": ...

    @overload
    def __get__(self, instance: object, owner: type) -> _T: ...

    def __get__(self, instance: object | None, owner: type) -> "lazy[_T] | _T":
        """Compute the value; Python calls this only while the object lacks the attribute."""
        if instance is None:
            return self
        value = self._function(instance)
        setattr(instance, self._name, value)
        return value

    if TYPE_CHECKING:  # a value known in advance is set directly, and then never computed here

        def __set__(self, instance: object, value: _T) -> None: ...


def lay_out(owner: type) -> None:
    """Let the objects of a class share one table of attributes, which has all its lazy features.

    Python adds only the names of the first objects to that table: later, an object with another name gets a dict of its
    own, which takes longer to make and to read.
    """
    first: object = object.__new__(owner)
    for base in owner.__mro__:
        for name, value in vars(base).items():
            if isinstance(value, lazy):
                setattr(first, name, None)
