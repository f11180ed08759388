// Conversion of ONNX values to tensors. For files that include the generated header anyway.
#pragma once

#include <string_view>

#include "engine/base/status.h"
#include "engine/tensor/tensor.h"
#include "proto/onnx/onnx.pb.h"

namespace rivulet::onnx {

// UNIMPLEMENTED: strings, complex numbers and types of less than 8 bits. INVALID_ARGUMENT: no type of ONNX's.
StatusOr<DType> DTypeFromOnnx(int number);
// ONNX's own name of a data type ("FLOAT8E4M3FN"), for messages.
std::string OnnxTypeName(int number);

// Where values that lie outside the model are: TensorProto with data_location = EXTERNAL. Empty: they are refused.
struct ExternalData {
  std::string folder;
};

// Nothing is allocated before the message is known to hold as many values as its dims say. INVALID_ARGUMENT: a negative
// dimension, more than 2^40 elements, another number of values than the shape has, a bool that is neither 0 nor 1.
// UNIMPLEMENTED: as DTypeFromOnnx, segments, external data without a folder. External data: only a plain file name in
// the folder, within the file's bounds.
StatusOr<Tensor> TensorFromOnnx(const proto::TensorProto& proto, const ExternalData& external = {});

// A file that holds one serialized TensorProto (test_data_set_0/input_0.pb). DATA_LOSS: it does not.
StatusOr<Tensor> ParseOnnxTensor(std::string_view bytes);

}  // namespace rivulet::onnx
