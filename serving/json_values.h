// Values of requests and answers in JSON. Internal to this folder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/tensor/tensor.h"

namespace rivulet {

// Appends the numbers, bools or strings of `data`, which may be nested, in the form of WireTensor::bytes.
// INVALID_ARGUMENT: an element of another kind, or a number out of the type's range. `base64`: a string is an object
// {"b64": …}, or text.
Status AppendValues(const Json& data, DType dtype, bool base64, std::string& bytes);

// The sizes of nested arrays. INVALID_ARGUMENT: ragged arrays.
StatusOr<std::vector<int64_t>> ShapeOf(const Json& data);

// Appends `count` values as "1,2,3", floats with their shortest exact digits; NaN and infinity as null.
void AppendNumbers(const TensorView& value, int64_t first, int64_t count, std::string& text);
// Appends the values from element `first` on as arrays nested by `dims`.
void AppendNested(const TensorView& value, std::span<const int64_t> dims, int64_t first, std::string& text);

// INVALID_ARGUMENT: the text is no base64.
StatusOr<std::string> Base64Bytes(std::string_view text);

}  // namespace rivulet
