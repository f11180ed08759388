// Conversion of a tensor to the bytes of a TensorProto, and back.
#pragma once

#include <string>
#include <string_view>

#include "engine/graphdef/graph_def.h"
#include "engine/graphdef/proto_conversion.h"

namespace rivulet::testing {

inline std::string SerializeTensor(const Tensor& tensor) {
  proto::TensorProto message;
  ToProto(tensor, &message);
  return message.SerializeAsString();
}

// DATA_LOSS: not a TensorProto; else as TensorFromProto.
inline StatusOr<Tensor> ParseTensor(std::string_view bytes) {
  proto::TensorProto message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return DataLoss("{} bytes are no TensorProto", bytes.size());
  size_t fill_budget = GraphLimits().filled_bytes;
  return TensorFromProto(message, fill_budget);
}

}  // namespace rivulet::testing
