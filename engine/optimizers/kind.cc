#include "engine/optimizers/kind.h"

#include <map>
#include <utility>

#include "engine/base/join.h"
#include "engine/base/nearest.h"

namespace rivulet {
namespace {

// Created at first use and never destroyed, because registrations in other files run before main in unknown order.
std::map<std::string, OptimizerKind, std::less<>>& Kinds() {
  static auto* const kinds = new std::map<std::string, OptimizerKind, std::less<>>;
  return *kinds;
}

Setting WeightDecay(const OptimizerKind& kind) {
  const char* const doc = kind.decays_itself ? "Multiplies w by 1 − learning_rate · weight_decay in every step."
                                             : "Adds weight_decay · w to the gradient, after clipping.";
  Setting decay = Float("weight_decay", kind.weight_decay, doc).Between(0, 1e6);
  decay.example = "0.0001";
  return decay;
}

}  // namespace

Output UpdateScope::Constant(double value, std::string_view name) const {
  return dtype_ == DType::kFloat64 ? scope_.Const(Tensor::Scalar(value), name)
                                   : scope_.Const(static_cast<float>(value), name);
}

Output UpdateScope::Widened(Output value) const {
  return dtype_ == DType::kFloat64 ? value : scope_.Op("Cast", {value}, {{"DstT", DType::kFloat64}});
}

Output UpdateScope::Narrowed(Output value) const {
  return dtype_ == DType::kFloat64 ? value : scope_.Op("Cast", {value}, {{"DstT", dtype_}});
}

Node* VariableUpdate::Apply(std::string_view op, std::initializer_list<Output> rest, AttrMap attrs) const {
  std::vector<Output> inputs = {variable};
  inputs.insert(inputs.end(), slots.begin(), slots.end());
  inputs.insert(inputs.end(), rest);
  return scope.AddNode(op, inputs, std::move(attrs), name);
}

StatusOr<const OptimizerKind*> FindOptimizer(std::string_view name) {
  const auto found = Kinds().find(name);
  if (found != Kinds().end()) return &found->second;
  std::vector<std::string> names;
  for (const auto& [known, kind] : Kinds()) names.push_back(known);
  return NotFound("there is no optimizer '{}'.{} Optimizers are {}", name, DidYouMean(name, names), Join(names, ", "));
}

OptimizerRegistration::OptimizerRegistration(OptimizerKind kind) {
  std::vector<Setting> settings = {Float("learning_rate", 0.01, "Step length.").Between(0, 1e6)};
  settings.insert(settings.end(), kind.settings.begin(), kind.settings.end());
  settings.push_back(WeightDecay(kind));
  kind.settings = settings;
  RegisterOptimizerTable({kind.name, kind.doc, std::move(settings)});
  const std::string name = kind.name;
  Kinds().emplace(name, std::move(kind));
}

}  // namespace rivulet
