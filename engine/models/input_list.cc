#include "engine/models/input_list.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/base/join.h"

namespace rivulet {
namespace {

constexpr std::pair<std::string_view, FeatureEncoding> kKinds[] = {
    {"pixels", FeatureEncoding::kUint8}, {"values", FeatureEncoding::kFloat}, {"tokens", FeatureEncoding::kInt64}};

std::vector<std::string> KindNames() {
  std::vector<std::string> names;
  for (const auto& [name, encoding] : kKinds) names.emplace_back(name);
  return names;
}

}  // namespace

const std::vector<Setting>& InputKeys() {
  static const auto* const keys = new std::vector<Setting>{
      Text("name", std::nullopt,
           "Its name for layers (`from`, `with`); of a graph the placeholder, of an ONNX model the input"),
      Integers("shape", std::vector<int64_t>(),
               "Of one example: height, width and channels, length of a text, number of values. Of a graph or an ONNX "
               "model its own; `model.layers` needs it")
          .AtLeast(1),
      Text("kind", "pixels", "Kind of the feature: bytes (the model sees byte / 255), floats, or integers")
          .OneOf(KindNames()),
      Text("feature", "", "Feature of the examples; without it that of the input's name"),
      Integer("vocabulary", 0, "Of tokens, which are below it; 0: below that of the embedding that takes them")
          .Between(0, 1e9)};
  return *keys;
}

StatusOr<FeatureEncoding> EncodingFromKind(std::string_view kind) {
  for (const auto& [name, encoding] : kKinds)
    if (name == kind) return encoding;
  return InvalidArgument("there is no kind of input '{}'; kinds are {}", kind, Join(KindNames(), ", "));
}

StatusOr<std::vector<InputSpec>> InputsFromTables(std::span<const InputTable> tables) {
  std::vector<InputSpec> inputs;
  for (const InputTable& table : tables) {
    const std::string where = fmt::format("input {}", inputs.size() + 1);
    RIVULET_ASSIGN_OR_RETURN(const Settings given, Settings::Read(InputKeys(), table, where));
    InputSpec input{given.text("name"), given.integers("shape")};
    if (input.name.empty()) return InvalidArgument("{}: name must not be empty", where);
    if (std::ranges::find(inputs, input.name, &InputSpec::name) != inputs.end())
      return InvalidArgument("{}: the name '{}' is taken; give each input its own", where, input.name);
    RIVULET_ASSIGN_OR_RETURN(input.encoding, EncodingFromKind(given.text("kind")));
    input.feature = given.text("feature");
    input.vocabulary = given.integer("vocabulary");
    if (input.vocabulary > 0 && input.encoding != FeatureEncoding::kInt64)
      return InvalidArgument("{} ('{}'): only tokens have a vocabulary; leave it out, or write kind = \"tokens\"",
                             where, input.name);
    inputs.push_back(std::move(input));
  }
  return inputs;
}

}  // namespace rivulet
