#include "serving/json_values.h"

#include <cmath>
#include <iterator>
#include <span>

#include "engine/base/shown_text.h"
#include "serving/wire_values.h"

namespace rivulet {
namespace {

template <typename T>
void Put(T value, std::string& bytes) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <typename T>
Status PutInteger(const Json& element, std::string& bytes) {
  if (!element.IsInteger()) return InvalidArgument("a value is no integer");
  const int64_t value = element.integer();
  // A number beyond int64 is read as int64's bound, which no narrower type contains.
  if (!std::in_range<T>(value) || value == INT64_MAX || value == INT64_MIN)
    return InvalidArgument("the value {} does not fit the type", value);
  Put(static_cast<T>(value), bytes);
  return absl::OkStatus();
}

Status PutFloat(const Json& element, std::string& bytes) {
  if (!element.IsNumber()) return InvalidArgument("a value is no number");
  const double value = element.number();
  // A value half a step beyond the largest float rounds to infinity; that float's shortest text is slightly beyond it.
  if (std::abs(value) >= 0x1.ffffffp127) return InvalidArgument("the value {} does not fit FP32", value);
  Put(static_cast<float>(value), bytes);
  return absl::OkStatus();
}

Status PutString(const Json& element, bool base64, std::string& bytes) {
  if (element.IsText()) {
    AppendBytesElement(element.text(), bytes);
    return absl::OkStatus();
  }
  const Json* const encoded = base64 ? element.Find("b64") : nullptr;
  if (encoded == nullptr || !encoded->IsText()) return InvalidArgument("a value is no string");
  RIVULET_ASSIGN_OR_RETURN(const std::string decoded, Base64Bytes(encoded->text()));
  AppendBytesElement(decoded, bytes);
  return absl::OkStatus();
}

Status PutOne(const Json& element, DType dtype, bool base64, std::string& bytes) {
  switch (dtype) {
    case DType::kFloat32:
      return PutFloat(element, bytes);
    case DType::kFloat64:
      if (!element.IsNumber()) return InvalidArgument("a value is no number");
      Put(element.number(), bytes);
      return absl::OkStatus();
    case DType::kInt64:
      return PutInteger<int64_t>(element, bytes);
    case DType::kInt32:
      return PutInteger<int32_t>(element, bytes);
    case DType::kUint8:
      return PutInteger<uint8_t>(element, bytes);
    case DType::kString:
      return PutString(element, base64, bytes);
    default:
      return InvalidArgument("{} has no values in JSON here; send it as binary data", WireName(dtype));
  }
}

int DigitOf(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+' || c == '-') return 62;
  return c == '/' || c == '_' ? 63 : -1;
}

}  // namespace

Status AppendValues(const Json& data, DType dtype, bool base64, std::string& bytes) {
  if (!data.IsArray()) return PutOne(data, dtype, base64, bytes);
  for (const Json& element : data.elements()) RIVULET_RETURN_IF_ERROR(AppendValues(element, dtype, base64, bytes));
  return absl::OkStatus();
}

StatusOr<std::vector<int64_t>> ShapeOf(const Json& data) {
  std::vector<int64_t> shape;
  if (!data.IsArray()) return shape;
  std::vector<int64_t> inner;
  bool first = true;
  for (const Json& element : data.elements()) {
    RIVULET_ASSIGN_OR_RETURN(const auto of_element, ShapeOf(element));
    if (!first && of_element != inner) return InvalidArgument("nested arrays have unlike sizes");
    inner = of_element;
    first = false;
  }
  shape.push_back(static_cast<int64_t>(data.size()));
  shape.insert(shape.end(), inner.begin(), inner.end());
  return shape;
}

void AppendNumbers(const TensorView& value, int64_t first, int64_t count, std::string& text) {
  const auto append = [&]<typename T>(T) {
    const auto values = value.flat<const T>().subspan(static_cast<size_t>(first), static_cast<size_t>(count));
    for (size_t i = 0; i < values.size(); ++i) {
      if (i > 0) text += ',';
      if constexpr (std::is_floating_point_v<T>) {
        if (!std::isfinite(values[i])) {
          text += "null";
          continue;
        }
      }
      if constexpr (std::is_same_v<T, bool>) {
        text += values[i] ? "true" : "false";
      } else {
        fmt::format_to(std::back_inserter(text), "{}", values[i]);
      }
    }
  };
  switch (value.dtype) {
    case DType::kFloat32:
      return append(float{});
    case DType::kFloat64:
      return append(double{});
    case DType::kInt32:
      return append(int32_t{});
    case DType::kInt64:
      return append(int64_t{});
    case DType::kBool:
      return append(bool{});
    default:
      text += "null";
  }
}

void AppendNested(const TensorView& value, std::span<const int64_t> dims, int64_t first, std::string& text) {
  if (dims.empty()) return AppendNumbers(value, first, 1, text);
  text += '[';
  if (dims.size() == 1) {
    AppendNumbers(value, first, dims[0], text);
  } else {
    int64_t inner = 1;
    for (const int64_t dim : dims.subspan(1)) inner *= dim;
    for (int64_t i = 0; i < dims[0]; ++i) {
      if (i > 0) text += ',';
      AppendNested(value, dims.subspan(1), first + i * inner, text);
    }
  }
  text += ']';
}

StatusOr<std::string> Base64Bytes(std::string_view text) {
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string bytes;
  bytes.reserve(text.size() * 3 / 4);
  uint32_t bits = 0;
  int held = 0;
  for (const char c : text) {
    const int digit = DigitOf(c);
    if (digit < 0) return InvalidArgument("a \"b64\" is no base64");
    bits = bits << 6 | static_cast<uint32_t>(digit);
    held += 6;
    if (held >= 8) {
      held -= 8;
      bytes += static_cast<char>(bits >> held & 0xFFu);
    }
  }
  if (held >= 6) return InvalidArgument("a \"b64\" is no base64");
  return bytes;
}

}  // namespace rivulet
