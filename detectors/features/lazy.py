"""A feature that is worked out when it is first asked for."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

_T = TypeVar("_T")


class lazy(Generic[_T]):  # noqa: N801 - it is used as a decorator, such as property
    """A property that runs once for each object: its value is then an attribute of the object's own.

    As `functools.cached_property`, without the lock that Python 3.11 takes in it: the features of
    an event are read by one thread, several times for each event. And without a look at `__dict__`: after that
    every attribute of the object takes ten times as long.
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
        value = self._function(instance)
        setattr(instance, self._name, value)
        return value

    if TYPE_CHECKING:  # what is known at once is put there, and is then never asked for here

        def __set__(self, instance: object, value: _T) -> None: ...
