#include "engine/models/layer_list.h"

#include <algorithm>
#include <set>

#include "engine/base/join.h"
#include "engine/base/nearest.h"
#include "engine/models/layer_kinds.h"

namespace rivulet {
namespace {

// Keys that every layer may have besides those of its kind. "": not given.
const std::vector<Setting>& CommonKeys() {
  static const auto* const keys =
      new std::vector<Setting>{Text("type", "", "Which kind"), Text("name", "", "The name that other layers refer to"),
                               Text("from", "", "Whose output it takes")};
  return *keys;
}

constexpr std::string_view kPlainName = "name must begin with a letter and hold letters, digits, _ and -";
bool IsPlainName(std::string_view name) {
  const auto plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-'; };
  return !name.empty() && name.size() <= 100 && std::ranges::all_of(name, plain) &&
         std::isalpha(static_cast<unsigned char>(name[0]));
}

struct ParsedLayer {
  const LayerKind* kind;
  std::string name, from, with;
  Settings args;
  std::string where;  // "layer 3 ('conv2', conv2d)"
};

class Parser {
 public:
  // `inputs` have names that layers take them by, in the place of outputs, and that no layer can have.
  explicit Parser(const std::vector<InputSpec>& inputs) {
    for (const InputSpec& input : inputs) inputs_.insert(input.name);
    inputs_.insert("input");
  }

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
    if (!IsPlainName(name)) return InvalidArgument("{}: {}, not \"{}\"", where, kPlainName, name.substr(0, 60));
    where += fmt::format(" ('{}', {})", name, kind->name);
    if (inputs_.contains(name) || !names_.insert(name).second)
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
    if (type.empty()) return InvalidArgument("{}: type must be given: one of {}", where, Join(known, ", "));
    return InvalidArgument("{}: there is no layer type '{}'.{} Types are {}", where, type.substr(0, 60),
                           DidYouMean(type, known), Join(known, ", "));
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

  // The name of a layer before this one, or of an input.
  StatusOr<std::string> Earlier(const LayerSpec& spec, const std::string& key, const std::string& name,
                                std::string_view where) const {
    RIVULET_ASSIGN_OR_RETURN(std::string other, TextOf(spec, key, where));
    if (other.empty() || inputs_.contains(other) || (other != name && names_.contains(other))) return other;
    std::vector<std::string> known(names_.begin(), names_.end());
    std::erase(known, name);
    known.insert(known.end(), inputs_.begin(), inputs_.end());
    return InvalidArgument("{}: {} = \"{}\" names no layer before this one.{}", where, key, other.substr(0, 60),
                           DidYouMean(other, known));
  }

  std::map<std::string, int> counts_;
  std::set<std::string> names_, inputs_;
};

// The input from which each layer's first operand comes, directly or through other layers: its index in `inputs`.
std::map<std::string, size_t> SourcesOf(const std::vector<ParsedLayer>& layers, const std::vector<InputSpec>& inputs) {
  std::map<std::string, size_t> sources = {{"input", 0}};
  for (size_t i = 0; i < inputs.size(); ++i) sources[inputs[i].name] = i;
  size_t source = 0;
  for (const ParsedLayer& layer : layers) {
    if (!layer.from.empty()) source = sources[layer.from];
    sources[layer.name] = source;
  }
  return sources;
}

// Integers must be below the number of rows of the embedding that looks them up.
void FillVocabularies(const std::vector<ParsedLayer>& layers, ClassifierOptions& options) {
  const auto fill = [](int64_t& vocabulary, FeatureEncoding encoding, const ParsedLayer& layer) {
    if (encoding == FeatureEncoding::kInt64 && vocabulary == 0) vocabulary = layer.args.integer("vocabulary");
  };
  std::map<std::string, size_t> sources = SourcesOf(layers, options.inputs);
  for (const ParsedLayer& layer : layers) {
    if (layer.kind->name != "embedding") continue;
    if (options.inputs.empty()) {
      fill(options.vocabulary, options.encoding, layer);
    } else {
      InputSpec& input = options.inputs[sources[layer.name]];
      fill(input.vocabulary, input.encoding, layer);
    }
  }
}

// An input that no layer uses would be requested from every client in vain.
Status CheckInputsAreTaken(const std::vector<ParsedLayer>& layers, const std::vector<InputSpec>& inputs) {
  std::set<std::string_view> taken = {layers[0].from.empty() ? "input" : std::string_view(layers[0].from)};
  for (const ParsedLayer& layer : layers) taken.insert({layer.from, layer.with});
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (taken.contains(inputs[i].name) || (i == 0 && taken.contains("input"))) continue;
    return InvalidArgument("no layer takes the input '{}'; name it in a layer's from or with, or leave it out",
                           inputs[i].name);
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<ModelDef> ModelFromLayers(ClassifierOptions options, std::span<const LayerSpec> specs) {
  for (const InputSpec& input : options.inputs)
    if (!IsPlainName(input.name)) return InvalidArgument("the input '{}': {}", input.name.substr(0, 60), kPlainName);
  RIVULET_ASSIGN_OR_RETURN(const std::vector<ParsedLayer> parsed, Parser(options.inputs).Parse(specs));
  RIVULET_RETURN_IF_ERROR(CheckInputsAreTaken(parsed, options.inputs));
  FillVocabularies(parsed, options);
  std::string building = "the model";  // the layer that an error belongs to
  StatusOr<ModelDef> model = Classifier(options, [&](Layers& layers, std::span<const Output> inputs) {
    std::map<std::string, Output, std::less<>> outputs = {{"input", inputs[0]}};
    for (size_t i = 0; i < options.inputs.size(); ++i) outputs[options.inputs[i].name] = inputs[i];
    Output x = inputs[0];
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

}  // namespace rivulet
