// Values of requests and answers as the protocols write them, and their conversion to a program's feeds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/tensor/tensor.h"
#include "serving/served_plan.h"

namespace rivulet {

// "FP32", "INT64", "BYTES" and so on, the Open Inference Protocol's names of element types. Unknown ones give kInvalid
// or "".
DType WireType(std::string_view name);
std::string_view WireName(DType dtype);

// One input of a request. Its bytes are row-major and little-endian; BYTES (kString) are strings, each after its length
// in four bytes.
struct WireTensor {
  std::string name;
  DType dtype = DType::kInvalid;
  std::vector<int64_t> shape;
  std::string_view bytes;  // valid as long as the request
};

// An input in the form that a batch needs.
struct BoundInput {
  int64_t rows = 0;
  const std::byte* data = nullptr;
  std::vector<std::byte> converted;  // memory of `data`, if it is not the request's own
};

// INVALID_ARGUMENT names the input: another shape, another type, another number of bytes, an integer out of range.
//   - float32 inputs take FP32, FP16 and BF16;
//   - those that are bytes in the run's examples, such as pixels, take UINT8 too, and BYTES [rows] with a string for
//     each example; both are scaled as in training;
//   - int64 inputs take INT64 and INT32.
StatusOr<BoundInput> Bind(const ServedInput& input, const WireTensor& given, int64_t max_rows);

// Strings in the form of WireTensor::bytes.
void AppendBytesElement(std::string_view element, std::string& bytes);

}  // namespace rivulet
