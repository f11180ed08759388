// Splits strings at separators; the number of parts depends on the values.
#include <algorithm>

#include "dataflow/resources/async_op.h"
#include "engine/tensor/text.h"

namespace rivulet {
namespace {

std::vector<std::string_view> AtSeparators(std::string_view text, std::string_view separator, int64_t most) {
  std::vector<std::string_view> parts;
  while (most < 0 || std::ssize(parts) < most) {
    const size_t end = text.find(separator);
    if (end == std::string_view::npos) break;
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end + separator.size());
  }
  parts.push_back(text);
  return parts;
}

// Separators are runs of white space, and those at the ends are ignored, as in Python's str.split().
std::vector<std::string_view> AtSpaces(std::string_view text, int64_t most) {
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  std::vector<std::string_view> parts;
  for (;;) {
    text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
    if (text.empty()) return parts;
    const size_t end = std::min(text.find_first_of(kSpace), text.size());
    if (most >= 0 && std::ssize(parts) >= most) {
      parts.push_back(text);
      return parts;
    }
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

StatusOr<std::vector<Tensor>> PartsOf(const AsyncContext& context) {
  const std::vector<std::string_view> texts = TextsOf(context.inputs[0]);
  const std::string_view separator = TextsOf(context.inputs[1])[0];
  const int64_t most = context.node.attr<int64_t>("maxsplit");
  std::vector<int64_t> places;
  std::vector<std::string> values;
  int64_t widest = 0;
  for (size_t row = 0; row < texts.size(); ++row) {
    const auto parts = separator.empty() ? AtSpaces(texts[row], most) : AtSeparators(texts[row], separator, most);
    for (size_t column = 0; column < parts.size(); ++column) {
      places.insert(places.end(), {static_cast<int64_t>(row), static_cast<int64_t>(column)});
      values.emplace_back(parts[column]);
    }
    widest = std::max(widest, std::ssize(parts));
  }
  const auto count = static_cast<int64_t>(values.size());
  std::vector<Tensor> outputs;
  RIVULET_ASSIGN_OR_RETURN(outputs.emplace_back(), Tensor::Create(DType::kInt64, Shape({count, 2})));
  std::ranges::copy(places, outputs[0].flat<int64_t>().begin());
  RIVULET_ASSIGN_OR_RETURN(outputs.emplace_back(), TextTensor(Shape({count}), values));
  outputs.push_back(Tensor::Of<int64_t>({2}, {static_cast<int64_t>(texts.size()), widest}));
  return outputs;
}
void StringSplit(AsyncContext& context, AsyncDone done) { done(PartsOf(context)); }
RIVULET_DYNAMIC_OP("StringSplitV2", StringSplit);

}  // namespace
}  // namespace rivulet
