#include "engine/program/run_error.h"

#include <algorithm>
#include <string>

#include "engine/base/error_facts.h"
#include "engine/graph/inference.h"
#include "engine/tensor/float16.h"

namespace rivulet {
namespace {

constexpr int64_t kMostValues = 8;
constexpr int64_t kLargest = 1 << 16;  // limit of elements of an input whose values are shown: labels, not images
constexpr size_t kMostInputs = 16;

template <typename T>
std::string ValuesAs(const std::byte* data, int64_t shown) {
  std::string text;
  for (int64_t i = 0; i < shown; ++i) {
    const T value = reinterpret_cast<const T*>(data)[i];
    text += fmt::format("{}{}", i == 0 ? "" : ", ", value);
  }
  return text;
}

// "[1, 12, 3]", "[1, 12, 3, …]" for number types; "" for other types.
std::string Values(const TensorSpec& spec, const std::byte* data) {
  const int64_t elements = spec.shape.elements(), shown = std::min(elements, kMostValues);
  if (elements == 0 || elements > kLargest || data == nullptr) return "";
  std::string text;
  switch (spec.dtype) {
    case DType::kInt8:
      text = ValuesAs<int8_t>(data, shown);
      break;
    case DType::kInt16:
      text = ValuesAs<int16_t>(data, shown);
      break;
    case DType::kInt32:
      text = ValuesAs<int32_t>(data, shown);
      break;
    case DType::kInt64:
      text = ValuesAs<int64_t>(data, shown);
      break;
    case DType::kUint8:
      text = ValuesAs<uint8_t>(data, shown);
      break;
    case DType::kBool:
      text = ValuesAs<bool>(data, shown);
      break;
    case DType::kFloat32:
      if (elements > kMostValues) return "";
      text = ValuesAs<float>(data, shown);
      break;
    case DType::kFloat64:
      if (elements > kMostValues) return "";
      text = ValuesAs<double>(data, shown);
      break;
    default:
      return "";
  }
  if (spec.shape.rank() == 0) return " = " + text;
  return fmt::format(" = [{}{}]", text, shown < elements ? ", ..." : "");
}

}  // namespace

// Shows the inputs' first values, because most errors of a run are about them: a label of 12 with ten classes cannot be
// found from shapes. A cancelled or late run did not fail because of values, so none are shown. All of it is in the
// message's first line, before other lines.
Status ExplainRunError(const Instruction& call, const KernelContext& context, const Status& error) {
  const std::string where = DescribeNode(call.op, call.node, call.source_line);
  if (absl::IsCancelled(error) || absl::IsDeadlineExceeded(error)) return Annotate(error, where);
  std::string inputs;
  for (size_t i = 0; i < call.inputs.size() && i < kMostInputs; ++i) {
    const std::byte* data = i < context.inputs.size() ? context.inputs[i] : nullptr;
    if (std::ranges::find(context.outputs, data) != context.outputs.end()) data = nullptr;  // may be overwritten
    const std::string name = call.input_names[i].empty() ? "" : fmt::format("'{}' ", call.input_names[i]);
    inputs += fmt::format("{}{}{}{}{}", inputs.empty() ? "" : ", ", name, Name(call.inputs[i].dtype),
                          call.inputs[i].shape.ToString(), Values(call.inputs[i], data));
  }
  if (call.inputs.size() > kMostInputs) inputs += fmt::format(" and {} more", call.inputs.size() - kMostInputs);
  for (const std::string& variable : call.variables)
    inputs += fmt::format("{}variable '{}'", inputs.empty() ? "" : ", ", variable);
  const std::string_view message = Message(error), sentence = Sentence(message);
  return WithFact(Status(error.code(), ToAbsl(fmt::format("{}: {}{}{}", where, sentence,
                                                          inputs.empty() ? "" : fmt::format(" (inputs: {})", inputs),
                                                          message.substr(sentence.size())))),
                  kOpFact, fmt::format("{} '{}'", call.op, call.node));
}

}  // namespace rivulet
