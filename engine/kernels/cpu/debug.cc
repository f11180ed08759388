// Print and Assert. Both write text, and so may allocate memory, unlike other kernels.
#include <algorithm>
#include <cstdio>

#include "engine/kernels/cpu/strided/elementwise.h"
#include "engine/kernels/cpu/strided/every_type.h"
#include "engine/tensor/spec_bytes.h"
#include "engine/tensor/text.h"

namespace rivulet {
namespace {

using Text = fmt::memory_buffer;

// Graphs are not trusted: their text must not control a terminal.
void AppendWords(std::string_view words, Text& text) {
  for (char c : words) text.push_back(static_cast<unsigned char>(c) < 32 || c == 127 ? ' ' : c);
}

// Uses a string: fmt's library contains that code, whereas formatting to a buffer would be compiled here.
template <typename Number>
void AppendNumber(Number value, Text& text) {
  const std::string digits = fmt::format("{}", value);
  text.append(digits.data(), digits.data() + digits.size());
}

// Converts to the widest type with the same digits.
template <typename T>
auto Widest(T value) {
  if constexpr (std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>)
    return static_cast<float>(value);
  else if constexpr (std::is_floating_point_v<T>)
    return value;
  else if constexpr (std::is_signed_v<T>)
    return static_cast<int64_t>(value);
  else
    return static_cast<uint64_t>(value);
}

template <typename T>
void AppendElements(const std::byte* data, int64_t shown, Text& text) {
  for (int64_t i = 0; i < shown; ++i) {
    if (i > 0) text.push_back(' ');
    AppendNumber(Widest(reinterpret_cast<const T*>(data)[i]), text);
  }
}

void AppendTensor(const TensorSpec& spec, const std::byte* data, int64_t summarize, Text& text) {
  const int64_t elements = spec.shape.elements(), shown = summarize < 0 ? elements : std::min(elements, summarize);
  // A message is printed as it is, as in TensorFlow.
  if (spec.dtype == DType::kString && spec.shape.rank() == 0)
    return AppendWords(TextOfNumber(*reinterpret_cast<const uint64_t*>(data)), text);
  text.push_back('[');
  switch (spec.dtype) {
    case DType::kString:
      for (int64_t i = 0; i < shown; ++i) {
        if (i > 0) text.push_back(' ');
        AppendWords(TextOfNumber(reinterpret_cast<const uint64_t*>(data)[i]), text);
      }
      break;
#define RIVULET_APPEND(dtype, type)          \
  case DType::dtype:                         \
    AppendElements<type>(data, shown, text); \
    break;
      RIVULET_EVERY_TYPE(RIVULET_APPEND)
#undef RIVULET_APPEND
    default:
      AppendWords(Name(spec.dtype), text);
  }
  AppendWords(shown < elements ? "...]" : "]", text);
}

class Printed final : public KernelState {
 public:
  int64_t times = 0;
};

class PrintKernel final : public Kernel {
 public:
  explicit PrintKernel(const NodeView& node)
      : specs_(node.inputs.begin(), node.inputs.end()),
        message_(node.attr<std::string>("message")),
        first_n_(node.attr<int64_t>("first_n")),
        summarize_(node.attr<int64_t>("summarize")),
        bytes_(TensorBytes(specs_[0])) {}

  std::unique_ptr<KernelState> NewState() const override { return std::make_unique<Printed>(); }

  Status Run(const KernelContext& context) const override {
    if (context.outputs[0] != context.inputs[0] && bytes_ > 0)
      std::memcpy(context.outputs[0], context.inputs[0], bytes_);
    auto& printed = static_cast<Printed&>(*context.state);
    if (first_n_ >= 0 && printed.times >= first_n_) return absl::OkStatus();
    ++printed.times;
    Text text;
    AppendWords(message_, text);
    for (size_t i = 1; i < specs_.size(); ++i) AppendTensor(specs_[i], context.inputs[i], summarize_, text);
    text.push_back('\n');
    std::fwrite(text.data(), 1, text.size(), stderr);
    return absl::OkStatus();
  }

 private:
  std::vector<TensorSpec> specs_;
  std::string message_;
  int64_t first_n_, summarize_;
  size_t bytes_;
};

StatusOr<Prepared> PreparePrint(const NodeView& node, const KernelPolicy&) {
  Prepared prepared;
  prepared.kernel = std::make_unique<PrintKernel>(node);
  prepared.implementation = "text";
  return prepared;
}

class AssertKernel final : public Kernel {
 public:
  explicit AssertKernel(const NodeView& node)
      : specs_(node.inputs.begin(), node.inputs.end()), summarize_(node.attr<int64_t>("summarize")) {}
  Status Run(const KernelContext& context) const override {
    if (*InputOf<bool>(context, 0)) return absl::OkStatus();
    Text text;
    for (size_t i = 1; i < specs_.size(); ++i) {
      AppendWords(i > 1 ? " " : ": ", text);
      AppendTensor(specs_[i], context.inputs[i], summarize_, text);
    }
    return InvalidArgument("the assertion failed{}", std::string_view(text.data(), text.size()));
  }

 private:
  std::vector<TensorSpec> specs_;
  int64_t summarize_;
};

StatusOr<Prepared> PrepareAssert(const NodeView& node, const KernelPolicy&) {
  if (node.inputs[0].shape.rank() != 0)
    return InvalidArgument("the condition is {}; a scalar is needed", node.inputs[0].shape.ToString());
  Prepared prepared;
  prepared.kernel = std::make_unique<AssertKernel>(node);
  prepared.implementation = "text";
  return prepared;
}

RIVULET_KERNEL("Print", Device::kCpu, void, PreparePrint);
RIVULET_KERNEL("Assert", Device::kCpu, void, PrepareAssert);

}  // namespace
}  // namespace rivulet
