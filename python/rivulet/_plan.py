"""The parts of a plan for a client with its own training code: the model's variables, and an update's form.

The plan's graphs, passes and optimisers are for clients that run them.
"""

import math
from typing import Any, Dict, List, NamedTuple, Set, Tuple

from rivulet import _protocol
from rivulet._errors import clean
from rivulet._safetensors import Tensors, digest_of_stored, view_safetensors

TRAIN, EVALUATE = 0, 1  # kinds of tasks

MOST_PLAN_BYTES = 64_000_000

_FORMAT, _BASE_FORMAT = 2, 4  # 3: what clients do that run graphs
# Of a model's file: for each number, with what may be kept beside it, and for each variable's name and shape.
_VALUE_BYTES, _VARIABLE_BYTES, _FILE_BYTES = 16, 4096, 1 << 20
# By the number of a type (engine/tensor/dtype.h).
_VALUE_BYTES_OF = {1: 4, 2: 8, 3: 4, 4: 1, 5: 2, 6: 1, 9: 8, 10: 1, 14: 2, 17: 2, 19: 2, 22: 4, 23: 8}
_OWN_SCALARS = {"steps"}  # which the coordinator's rows have room for, whatever the plan


class CannotDo(Exception):
    """The reason why this client cannot do a task: a local sentence, and the facts that may leave a client, as in
    federated/tasks/task_failure.h."""

    NO_EXAMPLES, BAD_PLAN, BAD_MODEL, UNIMPLEMENTED, RAISED = 1, 3, 4, 7, 9

    def __init__(self, code: int, subject: str, sentence: str) -> None:
        super().__init__(clean(sentence))
        self.code = code
        self.subject = clean(subject)


class Variable(NamedTuple):
    name: str
    shape: Tuple[int, ...]
    segment: str  # "trainable", "shared", "frozen"; "local" ones leave no client and come to none; "base"


class Part(NamedTuple):
    name: str
    whole: bool  # the model as it is now; else its difference to the base
    shared_too: bool


def _of_graphs(message: Any) -> str:
    """The part of a plan that only clients with graphs can do; "": there is none."""
    if message.model.download:
        return "versions by a codec"
    if message.aggregation.HasField("secure"):
        return "secure aggregation"
    if message.flats.numbers or message.flats.measured or message.flats.declared:
        return "numbers of tasks"
    if any(part.HasField("only_where") for part in message.aggregation.parts):
        return "parts of some updates"
    return ""


class Plan:
    """The plan of these bytes.

    Raises
    ------
    CannotDo
        They are no plan, or one of another format.
    """

    def __init__(self, content: bytes) -> None:
        try:
            message = _protocol.parsed(_protocol.Plan, content)
        except ValueError as error:
            raise CannotDo(CannotDo.BAD_PLAN, "", f"the plan cannot be read: {error}") from error
        beyond = message.format == _BASE_FORMAT and _of_graphs(message)
        if message.format not in (_FORMAT, _BASE_FORMAT) or beyond:
            sentence = f"the plan has format {message.format}, and this package reads {_FORMAT} and {_BASE_FORMAT}"
            sentence += f"; it has {beyond}, for clients that run graphs" if beyond else ""
            raise CannotDo(
                CannotDo.UNIMPLEMENTED,
                beyond or f"plans of format {message.format}",
                f"{sentence}; install the coordinator's version",
            )
        self._message = message
        self.name: str = message.name
        self._declared: Dict[int, Set[str]] = {}
        self._parts: List[Part] = []
        every = [Variable(entry.name, tuple(entry.shape), entry.segment) for entry in message.model.variables]
        self.variables = [variable for variable in every if variable.segment != "base"]
        self.base_variables = [variable for variable in every if variable.segment == "base"]
        self.base: str = message.model.base.hex()  # the digest of the base; "": there is none
        if len(self.base) not in (0, 64) or bool(self.base) != bool(self.base_variables):
            raise CannotDo(CannotDo.BAD_PLAN, "", f"plan '{self.name}' does not say which base its variables have")

    @property
    def most_model_bytes(self) -> int:
        """The largest size of a model's file, which follows from the plan."""
        each = (_VALUE_BYTES * math.prod(variable.shape) + _VARIABLE_BYTES for variable in self.variables)
        return _FILE_BYTES + sum(each)

    @property
    def most_base_bytes(self) -> int:
        """The largest size of the file that its base travels as."""
        return _FILE_BYTES + sum(
            _VALUE_BYTES_OF.get(entry.dtype, 8) * math.prod(entry.shape) + _VARIABLE_BYTES
            for entry in self._message.model.variables
            if entry.segment == "base"
        )

    def _program(self, kind: int) -> Any:
        for program in self._message.programs:
            if program.kind == kind:
                return program
        return None

    def dataset(self, kind: int) -> str:
        """The data set that a task is about; "" where the plan does not say."""
        program = self._program(kind) or self._program(TRAIN)
        return program.passes[0].dataset if program is not None and program.passes else ""

    def numbers(self, kind: int) -> Dict[str, int]:
        """The scenario's numbers for a task."""
        program = self._program(kind)
        if program is None or not program.passes:
            return {}
        asked = program.passes[0]
        return {"epochs": asked.epochs, "batch_size": asked.batch_size, "max_steps": asked.max_steps}

    def _told(self, kind: int) -> Set[str]:
        program = self._program(kind)
        return {scalar.name for a_pass in program.passes for scalar in a_pass.scalars} if program is not None else set()

    def required(self, kind: int) -> Set[str]:
        """The numbers that every update of a task must declare."""
        if kind == EVALUATE:
            return self._told(kind)
        return {scalar.name for scalar in self._message.aggregation.scalars}

    def declared(self, kind: int) -> Set[str]:
        """The numbers that an update of a task may declare."""
        if kind not in self._declared:  # a site of many names asks for each of their tasks
            self._declared[kind] = self.required(kind) | self._told(kind) | _OWN_SCALARS
        return self._declared[kind]

    def parts(self) -> List[Part]:
        """The parts of an update."""
        if self._parts:
            return self._parts
        codecs = {part.name: part.codec for part in self._message.aggregation.parts}
        parts = []
        program = self._program(TRAIN)
        for mechanism in program.mechanisms if program is not None else []:
            raise CannotDo(
                CannotDo.UNIMPLEMENTED,
                f"mechanism '{mechanism.name}'",
                f"plan '{self.name}' wants updates to go through '{mechanism.name}', which this package cannot do",
            )
        for source in program.parts if program is not None else []:
            codec = codecs.get(source.part, "f32")
            if getattr(source, "from") != "params":
                raise CannotDo(
                    CannotDo.UNIMPLEMENTED,
                    f"how to make part '{source.part}'",
                    f"plan '{self.name}' asks for a part '{source.part}', which only its own passes make",
                )
            if source.less not in ("", "base_params"):
                raise CannotDo(
                    CannotDo.UNIMPLEMENTED,
                    f"how to make part '{source.part}'",
                    f"plan '{self.name}' asks for a part '{source.part}', a difference to '{source.less}'",
                )
            if codec != "f32":
                raise CannotDo(
                    CannotDo.UNIMPLEMENTED,
                    f"codec '{codec}'",
                    f"plan '{self.name}' wants its part '{source.part}' as '{codec}', which this package cannot write",
                )
            parts.append(Part(source.part, source.less == "", source.shared_too))
        if not parts:
            raise CannotDo(
                CannotDo.BAD_PLAN, "", f"plan '{self.name}' does not list an update's parts; it is damaged"
            )
        self._parts = parts
        return parts

    def model(self, content: memoryview, digest: bytes) -> Tensors:
        """The model in a file, compared with its digest; every variable of the plan, in the plan's order, but those of
        its base.

        The arrays are views of `content`, and cannot be written to. Values of bfloat16 become float32.
        """

        def bad(sentence: str) -> CannotDo:
            return CannotDo(CannotDo.BAD_MODEL, "", sentence)

        try:
            found, stored = view_safetensors(content)
        except ValueError as error:
            raise bad(f"the model that was sent is no safetensors file, or damaged: {error}") from error
        model = {}
        for variable in self.variables:
            if variable.segment == "local":
                continue
            array = found.get(variable.name)
            if array is None or array.shape != variable.shape:
                has = "none" if array is None else f"one of shape {array.shape}"
                raise bad(
                    f"the model that was sent has no tensor '{variable.name}' of shape {variable.shape}, but {has}"
                )
            model[variable.name] = array
        computed = digest_of_stored(((name, *stored[name]) for name in model), self.base or None)
        if computed != digest.hex():
            raise bad(
                f"the model sent for {digest.hex()} has digest {computed}; the coordinator's store may be damaged"
            )
        return Tensors(model, found.metadata)
