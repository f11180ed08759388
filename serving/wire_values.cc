#include "serving/wire_values.h"

#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "engine/base/shown_text.h"
#include "engine/tensor/float16.h"
#include "engine/tensor/scaled_bytes.h"

namespace rivulet {
namespace {

static_assert(std::endian::native == std::endian::little, "values travel in little-endian order");

constexpr std::array<std::pair<std::string_view, DType>, 14> kTypes = {{{"BOOL", DType::kBool},
                                                                        {"UINT8", DType::kUint8},
                                                                        {"UINT16", DType::kUint16},
                                                                        {"UINT32", DType::kUint32},
                                                                        {"UINT64", DType::kUint64},
                                                                        {"INT8", DType::kInt8},
                                                                        {"INT16", DType::kInt16},
                                                                        {"INT32", DType::kInt32},
                                                                        {"INT64", DType::kInt64},
                                                                        {"FP16", DType::kFloat16},
                                                                        {"BF16", DType::kBFloat16},
                                                                        {"FP32", DType::kFloat32},
                                                                        {"FP64", DType::kFloat64},
                                                                        {"BYTES", DType::kString}}};

std::string ShapeText(std::span<const int64_t> dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size() && i < 8; ++i) text += fmt::format("{}{}", i == 0 ? "" : ",", dims[i]);
  return text + (dims.size() > 8 ? ",…]" : "]");
}

std::string Takes(const ServedInput& input) {
  if (input.row.dtype == DType::kInt64) return "INT64 or INT32";
  return input.encoding == FeatureEncoding::kUint8 ? "FP32, FP16, BF16, UINT8 or BYTES" : "FP32, FP16 or BF16";
}

// The number of rows of a tensor whose other dimensions equal `row`.
StatusOr<int64_t> RowsOf(const WireTensor& given, std::span<const int64_t> row, int64_t max_rows) {
  const std::span<const int64_t> dims = given.shape;
  const bool fits = dims.size() == row.size() + 1 && std::equal(row.begin(), row.end(), dims.begin() + 1);
  if (!fits) {
    std::string wanted = "[examples";
    for (const int64_t dim : row) wanted += fmt::format(",{}", dim);
    return InvalidArgument("the input '{}' has the shape {}, and the model takes {}]", given.name, ShapeText(dims),
                           wanted);
  }
  if (dims[0] < 1 || dims[0] > max_rows)
    return InvalidArgument(
        "the input '{}' has {} examples, and a request has 1 to {} (--max-batch); send them in several requests",
        given.name, dims[0], max_rows);
  return dims[0];
}

Status CheckLength(const WireTensor& given, uint64_t wanted) {
  if (given.bytes.size() == wanted) return absl::OkStatus();
  return InvalidArgument("the input '{}' has {} bytes, and {}{} has {}", given.name, given.bytes.size(),
                         WireName(given.dtype), ShapeText(given.shape), wanted);
}

// The strings of BYTES, each of `length` bytes, one after another.
StatusOr<std::string> Joined(const WireTensor& given, int64_t rows, uint64_t length) {
  RIVULET_RETURN_IF_ERROR(CheckLength(given, static_cast<uint64_t>(rows) * (length + sizeof(uint32_t))));
  std::string joined;
  joined.reserve(static_cast<size_t>(rows) * length);
  std::string_view rest = given.bytes;
  for (int64_t row = 0; row < rows; ++row) {
    uint32_t said = 0;
    std::memcpy(&said, rest.data(), sizeof said);
    if (said != length)
      return InvalidArgument("string {} of the input '{}' has {} bytes, and an example has {}", row, given.name, said,
                             length);
    joined.append(rest.substr(sizeof said, length));
    rest.remove_prefix(sizeof said + length);
  }
  return joined;
}

Status CheckRange(const ServedInput& input, std::span<const int64_t> values) {
  if (input.upper_bound == 0) return absl::OkStatus();
  for (const int64_t value : values)
    if (value < 0 || value >= input.upper_bound)
      return InvalidArgument("the input '{}' has the value {}, and the model takes 0 to {}", input.name, value,
                             input.upper_bound - 1);
  return absl::OkStatus();
}

}  // namespace

DType WireType(std::string_view name) {
  for (const auto& [known, dtype] : kTypes)
    if (known == name) return dtype;
  return DType::kInvalid;
}

std::string_view WireName(DType dtype) {
  for (const auto& [name, known] : kTypes)
    if (known == dtype) return name;
  return "";
}

void AppendBytesElement(std::string_view element, std::string& bytes) {
  const auto length = static_cast<uint32_t>(element.size());
  bytes.append(reinterpret_cast<const char*>(&length), sizeof length);
  bytes.append(element);
}

StatusOr<BoundInput> Bind(const ServedInput& input, const WireTensor& given, int64_t max_rows) {
  BoundInput bound;
  const bool pixels = input.encoding == FeatureEncoding::kUint8;
  const bool strings = pixels && given.dtype == DType::kString;
  const std::span<const int64_t> row = strings ? std::span<const int64_t>() : input.row.shape.dims();
  RIVULET_ASSIGN_OR_RETURN(bound.rows, RowsOf(given, row, max_rows));
  const auto of_row = static_cast<uint64_t>(input.row.shape.elements());
  const uint64_t elements = static_cast<uint64_t>(bound.rows) * of_row;  // limited by max_rows
  if (!strings && given.dtype != DType::kString)
    RIVULET_RETURN_IF_ERROR(CheckLength(given, elements * SizeOf(given.dtype)));
  const auto* const from = reinterpret_cast<const std::byte*>(given.bytes.data());
  const auto make = [&]<typename T>(T) {
    bound.converted.resize(elements * sizeof(T));
    bound.data = bound.converted.data();
    return reinterpret_cast<T*>(bound.converted.data());
  };
  if (given.dtype == input.row.dtype) {
    bound.data = from;
    if (input.row.dtype == DType::kInt64 && input.upper_bound > 0) {
      int64_t* const values = make(int64_t{});  // the request's memory has no alignment
      std::memcpy(values, from, elements * sizeof(int64_t));
      RIVULET_RETURN_IF_ERROR(CheckRange(input, {values, elements}));
    }
  } else if (input.row.dtype == DType::kInt64 && given.dtype == DType::kInt32) {
    int64_t* const to = make(int64_t{});
    for (uint64_t i = 0; i < elements; ++i) {
      int32_t value = 0;
      std::memcpy(&value, from + i * sizeof value, sizeof value);
      to[i] = value;
    }
    RIVULET_RETURN_IF_ERROR(CheckRange(input, {to, elements}));
  } else if (input.row.dtype == DType::kFloat32 && Is16BitFloat(given.dtype)) {
    std::vector<uint16_t> aligned(elements);
    std::memcpy(aligned.data(), from, elements * sizeof(uint16_t));
    Float32From16(given.dtype, reinterpret_cast<const std::byte*>(aligned.data()), make(float{}),
                  static_cast<int64_t>(elements));
  } else if (pixels && given.dtype == DType::kUint8) {
    ScaleBytes(reinterpret_cast<const uint8_t*>(from), static_cast<int64_t>(elements), input.scale, make(float{}));
  } else if (strings) {
    RIVULET_ASSIGN_OR_RETURN(const std::string joined, Joined(given, bound.rows, of_row));
    ScaleBytes(reinterpret_cast<const uint8_t*>(joined.data()), static_cast<int64_t>(elements), input.scale,
               make(float{}));
  } else {
    return InvalidArgument("the input '{}' is given as {}, and the model takes {}", input.name, WireName(given.dtype),
                           Takes(input));
  }
  return bound;
}

}  // namespace rivulet
