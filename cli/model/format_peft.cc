// Low-rank adapters in the form of Hugging Face's PEFT: a folder with adapter_model.safetensors and
// adapter_config.json.
//
// In PEFT lora_A is [rank, in] and lora_B [out, rank], for a convolution [rank, in, height, width] and [out, rank, 1,
// 1], and for an embedding lora_embedding_A [rank, rows] and lora_embedding_B [width, rank].
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "cli/command.h"
#include "cli/model/format.h"
#include "cli/model/pytorch_names.h"
#include "engine/base/file_system.h"
#include "engine/base/join.h"
#include "engine/base/json.h"
#include "engine/base/table.h"
#include "engine/graph/variable_name.h"
#include "engine/io/atomic_file.h"
#include "engine/io/safetensors.h"
#include "engine/models/lora.h"
#include "engine/models/weight_uses.h"

namespace rivulet {
namespace {

constexpr char kPeftWeights[] = "adapter_model.safetensors", kPeftConfig[] = "adapter_config.json";
constexpr std::string_view kPeftPrefix = "base_model.model.";

// The module of a variable: "dense1" for "dense1/kernel".
std::string ModuleOf(std::string_view variable) {
  std::string name = PyTorchName(variable);
  const size_t dot = name.rfind('.');
  return dot == std::string::npos ? name : name.substr(0, dot);
}

// An adapter, and the layout of its factors in PEFT.
struct PeftAdapter {
  LoraAdapter ours;
  std::string module;
  std::string a_name, b_name;   // in adapter_model.safetensors
  PyTorchLayout a, b;           // from ours to theirs
  bool fan_in_fan_out = false;  // their weight is [in, out]
};

PyTorchLayout Turned(const Shape& from, std::vector<int64_t> axes, const Shape& to) {
  return {from, std::move(axes), to};
}

StatusOr<PeftAdapter> PeftAdapterOf(const Graph& graph, const LoraAdapter& ours) {
  Node* const handle = FindHandle(graph, ours.variable);
  Node* const handle_a = FindHandle(graph, ours.a);
  Node* const handle_b = FindHandle(graph, ours.b);
  if (handle == nullptr || handle_a == nullptr || handle_b == nullptr)
    return Internal("the graph lacks '{}' or its adapter", ours.variable);
  const Shape a = handle_a->outputs()[0].shape, b = handle_b->outputs()[0].shape;
  const Shape base = handle->outputs()[0].shape;
  PeftAdapter adapter{.ours = ours, .module = ModuleOf(ours.variable)};
  const std::string name = fmt::format("{}{}.", kPeftPrefix, adapter.module);
  adapter.a_name = name + "lora_A.weight";
  adapter.b_name = name + "lora_B.weight";
  const Shape turned_b = Shape{b.dim(b.rank() - 1), ours.rank};
  adapter.b = Turned(b, {1, 0}, turned_b);
  std::set<std::string> kinds;
  for (const WeightUse& use : WeightUsesOf(graph, handle).products) kinds.insert(std::string(Name(use.kind)));
  if (kinds.size() > 1)
    return absl::UnimplementedError(fmt::format(
        "'{}' is the table of an embedding and the matrix of a product, with one adapter for both; PEFT adapts such "
        "weights one by one. Leave it out of model.lora.targets, or use `rivulet model merge`",
        ours.variable));
  if (ours.kind == "rows") {
    adapter.a_name = name + "lora_embedding_A";
    adapter.b_name = name + "lora_embedding_B";
    adapter.a = Turned(a, {1, 0}, Shape{ours.rank, a.dim(0)});
    return adapter;
  }
  if (ours.kind == "convolution") {
    // A one-dimensional filter is stored here as a two-dimensional one.
    const int axes = base.rank() - 2;
    std::vector<int64_t> order = {a.rank() - 1, a.rank() - 2}, to = {ours.rank, a.dim(a.rank() - 2)};
    for (int axis = 0; axis < a.rank() - 2; ++axis) order.push_back(axis);
    for (int axis = a.rank() - 2 - axes; axis < a.rank() - 2; ++axis) to.push_back(a.dim(axis));
    adapter.a = Turned(a, std::move(order), Shape(std::move(to)));
    std::vector<int64_t> point(static_cast<size_t>(axes) + 2, 1);
    point[0] = turned_b.dim(0);
    point[1] = turned_b.dim(1);
    adapter.b.to = Shape(std::move(point));
    return adapter;
  }
  if (ours.kind != "matrix" || ours.matrices != 1 || base.rank() != 2)
    return absl::UnimplementedError(fmt::format(
        "'{}' {} is a weight of the kind {}, which PEFT's LoRA has no module for; use `rivulet model merge`",
        ours.variable, base.ToString(), ours.matrices == 1 ? ours.kind : "stack of matrices"));
  const auto* stored = handle->FindAttr<std::vector<int64_t>>("_onnx_perm");
  const bool in_first = ours.order[static_cast<size_t>(ours.perm[0])] == 0;
  if (in_first && stored == nullptr && ours.variable.find('/') != std::string::npos) {
    // Like the kernel, whose rows PyTorch may order differently after a convolution.
    RIVULET_ASSIGN_OR_RETURN(adapter.a, PyTorchLayoutOf(graph, handle, Tensor(DType::kFloat32, a)));
    return adapter;
  }
  adapter.a = Turned(a, {1, 0}, Shape{ours.rank, a.dim(0)});
  // A kernel named after its layer is a Linear in PEFT, [out, in]; an imported one has its original layout.
  const bool as_there = ours.variable.find('/') == std::string::npos;
  const bool swapped = stored != nullptr && *stored == std::vector<int64_t>{1, 0};
  adapter.fan_in_fan_out = as_there && in_first != swapped;
  return adapter;
}

StatusOr<std::vector<PeftAdapter>> PeftAdaptersOf(const ModelSource& source) {
  std::vector<PeftAdapter> adapters;
  for (const LoraAdapter& ours : LoraAdaptersOf(source.model.graph)) {
    RIVULET_ASSIGN_OR_RETURN(PeftAdapter adapter, PeftAdapterOf(source.model.graph, ours));
    adapters.push_back(std::move(adapter));
  }
  if (!adapters.empty()) return adapters;
  return UsageError("{} has no adapters; give its scenario a table [model.lora]", source.title);
}

const Tensor* FindWeight(const NamedWeights& weights, std::string_view name) {
  const auto found = std::ranges::find(weights, name, &NamedWeights::value_type::first);
  return found == weights.end() ? nullptr : &found->second;
}

// Trained variables without adapters belong to modules that PEFT saves whole.
struct SavedModule {
  std::string variable, name;
  PyTorchLayout layout;
};

StatusOr<std::vector<SavedModule>> SavedModulesOf(const ModelSource& source, const NamedWeights& weights) {
  std::set<std::string> adapters;
  for (const LoraAdapter& adapter : LoraAdaptersOf(source.model.graph)) adapters.insert({adapter.a, adapter.b});
  std::vector<SavedModule> saved;
  for (const ModelVariable& variable : source.model.variables) {
    if (variable.segment == "frozen" || adapters.contains(variable.name)) continue;
    const Tensor* const value = FindWeight(weights, variable.name);
    if (value == nullptr) continue;
    RIVULET_ASSIGN_OR_RETURN(
        PyTorchLayout layout,
        PyTorchLayoutOf(source.model.graph, FindHandle(source.model.graph, variable.name), *value));
    saved.push_back({variable.name, fmt::format("{}{}", kPeftPrefix, PyTorchName(variable.name)), std::move(layout)});
  }
  return saved;
}

Json ConfigOf(const ModelSource& source, const std::vector<PeftAdapter>& adapters,
              const std::vector<SavedModule>& saved) {
  const LoraAdapter& first = adapters[0].ours;
  std::set<std::string> targets, modules;
  for (const PeftAdapter& adapter : adapters) targets.insert(adapter.module);
  for (const SavedModule& module : saved) modules.insert(ModuleOf(module.variable));
  const double alpha = first.scale * static_cast<double>(first.rank);
  const bool whole = alpha == std::nearbyint(alpha);
  const bool language = source.model.label.spec.shape.known_rank() && source.model.label.spec.shape.rank() == 2;
  Json config = {{"peft_type", "LORA"},
                 {"task_type", language ? Json("CAUSAL_LM") : Json()},
                 {"r", first.rank},
                 {"lora_alpha", whole ? Json(static_cast<int64_t>(alpha)) : Json(alpha)},
                 {"lora_dropout", first.dropout},
                 {"target_modules", Json(targets)},
                 {"bias", "none"},
                 {"base_model_name_or_path", Json()},
                 {"inference_mode", true},
                 {"fan_in_fan_out", std::ranges::all_of(adapters, &PeftAdapter::fan_in_fan_out)}};
  if (!modules.empty()) config["modules_to_save"] = Json(modules);
  return config;
}

Status WritePeft(const ExportRequest& request) {
  const ModelSource& source = request.source;
  RIVULET_ASSIGN_OR_RETURN(const std::vector<PeftAdapter> adapters, PeftAdaptersOf(source));
  RIVULET_ASSIGN_OR_RETURN(const NamedWeights weights, source.weights());
  RIVULET_ASSIGN_OR_RETURN(const std::vector<SavedModule> saved, SavedModulesOf(source, weights));
  NamedWeights theirs;
  const auto add = [&](const std::string& name, const std::string& variable, const PyTorchLayout& layout) -> Status {
    const Tensor* const value = FindWeight(weights, variable);
    if (value == nullptr) return FailedPrecondition("{} has no value of '{}'", source.title, variable);
    theirs.emplace_back(name, Rearranged(*value, layout));
    return absl::OkStatus();
  };
  for (const PeftAdapter& adapter : adapters) {
    RIVULET_RETURN_IF_ERROR(add(adapter.a_name, adapter.ours.a, adapter.a));
    RIVULET_RETURN_IF_ERROR(add(adapter.b_name, adapter.ours.b, adapter.b));
  }
  for (const SavedModule& module : saved) RIVULET_RETURN_IF_ERROR(add(module.name, module.variable, module.layout));

  FileSystem& files = FileSystem::Default();
  RIVULET_RETURN_IF_ERROR(files.CreateFolders(request.out));
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, tensor] : theirs)
    entries.push_back({name, tensor.dtype(), tensor.shape(), {tensor.data(), tensor.bytes()}});
  RIVULET_ASSIGN_OR_RETURN(const std::string bytes, SerializeSafetensors(entries, {{"format", "pt"}}));
  RIVULET_RETURN_IF_ERROR(WriteFileAtomically(files, JoinPath(request.out, kPeftWeights), bytes));
  const std::string config = ConfigOf(source, adapters, saved).Dump(2) + "\n";
  RIVULET_RETURN_IF_ERROR(WriteFileAtomically(files, JoinPath(request.out, kPeftConfig), config));
  const Fields fields = {{"adapter", request.out},
                         {"modules", std::ssize(adapters)},
                         {"saved", std::ssize(saved)},
                         {"bytes", static_cast<int64_t>(bytes.size())}};
  fmt::print("{}", request.json ? JsonObject(fields) + "\n" : FieldLines(fields));
  return absl::OkStatus();
}

// The inverse, to a variable of shape `ours`.
PyTorchLayout Inverse(const PyTorchLayout& layout, const Shape& ours) {
  std::vector<int64_t> dims, back(layout.axes.size());
  for (size_t i = 0; i < layout.axes.size(); ++i) {
    dims.push_back(layout.from.dim(static_cast<int>(layout.axes[i])));
    back[static_cast<size_t>(layout.axes[i])] = static_cast<int64_t>(i);
  }
  return {Shape(std::move(dims)), std::move(back), ours};
}

struct PeftConfig {
  int64_t rank = 0;
  double scale = 0;
};

StatusOr<PeftConfig> ReadPeftConfig(const std::string& path) {
  RIVULET_ASSIGN_OR_RETURN(const std::string bytes, FileSystem::Default().ReadAll(path));
  const StatusOr<Json> json = Json::Parse(bytes);
  if (!json.ok()) return Annotate(json.status(), path);
  if (json->At("peft_type").text() != "LORA")
    return InvalidArgument("{}: peft_type is {}, and only \"LORA\" is read", path, json->At("peft_type").Dump());
  for (const char* pattern : {"rank_pattern", "alpha_pattern"})
    if (json->At(pattern).size() > 0)
      return InvalidArgument("{}: {} gives modules ranks or scales of their own, and model.lora has one for all", path,
                             pattern);
  if (json->At("use_dora").IsTrue()) return InvalidArgument("{}: use_dora is true, and DoRA is not read", path);
  if (const Json* bias = json->Find("bias"); bias != nullptr && bias->text() != "none")
    return InvalidArgument("{}: bias is {}, and only \"none\" is read; save it with modules_to_save", path,
                           bias->Dump());
  PeftConfig config{.rank = json->At("r").integer()};
  if (config.rank < 1) return InvalidArgument("{}: r is {}, which is no rank", path, json->At("r").Dump());
  const auto rank = static_cast<double>(config.rank);
  config.scale = json->At("lora_alpha").number() / (json->At("use_rslora").IsTrue() ? std::sqrt(rank) : rank);
  return config;
}

Status ReadPeft(const ImportRequest& request) {
  if (!request.shapes.empty() || !request.values.empty())
    return UsageError("{} is an adapter and has no inputs for --shape and --value; leave them out", request.file);
  if (request.like.empty())
    return UsageError(
        "{} is an adapter without its model; name the scenario or run of the model, whose [model.lora] "
        "has the same targets, with --like",
        request.file);
  if (!request.out.ends_with(".safetensors"))
    return UsageError(
        "an adapter becomes weights for model.weights; give --out the name of a .safetensors file, not "
        "'{}'",
        request.out);
  RIVULET_ASSIGN_OR_RETURN(const ModelSource source, LoadModelSource({.what = request.like}));
  RIVULET_ASSIGN_OR_RETURN(const std::vector<PeftAdapter> adapters, PeftAdaptersOf(source));
  RIVULET_ASSIGN_OR_RETURN(NamedWeights weights, source.weights());
  RIVULET_ASSIGN_OR_RETURN(const std::vector<SavedModule> saved, SavedModulesOf(source, weights));
  const std::string config_path = JoinPath(request.file, kPeftConfig);
  RIVULET_ASSIGN_OR_RETURN(const PeftConfig config, ReadPeftConfig(config_path));
  const LoraAdapter& first = adapters[0].ours;
  if (config.rank != first.rank)
    return InvalidArgument("{}: r is {}, and model.lora.rank is {}", config_path, config.rank, first.rank);
  if (std::abs(config.scale - first.scale) > 1e-6 * first.scale)
    return InvalidArgument("{}: its products count {}, and those of model.lora {}; set model.lora.alpha to {}",
                           config_path, config.scale, first.scale, config.scale * static_cast<double>(config.rank));

  const std::string path = JoinPath(request.file, kPeftWeights);
  RIVULET_ASSIGN_OR_RETURN(const NamedWeights theirs, ReadSafetensors(path));
  std::set<std::string, std::less<>> taken;
  const auto take = [&](const std::string& name, const std::string& variable, const PyTorchLayout& layout) -> Status {
    const Tensor* const value = FindWeight(theirs, name);
    if (value == nullptr)
      return NotFound(
          "{} has no '{}', which is the adapter of '{}' there; model.lora.targets of {} may name another "
          "module",
          path, name, variable, request.like);
    if (value->dtype() != DType::kFloat32 || value->shape() != layout.to)
      return InvalidArgument("{}: '{}' is {}{}, and float32{} belongs there", path, name, Name(value->dtype()),
                             value->shape().ToString(), layout.to.ToString());
    taken.insert(name);
    for (auto& [ours, tensor] : weights)
      if (ours == variable) tensor = Rearranged(*value, Inverse(layout, tensor.shape()));
    return absl::OkStatus();
  };
  for (const PeftAdapter& adapter : adapters) {
    RIVULET_RETURN_IF_ERROR(take(adapter.a_name, adapter.ours.a, adapter.a));
    RIVULET_RETURN_IF_ERROR(take(adapter.b_name, adapter.ours.b, adapter.b));
  }
  for (const SavedModule& module : saved) RIVULET_RETURN_IF_ERROR(take(module.name, module.variable, module.layout));
  for (const auto& [name, tensor] : theirs)
    if (!taken.contains(name))
      return InvalidArgument(
          "{}: '{}' belongs to no adapter of {}; name its variable in model.lora.targets or "
          "modules_to_save",
          path, name, request.like);
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, tensor] : weights)
    entries.push_back({name, tensor.dtype(), tensor.shape(), {tensor.data(), tensor.bytes()}});
  RIVULET_ASSIGN_OR_RETURN(const std::string bytes, SerializeSafetensors(entries, {{"format", "rivulet"}}));
  RIVULET_RETURN_IF_ERROR(WriteFileAtomically(FileSystem::Default(), request.out, bytes));
  const Fields fields = {{"weights", request.out}, {"tensors", std::ssize(weights)}, {"modules", std::ssize(adapters)}};
  fmt::print("{}", request.json ? JsonObject(fields) + "\n" : FieldLines(fields));
  return absl::OkStatus();
}

const RegisterModelFormat kPeft({.name = "peft",
                                 .endings = {},
                                 .doc = "the adapters of [model.lora] as a folder that PEFT opens",
                                 .write = WritePeft,
                                 .read = ReadPeft});

}  // namespace
}  // namespace rivulet
