#include "engine/models/layer_list.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>

#include "engine/base/nearest.h"
#include "engine/models/layer_kinds.h"

namespace rivulet {
namespace {

using Type = LayerKey::Type;

std::string Shown(const LayerValue& value) {
  struct Visitor {
    std::string operator()(int64_t v) const { return fmt::format("{}", v); }
    std::string operator()(double v) const { return fmt::format("{}", v); }
    std::string operator()(bool v) const { return v ? "true" : "false"; }
    std::string operator()(const std::string& v) const { return fmt::format("\"{}\"", v.substr(0, 60)); }
    std::string operator()(const std::vector<int64_t>& v) const { return fmt::format("[{}]", fmt::join(v, ", ")); }
  };
  return std::visit(Visitor{}, value);
}

std::string Wanted(const LayerKey& key) {
  if (!key.choices.empty()) return fmt::format("one of {}", fmt::join(key.choices, ", "));
  static constexpr const char* kTypes[] = {"an integer", "a number", "true or false", "a string",
                                           "an integer or a list of integers"};
  std::string text = kTypes[static_cast<size_t>(key.type)];
  if (std::isfinite(key.minimum)) text += fmt::format(" of at least {}", key.minimum);
  if (key.type == Type::kNumber && std::isfinite(key.maximum)) text += fmt::format(" and below {}", key.maximum);
  return text;
}

// The value as the key's type, or nothing.
std::optional<LayerValue> Convert(const LayerKey& key, const LayerValue& value) {
  const auto in_range = [&](double number) { return number >= key.minimum && number < key.maximum; };
  switch (key.type) {
    case Type::kInteger:
      if (const auto* v = std::get_if<int64_t>(&value); v != nullptr && in_range(static_cast<double>(*v))) return *v;
      return std::nullopt;
    case Type::kNumber: {
      const auto* integer = std::get_if<int64_t>(&value);
      const auto* real = std::get_if<double>(&value);
      if (integer == nullptr && real == nullptr) return std::nullopt;
      const double number = integer != nullptr ? static_cast<double>(*integer) : *real;
      if (!in_range(number)) return std::nullopt;
      return number;
    }
    case Type::kFlag:
      if (const auto* v = std::get_if<bool>(&value)) return *v;
      return std::nullopt;
    case Type::kText: {
      const auto* v = std::get_if<std::string>(&value);
      if (v == nullptr || v->empty()) return std::nullopt;
      if (!key.choices.empty() && std::ranges::find(key.choices, *v) == key.choices.end()) return std::nullopt;
      return *v;
    }
    case Type::kSizes: {
      std::vector<int64_t> sizes;
      if (const auto* one = std::get_if<int64_t>(&value)) sizes = {*one};
      if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) sizes = *list;
      if (sizes.empty() || sizes.size() > 8 ||
          !std::ranges::all_of(sizes, [&](int64_t v) { return in_range(static_cast<double>(v)); }))
        return std::nullopt;
      return sizes;
    }
  }
  return std::nullopt;
}

LayerValue Default(const LayerKey& key) {
  const std::string& text = key.default_value;
  const auto integer = [&] {
    int64_t number = 0;
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
  };
  switch (key.type) {
    case Type::kInteger:
      return integer();
    case Type::kNumber: {
      double number = 0;
      std::from_chars(text.data(), text.data() + text.size(), number);
      return number;
    }
    case Type::kFlag:
      return text == "true";
    case Type::kText:
      return text.substr(1, text.size() - 2);
    case Type::kSizes:
      return std::vector<int64_t>{integer()};
  }
  return int64_t{0};
}

struct ParsedLayer {
  const LayerKind* kind;
  std::string name, from, with;
  LayerArgs args;
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
    std::map<std::string, LayerValue, std::less<>> values;
    for (const LayerKey& key : kind->keys) {
      const auto given = spec.find(key.name);
      if (given == spec.end()) {
        if (key.default_value.empty()) return InvalidArgument("{}: {} must be given: {}", where, key.name, Wanted(key));
        values.emplace(key.name, Default(key));
        continue;
      }
      std::optional<LayerValue> value = Convert(key, given->second);
      if (!value.has_value()) {
        const auto* text = std::get_if<std::string>(&given->second);
        return InvalidArgument("{}: {} must be {}, not {}.{}", where, key.name, Wanted(key), Shown(given->second),
                               text == nullptr ? "" : DidYouMean(*text, key.choices));
      }
      values.emplace(key.name, *std::move(value));
    }
    RIVULET_RETURN_IF_ERROR(CheckKeys(spec, *kind, where));
    std::string with;
    if (values.contains("with")) {
      RIVULET_ASSIGN_OR_RETURN(with, Earlier(spec, "with", name, where));
    }
    return ParsedLayer{kind, std::move(name), std::move(from), std::move(with), LayerArgs(std::move(values)), where};
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
      return InvalidArgument("{}: {} must be a string, not {}", where, key, Shown(given->second));
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

  static Status CheckKeys(const LayerSpec& spec, const LayerKind& kind, std::string_view where) {
    std::vector<std::string> known = {"type", "name", "from"};
    for (const LayerKey& key : kind.keys) known.push_back(key.name);
    for (const auto& [key, value] : spec)
      if (std::ranges::find(known, key) == known.end())
        return InvalidArgument("{}: unknown key '{}'.{} {} has {}", where, key.substr(0, 60), DidYouMean(key, known),
                               kind.name, fmt::join(known, ", "));
    return absl::OkStatus();
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
  static constexpr const char* kTypes[] = {"integer", "number", "boolean", "string", "integer or list"};
  std::string page;
  for (const LayerKind& kind : LayerKinds()) {
    page += fmt::format("\n### `{}`\n\n{}\n", kind.name, kind.doc);
    if (kind.keys.empty()) continue;
    page += "\n| key | type | default | meaning |\n|---|---|---|---|\n";
    for (const LayerKey& key : kind.keys) {
      std::string doc = key.doc;
      // Activations and initializers are listed once, above the table.
      if (!key.choices.empty() && key.choices.size() < 5) doc += fmt::format(": {}", fmt::join(key.choices, ", "));
      page += fmt::format("| `{}` | {} | {} | {}. |\n", key.name, kTypes[static_cast<size_t>(key.type)],
                          key.default_value.empty() ? "required" : fmt::format("`{}`", key.default_value), doc);
    }
  }
  return page;
}

}  // namespace rivulet
