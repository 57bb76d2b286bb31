"""The definition that `@app.job` makes of a handler: it knows the handler's signature."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, Generic, ParamSpec, Protocol, TypeVar, get_type_hints

from pydantic import BaseModel

from leasehold.app.arguments import Arguments, arguments_of, arguments_of_model
from leasehold.app.return_type import ReturnType
from leasehold.errors import UnusableHandler
from leasehold.model.definition import Definition
from leasehold.model.job import NewJob
from leasehold.model.secret_fields import unwrap, wrap
from leasehold.worker.handlers import Call
from leasehold.worker.job import Job

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
M = TypeVar("M", bound=BaseModel)
M_co = TypeVar("M_co", bound=BaseModel, covariant=True)


VERBS = ("payload_model", "handle")


class TypedDefinition(Generic[P, R_co]):
    """A definition with the signature of its handler: type checkers and editors check an enqueue by it.

    Called, it is the handler itself, with no queue involved.
    """

    # Whether `call` takes the payload as JSON text.
    reads_json: ClassVar[bool] = True

    def __init__(self, definition: Definition, arguments: Arguments, handler: Callable[..., Any]) -> None:
        self.definition = definition
        self._arguments = arguments
        self._handler = handler
        self._has_secrets = bool(definition.secret_fields)
        self.__name__ = getattr(handler, "__name__", definition.key)
        self.__doc__ = handler.__doc__
        self.__wrapped__ = handler

    @property
    def key(self) -> str:
        return self.definition.key

    @property
    def place(self) -> str:
        """Returns where the handler stands, as in `app.py:14`."""
        code = getattr(inspect.unwrap(self._handler), "__code__", None)
        return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(self._handler)

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """Makes a job of these arguments, to be enqueued with others. Raises PayloadInvalid if they don't fit."""
        payload, fits = self._arguments.payload(args, kwargs)
        if not fits:
            self.definition.check(payload)
        if self._has_secrets:
            return self._unsealed(NewJob.of(self.definition.key, payload))
        return NewJob.of(self.definition.key, payload)

    def of_payload(self, payload: Mapping[str, Any]) -> NewJob:
        """Makes a job of a JSON payload, as `bind` makes one of arguments."""
        job = NewJob.of(self.key, self._arguments.fill_defaults(payload))
        return self._unsealed(job) if self._has_secrets else job

    def fit(self, job: NewJob) -> NewJob:
        """Returns the job with its payload validated and completed by the defaults of the parameters."""
        given = unwrap(job.payload) if self._has_secrets else job.payload
        fitting = job.with_fields(job.version, {"payload": self._arguments.fill_defaults(given), "fits": True})
        return self._unsealed(fitting) if self._has_secrets else fitting

    def _unsealed(self, job: NewJob) -> NewJob:
        """Returns a job whose secret fields the enqueue encrypts: it does so when it checks jobs that may not fit."""
        return job.with_fields(
            job.version, {"payload": wrap(job.payload, self.definition.secret_fields), "fits": False}
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._handler(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<definition {self.key!r}>"

    @property
    def cleanup(self) -> float | None:
        """Seconds that its handler may take to end after a cancel; None: the usual ones."""
        return None

    def problem_here(self) -> str | None:
        """Returns why this machine can't run its jobs; None if it can."""
        return None

    @cached_property
    def call(self) -> Call:
        """Calls the handler for a worker, with the job and its payload as JSON."""
        if inspect.iscoroutinefunction(inspect.unwrap(self._handler)):

            async def acall(job: Job, payload: str) -> Any:
                args, kwargs = self._arguments.call(payload)
                return self._result(await self._handler(job, *args, **kwargs))

            return acall

        def call(job: Job, payload: str) -> Any:
            args, kwargs = self._arguments.call(payload)
            return self._result(self._handler(job, *args, **kwargs))

        return call

    def _result(self, returned: Any) -> Any:
        """Converts a result to JSON by the handler's return type; the worker refuses a result that does not fit."""
        return returned if self._returns is None else self._returns.write(returned)

    def read_result(self, stored: Any) -> Any:
        """Reads the handler's result from its stored JSON."""
        return stored if self._returns is None or stored is None else self._returns.read(stored)

    @cached_property
    def _returns(self) -> ReturnType | None:
        return ReturnType.of(self.key, get_type_hints(self._handler, include_extras=True).get("return", Any))


class ClassHandler(Protocol[M_co]):
    """A handler as a class that names the model of its payload. One instance is made for each job.

    `handle` takes the payload, or the job and the payload; it may be a coroutine function.
    """

    @classmethod
    def payload_model(cls) -> type[M_co]: ...

    @property
    def handle(self) -> Callable[..., Any]: ...


def of_function(definition: Definition, handler: Callable[..., Any]) -> TypedDefinition[Any, Any]:
    if inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(handler):
        raise UnusableHandler(
            f"{definition.key}: a generator does nothing when it is called. Nothing was registered.",
            fix="Return the result, or report on the way with job.progress().",
        )
    arguments = arguments_of(definition.key, handler)
    return _describe(definition, arguments, handler)


def of_class(definition: Definition, handler: type[ClassHandler[M]]) -> TypedDefinition[[M], Any]:
    if not isinstance(handler, type) or not all(callable(getattr(handler, verb, None)) for verb in VERBS):
        raise UnusableHandler(
            f"{definition.key}: {handler!r} is not a class with payload_model() and handle(). "
            "Nothing was registered.",
            fix="Pass the class itself; for a function there is @app.job.",
        )
    model = handler.payload_model()
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        raise UnusableHandler(
            f"{definition.key}: {handler.__name__}.payload_model() returns {model!r}, which is not a Pydantic model.",
            fix="Nothing was registered. Return the class of the payload.",
        )
    return _describe(definition, arguments_of_model(definition.key, model), _method_of_a_new_instance(handler))


def _method_of_a_new_instance(handler: type[ClassHandler[Any]]) -> Callable[..., Any]:
    """Returns a function that makes an instance for each call. It has the place and the return type of `handle`."""
    wants_job = len(inspect.signature(handler.handle).parameters) > 2
    if inspect.iscoroutinefunction(handler.handle):

        async def ahandle(job: Job, payload: Any) -> Any:
            handling: Awaitable[Any] = handler().handle(*((job, payload) if wants_job else (payload,)))
            return await handling

        chosen: Callable[..., Any] = ahandle
    else:

        def handle(job: Job, payload: Any) -> Any:
            return handler().handle(*((job, payload) if wants_job else (payload,)))

        chosen = handle
    chosen.__name__, chosen.__doc__ = handler.__name__, handler.__doc__
    chosen.__wrapped__ = handler.handle  # type: ignore[attr-defined]
    chosen.__annotations__ = {name: hint for name, hint in _annotations(handler.handle).items() if name == "return"}
    return chosen


def _annotations(method: object) -> Mapping[str, Any]:
    return getattr(method, "__annotations__", {})


def _describe(definition: Definition, arguments: Arguments, handler: Callable[..., Any]) -> TypedDefinition[Any, Any]:
    description = definition.description or (inspect.getdoc(handler) or "").partition("\n\n")[0]
    whole = replace(definition, schema=arguments.schema, description=description)
    whole.check_registrable()
    return TypedDefinition(whole, arguments, handler)
