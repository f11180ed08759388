"""The wire's messages, as classes of whichever protobuf is installed.

Code that protoc generates runs with the runtime that it was generated for and few others. A description of the messages
is older than that code and outlives it: every runtime since protobuf 3.20 makes classes of it.
`scripts/python-protocol.sh` writes it from `proto/`. The classes are in a separate pool, without names of other
packages.
"""

import pkgutil
from typing import Any, Dict

from rivulet._errors import lacks

try:
    from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory
except ImportError as error:
    raise lacks("protobuf", "python3-protobuf", error) from error


def _classes() -> Dict[str, Any]:
    described = pkgutil.get_data("rivulet", "_protocol.desc") or b""
    pool = descriptor_pool.DescriptorPool()
    files = descriptor_pb2.FileDescriptorSet.FromString(described)
    for file in files.file:
        pool.AddSerializedFile(file.SerializeToString())
    make = getattr(message_factory, "GetMessageClass", None)  # since 4.22
    if make is None:
        factory: Any = message_factory.MessageFactory(pool)
        make = factory.GetPrototype
    return {
        each.name: make(pool.FindMessageTypeByName(f"{file.package}.{each.name}"))
        for file in files.file
        for each in file.message_type
    }


def parsed(kind: Any, content: bytes) -> Any:
    """The message of a class. ValueError: these bytes are none, in the words of whichever protobuf it is."""
    try:
        return kind.FromString(content)
    except (message.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from error


_CLASSES = _classes()
PollRequest = _CLASSES["PollRequestProto"]
PollReply = _CLASSES["PollReplyProto"]
FetchRequest = _CLASSES["FetchRequestProto"]
Chunk = _CLASSES["ChunkProto"]
SubmitMessage = _CLASSES["SubmitMessageProto"]
SubmitReply = _CLASSES["SubmitReplyProto"]
SubmitResult = _CLASSES["SubmitResultProto"]
FailRequest = _CLASSES["FailRequestProto"]
FailReply = _CLASSES["FailReplyProto"]
Plan = _CLASSES["Plan"]
