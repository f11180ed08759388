// Answers of RecvTensor, whose values are not copied through protobuf. Internal to this
// folder and its tests.
#pragma once

#include <google/protobuf/io/zero_copy_stream.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "engine/base/status.h"
#include "engine/tensor/tensor.h"

namespace rivulet {

// Answers of at least so many bytes travel in pieces between tasks of ours, so that one piece is copied while the next
// is on its way, and memory of the connection is used again.
inline constexpr size_t kPieceBytes = size_t{1} << 20;

// A serialized RecvTensorResponse: `head`, then the values of `values`, as they are in memory. Without values (texts,
// and empty tensors) it is all in `head`.
struct TensorMessage {
  std::string head;
  std::optional<Tensor> values;
  bool in_pieces = false;  // head is a message, and the values are in further ones
};
// `pieces`: the caller takes them. RESOURCE_EXHAUSTED: the tensor is larger than a message may be.
StatusOr<TensorMessage> MessageOf(const Tensor& tensor, bool pieces);

// The tensor of a serialized RecvTensorResponse of `bytes` bytes; `open` begins to read them, and may be called twice.
// Values in one piece, as ours and TensorFlow's tasks write them, are copied once, to where they stay; protobuf reads
// any other message. `key` names the tensor in errors. UNIMPLEMENTED: a dead tensor. INVALID_ARGUMENT: no message,
// or no tensor. RESOURCE_EXHAUSTED: no memory for it.
StatusOr<Tensor> TensorFromMessage(
    size_t bytes, const std::string& key,
    const std::function<std::unique_ptr<google::protobuf::io::ZeroCopyInputStream>()>& open);

// Where the values of an answer in pieces go, by its first message of `bytes` bytes: a tensor of zeros. None: the
// message is whole. INVALID_ARGUMENT: values that do not fit the type and shape. RESOURCE_EXHAUSTED: no memory for it.
StatusOr<std::optional<Tensor>> TensorInPieces(size_t bytes, const std::string& key,
                                               google::protobuf::io::ZeroCopyInputStream& from);

}  // namespace rivulet
