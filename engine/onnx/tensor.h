// Conversion of ONNX values to tensors. For files that already include the generated header.
#pragma once

#include <string_view>

#include "engine/base/status.h"
#include "engine/tensor/tensor.h"
#include "proto/onnx/onnx.pb.h"

namespace rivulet::onnx {

// UNIMPLEMENTED: strings, complex numbers and types below 8 bits. INVALID_ARGUMENT: not a type of ONNX.
StatusOr<DType> DTypeFromOnnx(int number);
// Returns ONNX's name of a data type ("FLOAT8E4M3FN"), for messages.
std::string OnnxTypeName(int number);

// The location of values outside of the model: TensorProto with data_location = EXTERNAL. Empty: they are refused.
struct ExternalData {
  std::string folder;
};

// Converts a tensor. Allocates only after checking that the message has as many values as its dims require.
// INVALID_ARGUMENT: a negative dimension, more than 2^40 elements, a number of values that contradicts the shape, a
// bool that is neither 0 nor 1. UNIMPLEMENTED: as DTypeFromOnnx, segments, external data without a folder. External
// data must be a file name without path in the folder, within the file's bounds.
StatusOr<Tensor> TensorFromOnnx(const proto::TensorProto& proto, const ExternalData& external = {});

// Parses a file with one serialized TensorProto (test_data_set_0/input_0.pb). DATA_LOSS: it is not one.
StatusOr<Tensor> ParseOnnxTensor(std::string_view bytes);

}  // namespace rivulet::onnx
