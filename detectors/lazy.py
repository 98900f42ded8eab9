"""A feature that is worked out when it is first asked for."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

_T = TypeVar("_T")


class lazy(Generic[_T]):  # noqa: N801 - it is used as a decorator, such as property
    """A property that runs once for each object: its value then stands in the object's own dictionary.

    As `functools.cached_property`, without the lock that Python 3.11 takes in it: the features of
    an event are read by one thread, several times for each event.
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
        """The value; Python asks here only while the object does not have it."""
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._function(instance)
        return value
