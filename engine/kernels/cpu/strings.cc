// Kernels that produce and read strings. They may allocate, unlike other kernels: a string's size cannot be planned.
// Elements are numbers of strings (engine/tensor/text.h).
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>

#include "engine/base/fingerprint64.h"
#include "engine/base/shown_text.h"
#include "engine/kernels/cpu/strided/elementwise.h"
#include "engine/kernels/cpu/strided/function_kernel.h"
#include "engine/tensor/text.h"

namespace rivulet {
namespace {

std::string_view TextAt(const KernelContext& context, size_t input, int64_t i) {
  return TextOfNumber(InputOf<uint64_t>(context, input)[i]);
}

Status SetText(const KernelContext& context, int64_t i, std::string_view text) {
  RIVULET_ASSIGN_OR_RETURN(OutputOf<uint64_t>(context, 0)[i], NumberOfText(text));
  return absl::OkStatus();
}

// Computes `text` of each element from the element's number.
template <typename F>
StatusOr<Prepared> MakeTextKernel(const NodeView& node, F text) {
  const int64_t count = node.outputs[0].shape.elements();
  return MakeFunctionKernel([count, text](const KernelContext& c) -> Status {
    for (int64_t i = 0; i < count; ++i) RIVULET_RETURN_IF_ERROR(SetText(c, i, text(c, i)));
    return absl::OkStatus();
  });
}

// ---- AsString

// A printf format, with `%` and without the type's length modifier.
StatusOr<std::string> NumberFormat(const NodeView& node, bool floating) {
  const int64_t precision = node.attr<int64_t>("precision"), width = node.attr<int64_t>("width");
  const bool scientific = node.attr<bool>("scientific"), shortest = node.attr<bool>("shortest");
  const std::string& fill = node.attr<std::string>("fill");
  constexpr int64_t kWidest = 1024;
  if (precision > kWidest || width > kWidest)
    return InvalidArgument("width {} and precision {}: at most {} can be asked for", width, precision, kWidest);
  if (!floating && (scientific || shortest || precision >= 0))
    return InvalidArgument("precision, scientific and shortest are for float and double, not for {}",
                           Name(node.inputs[0].dtype));
  if (scientific && shortest) return InvalidArgument("scientific and shortest exclude each other");
  if (fill.size() > 1 || (!fill.empty() && std::string_view(" +-0#").find(fill[0]) == std::string_view::npos))
    return InvalidArgument("fill is '{}'; one of ' ', '+', '-', '0' and '#' is needed", fill);
  std::string format = "%" + fill;
  if (width >= 0) format += fmt::format("{}", width);
  if (precision >= 0) format += fmt::format(".{}", precision);
  return format;
}

// Sufficient for the largest double as %f with the longest precision.
constexpr size_t kLongestNumber = 2048;

template <typename T>
StatusOr<Prepared> PrepareNumberText(const NodeView& node) {
  constexpr bool kFloating = std::is_floating_point_v<T>;
  RIVULET_ASSIGN_OR_RETURN(std::string format, NumberFormat(node, kFloating));
  if constexpr (kFloating)
    format += node.attr<bool>("scientific") ? "e" : node.attr<bool>("shortest") ? "g" : "f";
  else
    format += std::is_signed_v<T> ? "lld" : "llu";
  return MakeTextKernel(node, [format](const KernelContext& c, int64_t i) {
    using Passed =
        std::conditional_t<kFloating, double, std::conditional_t<std::is_signed_v<T>, long long, unsigned long long>>;
    char text[kLongestNumber];
    const int length =
        std::snprintf(text, sizeof text, format.c_str(), static_cast<Passed>(InputOf<T>(c, 0)[i]));  // NOLINT
    return std::string(text, static_cast<size_t>(std::clamp<int>(length, 0, sizeof text - 1)));
  });
}

StatusOr<Prepared> PrepareAsString(const NodeView& node, const KernelPolicy&) {
  switch (node.inputs[0].dtype) {
#define RIVULET_NUMBER_TEXT(dtype, type) \
  case DType::dtype:                     \
    return PrepareNumberText<type>(node);
    RIVULET_NUMBER_TEXT(kFloat32, float)
    RIVULET_NUMBER_TEXT(kFloat64, double)
    RIVULET_NUMBER_TEXT(kInt8, int8_t)
    RIVULET_NUMBER_TEXT(kInt16, int16_t)
    RIVULET_NUMBER_TEXT(kInt32, int32_t)
    RIVULET_NUMBER_TEXT(kInt64, int64_t)
    RIVULET_NUMBER_TEXT(kUint8, uint8_t)
    RIVULET_NUMBER_TEXT(kUint16, uint16_t)
    RIVULET_NUMBER_TEXT(kUint32, uint32_t)
    RIVULET_NUMBER_TEXT(kUint64, uint64_t)
#undef RIVULET_NUMBER_TEXT
    case DType::kBool:
      return MakeTextKernel(node, [](const KernelContext& c, int64_t i) {
        return std::string_view(InputOf<bool>(c, 0)[i] ? "true" : "false");
      });
    case DType::kString:
      return MakeTextKernel(node, [](const KernelContext& c, int64_t i) { return TextAt(c, 0, i); });
    default:
      return Unimplemented("texts of {}", Name(node.inputs[0].dtype));
  }
}

// ---- StringToNumber

std::string_view Stripped(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) + 1 - first);
}

template <typename T>
bool ReadNumber(std::string_view text, T* number) {
  std::string stripped(Stripped(text));
  if (stripped.empty()) return false;
  if constexpr (std::is_floating_point_v<T>) {
    char* end = nullptr;
    if constexpr (sizeof(T) == sizeof(float))
      *number = std::strtof(stripped.c_str(), &end);
    else
      *number = std::strtod(stripped.c_str(), &end);
    return end == stripped.c_str() + stripped.size();
  } else {
    if (stripped[0] == '+') stripped.erase(0, 1);
    const auto [end, error] = std::from_chars(stripped.data(), stripped.data() + stripped.size(), *number);
    return error == std::errc() && end == stripped.data() + stripped.size();
  }
}

template <typename T>
StatusOr<Prepared> PrepareStringToNumber(const NodeView& node, const KernelPolicy&) {
  const int64_t count = node.outputs[0].shape.elements();
  return MakeFunctionKernel([count](const KernelContext& c) -> Status {
    for (int64_t i = 0; i < count; ++i) {
      if (ReadNumber<T>(TextAt(c, 0, i), OutputOf<T>(c, 0) + i)) continue;
      return InvalidArgument("element {}, '{}', is no {}", i, OneLine(Shortened(TextAt(c, 0, i))), Name(kDTypeOf<T>));
    }
    return absl::OkStatus();
  });
}

// ---- joins

StatusOr<Prepared> PrepareStringJoin(const NodeView& node, const KernelPolicy&) {
  std::vector<bool> scalar;
  for (const TensorSpec& input : node.inputs) scalar.push_back(input.shape.rank() == 0);
  return MakeTextKernel(node,
                        [scalar, separator = node.attr<std::string>("separator")](const KernelContext& c, int64_t i) {
                          std::string text;
                          for (size_t input = 0; input < scalar.size(); ++input) {
                            if (input > 0) text += separator;
                            text += TextAt(c, input, scalar[input] ? 0 : i);
                          }
                          return text;
                        });
}

StatusOr<Prepared> PrepareReduceJoin(const NodeView& node, const KernelPolicy&) {
  const Shape input = node.inputs[0].shape;
  const int64_t named = node.inputs[1].shape.elements(), outputs = node.outputs[0].shape.elements();
  std::vector<int64_t> strides(static_cast<size_t>(input.rank()), 1);
  for (int axis = input.rank() - 2; axis >= 0; --axis)
    strides[static_cast<size_t>(axis)] = strides[static_cast<size_t>(axis) + 1] * input.dim(axis + 1);
  return MakeFunctionKernel([=, separator = node.attr<std::string>("separator")](const KernelContext& c) -> Status {
    std::vector<int> joined, kept;  // axes, the fastest-changing one first
    for (int64_t i = 0; i < named; ++i) {
      const int32_t axis = InputOf<int32_t>(c, 1)[i];
      joined.push_back(axis < 0 ? axis + input.rank() : axis);
    }
    for (int axis = input.rank() - 1; axis >= 0; --axis)
      if (std::ranges::find(joined, axis) == joined.end()) kept.push_back(axis);
    const auto place = [&](const std::vector<int>& axes, int64_t number) {
      int64_t at = 0;
      for (const int axis : axes) {
        at += number % input.dim(axis) * strides[static_cast<size_t>(axis)];
        number /= input.dim(axis);
      }
      return at;
    };
    int64_t parts = 1;
    for (const int axis : joined) parts *= input.dim(axis);
    for (int64_t i = 0; i < outputs; ++i) {
      const int64_t begin = place(kept, i);
      std::string text;
      for (int64_t part = 0; part < parts; ++part) {
        if (part > 0) text += separator;
        text += TextAt(c, 0, begin + place(joined, part));
      }
      RIVULET_RETURN_IF_ERROR(SetText(c, i, text));
    }
    return absl::OkStatus();
  });
}

// ---- one text at a time

StatusOr<Prepared> PrepareStringLength(const NodeView& node, const KernelPolicy&) {
  const int64_t count = node.outputs[0].shape.elements();
  const bool characters = node.attr<std::string>("unit") == "UTF8_CHAR";
  return MakeFunctionKernel([=](const KernelContext& c) -> Status {
    for (int64_t i = 0; i < count; ++i) {
      const std::string_view text = TextAt(c, 0, i);
      // A character's continuation bytes are 10xxxxxx.
      const auto begins = [](char byte) { return (static_cast<uint8_t>(byte) & 0xc0) != 0x80; };
      OutputOf<int32_t>(c, 0)[i] =
          static_cast<int32_t>(characters ? std::ranges::count_if(text, begins) : std::ssize(text));
    }
    return absl::OkStatus();
  });
}

template <typename T>
StatusOr<Prepared> PrepareSubstr(const NodeView& node, const KernelPolicy&) {
  const int64_t count = node.outputs[0].shape.elements();
  const bool one_pos = node.inputs[1].shape.rank() == 0, one_len = node.inputs[2].shape.rank() == 0;
  return MakeFunctionKernel([=](const KernelContext& c) -> Status {
    for (int64_t i = 0; i < count; ++i) {
      const std::string_view text = TextAt(c, 0, i);
      const int64_t pos = InputOf<T>(c, 1)[one_pos ? 0 : i], length = InputOf<T>(c, 2)[one_len ? 0 : i];
      const int64_t size = std::ssize(text), from = pos < 0 ? pos + size : pos;
      if (from < 0 || from > size)
        return InvalidArgument("pos {} is outside of element {}, a text of {} bytes", pos, i, size);
      const auto part =
          text.substr(static_cast<size_t>(from), static_cast<size_t>(std::clamp<int64_t>(length, 0, size - from)));
      RIVULET_RETURN_IF_ERROR(SetText(c, i, part));
    }
    return absl::OkStatus();
  });
}

template <char first, char last, int change>
StatusOr<Prepared> PrepareCase(const NodeView& node, const KernelPolicy&) {
  return MakeTextKernel(node, [](const KernelContext& c, int64_t i) {
    std::string text(TextAt(c, 0, i));
    for (char& letter : text)
      if (letter >= first && letter <= last) letter = static_cast<char>(letter + change);
    return text;
  });
}

StatusOr<Prepared> PrepareStrip(const NodeView& node, const KernelPolicy&) {
  return MakeTextKernel(node, [](const KernelContext& c, int64_t i) { return Stripped(TextAt(c, 0, i)); });
}

StatusOr<Prepared> PrepareHashBucket(const NodeView& node, const KernelPolicy&) {
  const int64_t count = node.outputs[0].shape.elements();
  const auto buckets = static_cast<uint64_t>(node.attr<int64_t>("num_buckets"));
  return MakeFunctionKernel([=](const KernelContext& c) -> Status {
    for (int64_t i = 0; i < count; ++i)
      OutputOf<int64_t>(c, 0)[i] = static_cast<int64_t>(Fingerprint64(TextAt(c, 0, i)) % buckets);
    return absl::OkStatus();
  });
}

RIVULET_KERNEL("AsString", Device::kCpu, void, PrepareAsString);
RIVULET_KERNEL("StringToNumber", Device::kCpu, float, PrepareStringToNumber<float>);
RIVULET_KERNEL("StringToNumber", Device::kCpu, double, PrepareStringToNumber<double>);
RIVULET_KERNEL("StringToNumber", Device::kCpu, int32_t, PrepareStringToNumber<int32_t>);
RIVULET_KERNEL("StringToNumber", Device::kCpu, int64_t, PrepareStringToNumber<int64_t>);
RIVULET_KERNEL("StringJoin", Device::kCpu, void, PrepareStringJoin);
RIVULET_KERNEL("ReduceJoin", Device::kCpu, void, PrepareReduceJoin);
RIVULET_KERNEL("StringLength", Device::kCpu, void, PrepareStringLength);
RIVULET_KERNEL("Substr", Device::kCpu, int32_t, PrepareSubstr<int32_t>);
RIVULET_KERNEL("Substr", Device::kCpu, int64_t, PrepareSubstr<int64_t>);
RIVULET_KERNEL("StringLower", Device::kCpu, void, (PrepareCase<'A', 'Z', 'a' - 'A'>));
RIVULET_KERNEL("StringUpper", Device::kCpu, void, (PrepareCase<'a', 'z', 'A' - 'a'>));
RIVULET_KERNEL("StringStrip", Device::kCpu, void, PrepareStrip);
RIVULET_KERNEL("StringToHashBucketFast", Device::kCpu, void, PrepareHashBucket);

}  // namespace
}  // namespace rivulet
