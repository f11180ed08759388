#include "engine/onnx/weight_places.h"

#include <algorithm>
#include <array>

#include "engine/base/json.h"
#include "engine/base/nearest.h"
#include "engine/base/wildcard.h"

namespace rivulet::onnx {
namespace {

constexpr int kMaxCarriers = 16;  // between an initializer and the operator that takes it

constexpr int kAny = -1;
struct Place {
  std::string_view op;
  int input;
};
// Inputs that are weights. Training other inputs, such as the limits of a Clip, would make a different model.
constexpr std::array kPlaces = {
    Place{"Conv", 1},
    Place{"Conv", 2},
    Place{"ConvTranspose", 1},
    Place{"ConvTranspose", 2},
    Place{"Gemm", kAny},
    Place{"MatMul", kAny},
    Place{"Einsum", kAny},
    Place{"Gather", 0},
    Place{"PRelu", 1},
    Place{"RNN", 1},
    Place{"RNN", 2},
    Place{"RNN", 3},
    Place{"GRU", 1},
    Place{"GRU", 2},
    Place{"GRU", 3},
    Place{"LSTM", 1},
    Place{"LSTM", 2},
    Place{"LSTM", 3},
    Place{"LSTM", 7},
    Place{"BatchNormalization", 1},
    Place{"BatchNormalization", 2},
    Place{"InstanceNormalization", 1},
    Place{"InstanceNormalization", 2},
    Place{"GroupNormalization", 1},
    Place{"GroupNormalization", 2},
    Place{"LayerNormalization", 1},
    Place{"LayerNormalization", 2},
    Place{"RMSNormalization", 1},
};
// Inputs that are weights if the initializer has a name of its own: biases, scales and tokens. Masks and numbers that
// an exporter computed can be there too.
constexpr std::array<std::string_view, 6> kNamedPlaces = {"Add", "Sub", "Mul", "Div", "Concat", "Sum"};
constexpr std::array<std::string_view, 11> kCarriers = {
    "Identity", "Transpose", "Reshape", "Unsqueeze", "Squeeze", "Cast", "Flatten", "Expand", "Slice", "Split", "Tile"};

// Frameworks' names of tables that belong to a module but are not parameters.
bool IsCalledAsBuffers(std::string_view name) {
  constexpr std::array<std::string_view, 9> patterns = {
      "*inv_freq",       "*cos_cached",  "*sin_cached",  "*attn_mask",
      "*attention_mask", "*causal_mask", "*masked_bias", "*relative_position_index",
      "*position_ids"};
  return std::ranges::any_of(patterns, [&](std::string_view pattern) { return MatchesWildcard(pattern, name); });
}

std::string Described(const proto::NodeProto& node, int input) {
  const std::string name = node.name().empty() && node.output_size() > 0 ? node.output(0) : node.name();
  return fmt::format("input {} of {} '{}'", input, node.op_type(), name);
}

bool IsStatistic(const proto::NodeProto& node, int input) {
  return node.op_type() == "BatchNormalization" && input >= 3;
}

}  // namespace

std::string_view Name(Role role) {
  switch (role) {
    case Role::kWeight:
      return "weight";
    case Role::kStatistic:
      return "running statistic";
    case Role::kConstant:
      return "constant";
  }
  return "";
}

StatusOr<WeightPlaces> WeightPlaces::Find(const proto::ModelProto& model, const std::vector<std::string>& trainable) {
  WeightPlaces places;
  places.trainable_ = trainable;
  for (const proto::FunctionProto& function : model.functions()) places.functions_.insert(function.name());
  std::vector<const proto::GraphProto*> graphs = {&model.graph()};
  while (!graphs.empty()) {
    const proto::GraphProto& graph = *graphs.back();
    graphs.pop_back();
    for (const proto::NodeProto& node : graph.node()) {
      for (int i = 0; i < node.input_size(); ++i) places.uses_.emplace(node.input(i), Use{&node, i});
      for (const auto& attr : node.attribute())
        if (attr.has_g()) graphs.push_back(&attr.g());
    }
  }
  for (const auto& entry : model.metadata_props()) {
    const auto unreadable = [&] {
      return InvalidArgument("the model's metadata '{}' are not those of rivulet.torch; export it again", entry.key());
    };
    if (entry.key() != "rivulet.parameters" && entry.key() != "rivulet.padding_rows") continue;
    const StatusOr<Json> json = Json::Parse(entry.value());
    if (!json.ok()) return unreadable();
    if (entry.key() == "rivulet.parameters") {
      if (!json->IsArray()) return unreadable();
      for (const Json& name : json->elements()) {
        if (!name.IsText()) return unreadable();
        places.parameters_.insert(name.text());
      }
      places.names_parameters_ = true;
    } else {
      if (!json->IsObject()) return unreadable();
      for (const auto& [name, row] : json->members()) {
        if (!row.IsInteger() || row.integer() < 0) return unreadable();
        places.padding_rows_[name] = row.integer();
      }
    }
  }
  for (const std::string& pattern : trainable) {
    std::vector<std::string> names;
    for (const proto::TensorProto& initializer : model.graph().initializer()) names.push_back(initializer.name());
    if (std::ranges::any_of(names, [&](const std::string& name) { return MatchesWildcard(pattern, name); })) continue;
    return InvalidArgument("model.trainable: no initializer of the model is called '{}'.{}", pattern,
                           DidYouMean(pattern, names));
  }
  return places;
}

const WeightPlaces::Use* WeightPlaces::WeightUse(const std::string& value, int depth) const {
  const auto [first, last] = uses_.equal_range(value);
  for (auto use = first; use != last; ++use) {
    const proto::NodeProto& node = *use->second.node;
    const std::string& op = node.op_type();
    const bool table = std::ranges::any_of(kPlaces, [&](const Place& place) {
      return place.op == op && (place.input == kAny || place.input == use->second.input);
    });
    const bool named = std::ranges::find(kNamedPlaces, op) != kNamedPlaces.end();
    if (table || functions_.contains(op)) return &use->second;
    if (named && !IsMade(value)) return &use->second;
    if (depth >= kMaxCarriers || use->second.input != 0 || std::ranges::find(kCarriers, op) == kCarriers.end())
      continue;
    for (const std::string& output : node.output())
      if (!output.empty() && WeightUse(output, depth + 1) != nullptr) return &use->second;
  }
  return nullptr;
}

bool WeightPlaces::IsMade(std::string_view name) {
  constexpr std::array<std::string_view, 8> begins = {"onnx::", "val_",          "const",           "Const",
                                                      "_",      "lifted_tensor", "tensor_constant", "/"};
  return std::ranges::any_of(begins, [&](std::string_view begin) { return name.starts_with(begin); });
}

bool WeightPlaces::Overruled(const std::string& name) const {
  return std::ranges::any_of(trainable_, [&](const std::string& pattern) { return MatchesWildcard(pattern, name); });
}

std::vector<std::string> WeightPlaces::Normalisations(const std::string& name) const {
  std::vector<std::string> nodes;
  const auto [first, last] = uses_.equal_range(name);
  for (auto use = first; use != last; ++use) {
    const std::string& op = use->second.node->op_type();
    if (op == "LayerNormalization" || op == "BatchNormalization" || op == "GroupNormalization" ||
        op == "RMSNormalization")
      nodes.push_back(use->second.node->name());
  }
  return nodes;
}

Placed WeightPlaces::Of(const std::string& name) const {
  for (const std::string& pattern : trainable_)
    if (MatchesWildcard(pattern, name)) return {Role::kWeight, fmt::format("model.trainable names it ('{}')", pattern)};
  const auto [first, last] = uses_.equal_range(name);
  for (auto use = first; use != last; ++use)
    if (IsStatistic(*use->second.node, use->second.input))
      return {Role::kStatistic, Described(*use->second.node, use->second.input)};
  if (names_parameters_)
    return parameters_.contains(name) ? Placed{Role::kWeight, "a parameter of the module"}
                                      : Placed{Role::kConstant, "no parameter of the module"};
  if (IsCalledAsBuffers(name)) return {Role::kConstant, "its name is that of a buffer"};
  if (const Use* use = WeightUse(name, 0)) return {Role::kWeight, Described(*use->node, use->input)};
  if (first == last) return {Role::kConstant, "no node takes it"};
  return {Role::kConstant, Described(*first->second.node, first->second.input) + " is no weight's place"};
}

}  // namespace rivulet::onnx
