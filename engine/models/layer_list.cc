#include "engine/models/layer_list.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "engine/base/nearest.h"
#include "engine/models/layer_kinds.h"

namespace rivulet {
namespace {

// What every layer may say beside the keys of its kind. "": not given.
const std::vector<Setting>& CommonKeys() {
  static const auto* const keys =
      new std::vector<Setting>{Text("type", "", "Which kind"), Text("name", "", "What others call it by"),
                               Text("from", "", "Whose output it takes")};
  return *keys;
}

struct ParsedLayer {
  const LayerKind* kind;
  std::string name, from, with;
  Settings args;
  std::string where;  // "layer 3 ('conv2', conv2d)"
};

class Parser {
 public:
  StatusOr<std::vector<ParsedLayer>> Parse(std::span<const LayerSpec> specs) {
    if (specs.empty()) return InvalidArgument("model.layers is empty; a model needs one layer or more");
    std::vector<ParsedLayer> parsed;
    for (size_t i = 0; i < specs.size(); ++i) {
      RIVULET_ASSIGN_OR_RETURN(ParsedLayer layer, ParseLayer(specs[i], fmt::format("layer {}", i + 1)));
      parsed.push_back(std::move(layer));
    }
    return parsed;
  }

 private:
  StatusOr<ParsedLayer> ParseLayer(const LayerSpec& spec, std::string where) {
    RIVULET_ASSIGN_OR_RETURN(const LayerKind* kind, KindOf(spec, where));
    RIVULET_ASSIGN_OR_RETURN(std::string name, TextOf(spec, "name", where));
    if (name.empty()) name = fmt::format("{}{}", kind->prefix, ++counts_[kind->prefix]);
    const auto plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-'; };
    if (name.size() > 100 || !std::ranges::all_of(name, plain) || !std::isalpha(static_cast<unsigned char>(name[0])))
      return InvalidArgument("{}: name must begin with a letter and hold letters, digits, _ and -, not \"{}\"", where,
                             name.substr(0, 60));
    where += fmt::format(" ('{}', {})", name, kind->name);
    if (name == "input" || !names_.insert(name).second)
      return InvalidArgument("{}: the name is taken; give each layer its own", where);
    RIVULET_ASSIGN_OR_RETURN(std::string from, Earlier(spec, "from", name, where));
    std::vector<Setting> table = CommonKeys();
    table.insert(table.end(), kind->keys.begin(), kind->keys.end());
    RIVULET_ASSIGN_OR_RETURN(Settings args, Settings::Read(table, spec, where));
    std::string with;
    if (spec.contains("with")) {
      RIVULET_ASSIGN_OR_RETURN(with, Earlier(spec, "with", name, where));
    }
    return ParsedLayer{kind, std::move(name), std::move(from), std::move(with), std::move(args), where};
  }

  StatusOr<const LayerKind*> KindOf(const LayerSpec& spec, std::string_view where) const {
    RIVULET_ASSIGN_OR_RETURN(const std::string type, TextOf(spec, "type", where));
    std::vector<std::string> known;
    for (const LayerKind& kind : LayerKinds()) {
      if (kind.name == type) return &kind;
      known.push_back(kind.name);
    }
    if (type.empty()) return InvalidArgument("{}: type must be given: one of {}", where, fmt::join(known, ", "));
    return InvalidArgument("{}: there is no layer type '{}'.{} Types are {}", where, type.substr(0, 60),
                           DidYouMean(type, known), fmt::join(known, ", "));
  }

  static StatusOr<std::string> TextOf(const LayerSpec& spec, const std::string& key, std::string_view where) {
    const auto given = spec.find(key);
    if (given == spec.end()) return std::string();
    const auto* text = std::get_if<std::string>(&given->second);
    if (text == nullptr || text->empty())
      return InvalidArgument("{}: {} must be a string of one character or more, not {}", where, key,
                             Describe(given->second));
    return *text;
  }

  // The name of a layer before this one, or "input".
  StatusOr<std::string> Earlier(const LayerSpec& spec, const std::string& key, const std::string& name,
                                std::string_view where) const {
    RIVULET_ASSIGN_OR_RETURN(std::string other, TextOf(spec, key, where));
    if (other.empty() || other == "input" || (other != name && names_.contains(other))) return other;
    std::vector<std::string> known(names_.begin(), names_.end());
    std::erase(known, name);
    known.emplace_back("input");
    return InvalidArgument("{}: {} = \"{}\" names no layer before this one.{}", where, key, other.substr(0, 60),
                           DidYouMean(other, known));
  }

  std::map<std::string, int> counts_;
  std::set<std::string> names_;
};

}  // namespace

StatusOr<ModelDef> ModelFromLayers(ClassifierOptions options, std::span<const LayerSpec> specs) {
  RIVULET_ASSIGN_OR_RETURN(const std::vector<ParsedLayer> parsed, Parser().Parse(specs));
  if (options.encoding == FeatureEncoding::kInt64 && options.vocabulary == 0)
    for (const ParsedLayer& layer : parsed)
      if (layer.kind->name == "embedding" && options.vocabulary == 0)
        options.vocabulary = layer.args.integer("vocabulary");
  std::string building = "the model";  // the layer that an error belongs to
  StatusOr<ModelDef> model = Classifier(options, [&](Layers& layers, Output input) {
    std::map<std::string, Output, std::less<>> outputs = {{"input", input}};
    Output x = input;
    for (const ParsedLayer& layer : parsed) {
      building = layer.where;
      const Output from = layer.from.empty() ? x : outputs[layer.from];
      x = layer.kind->build(layers, layer.name, from, layer.with.empty() ? Output() : outputs[layer.with], layer.args);
      if (!layers.scope().status().ok()) return Output();
      outputs[layer.name] = x;
    }
    building = "the model";
    return x;
  });
  if (!model.ok()) return Annotate(model.status(), building);
  return model;
}

std::string LayerReference() {
  std::string page;
  for (const LayerKind& kind : LayerKinds()) {
    page += fmt::format("\n### `{}`\n\n{}\n", kind.name, kind.doc);
    if (kind.keys.empty()) continue;
    page += "\n| key | type | default | meaning |\n|---|---|---|---|\n";
    for (const Setting& key : kind.keys) {
      std::string doc = key.doc;
      // Activations and initializers are listed once, above the table.
      if (!key.choices.empty() && key.choices.size() < 5) doc += fmt::format(": {}", fmt::join(key.choices, ", "));
      const bool sizes = key.type == SettingType::kIntegers;
      std::string shown = "required";
      if (key.default_value.has_value()) {
        // One for all axes is written as an integer.
        const SettingValue one = sizes ? std::get<std::vector<int64_t>>(*key.default_value)[0] : *key.default_value;
        shown = fmt::format("`{}`", ToToml(one));
      }
      page +=
          fmt::format("| `{}` | {} | {} | {}. |\n", key.name, sizes ? "integer or array" : Name(key.type), shown, doc);
    }
  }
  return page;
}

}  // namespace rivulet
