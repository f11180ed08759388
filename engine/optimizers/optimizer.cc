#include "engine/optimizers/optimizer.h"

#include <algorithm>
#include <iterator>

#include "engine/base/check.h"
#include "engine/base/join.h"
#include "engine/base/nearest.h"
#include "engine/gradients/indexed_slices.h"
#include "engine/graph/variable_name.h"
#include "engine/optimizers/settings/optimizer_settings.h"

namespace rivulet {
namespace {

using Kind = OptimizerSpec::Kind;

const OptimizerTable& TableOf(Kind kind) { return OptimizerTables()[static_cast<size_t>(kind)]; }

// Where a setting of the tables lives: a number or a flag.
struct SpecField {
  std::string_view setting;
  double OptimizerSpec::*number = nullptr;
  bool OptimizerSpec::*flag = nullptr;
};
constexpr SpecField kSpecFields[] = {{"learning_rate", &OptimizerSpec::learning_rate},
                                     {"momentum", &OptimizerSpec::momentum},
                                     {"nesterov", nullptr, &OptimizerSpec::nesterov},
                                     {"rho", &OptimizerSpec::rho},
                                     {"centered", nullptr, &OptimizerSpec::centered},
                                     {"beta1", &OptimizerSpec::beta1},
                                     {"beta2", &OptimizerSpec::beta2},
                                     {"epsilon", &OptimizerSpec::epsilon},
                                     {"initial_accumulator", &OptimizerSpec::initial_accumulator},
                                     {"weight_decay", &OptimizerSpec::weight_decay}};

const SpecField& FieldOf(const Setting& setting) {
  const auto field =
      std::ranges::find_if(kSpecFields, [&](const SpecField& each) { return each.setting == setting.name; });
  RIVULET_CHECK(field != std::end(kSpecFields), "'{}' is no field of OptimizerSpec", setting.name);
  return *field;
}

Output ScalarOf(const Scope& scope, DType dtype, double value, std::string_view name) {
  return dtype == DType::kFloat64 ? scope.Const(Tensor::Scalar(value), name)
                                  : scope.Const(static_cast<float>(value), name);
}

}  // namespace

OptimizerSpec OptimizerSpec::Of(Kind kind) {
  OptimizerSpec spec;
  spec.kind = kind;
  for (const Setting& setting : TableOf(kind).settings) {
    const SpecField& field = FieldOf(setting);
    if (field.number != nullptr) {
      spec.*field.number = std::get<double>(*setting.default_value);
    } else {
      spec.*field.flag = std::get<bool>(*setting.default_value);
    }
  }
  return spec;
}

OptimizerSpec OptimizerSpec::Of(Kind kind, const Settings& settings) {
  OptimizerSpec spec;
  spec.kind = kind;
  for (const Setting& setting : TableOf(kind).settings) {
    const SpecField& field = FieldOf(setting);
    if (field.number != nullptr) {
      spec.*field.number = settings.number(setting.name);
    } else {
      spec.*field.flag = settings.flag(setting.name);
    }
  }
  return spec;
}

std::string_view Name(Kind kind) { return TableOf(kind).name; }

StatusOr<Kind> OptimizerByName(std::string_view name) {
  std::vector<std::string> names;
  for (const OptimizerTable& table : OptimizerTables()) {
    if (table.name == name) return static_cast<Kind>(names.size());
    names.push_back(table.name);
  }
  return NotFound("there is no optimizer '{}'.{} Optimizers are {}", name, DidYouMean(name, names), Join(names, ", "));
}

Status CheckOptimizer(const OptimizerSpec& optimizer) {
  for (const Setting& setting : TableOf(optimizer.kind).settings) {
    const SpecField& field = FieldOf(setting);
    if (field.number != nullptr) RIVULET_RETURN_IF_ERROR(setting.Take(optimizer.*field.number, setting.name).status());
  }
  return absl::OkStatus();
}

std::vector<OptimizerSlot> SlotsOf(const OptimizerSpec& o) {
  switch (o.kind) {
    case Kind::kSgd:
      return {};
    case Kind::kMomentum:
      return {{"Momentum"}};
    case Kind::kAdagrad:
      return {{"accumulator", o.initial_accumulator}};
    case Kind::kAdadelta:
      return {{"accumulator"}, {"accumulated_updates"}};
    case Kind::kRmsProp:
      if (o.centered) return {{"mean_gradient"}, {"mean_square"}, {"Momentum"}};
      return {{"mean_square"}, {"Momentum"}};
    case Kind::kAdam:
    case Kind::kAdamW:
      return {{"m"}, {"v"}};
    case Kind::kYogi:
      return {{"m", 0}, {"v", o.initial_accumulator}};
  }
  return {};
}

bool CorrectsBias(const OptimizerSpec& o) {
  return o.kind == Kind::kAdam || o.kind == Kind::kAdamW || o.kind == Kind::kYogi;
}

double OptimizerUpdates::Beta(double beta, DType dtype) {
  return dtype == DType::kFloat64 ? beta : static_cast<double>(static_cast<float>(beta));
}

Output OptimizerUpdates::Scalar(double value, std::string_view name) { return ScalarOf(scope_, dtype_, value, name); }

OptimizerUpdates::OptimizerUpdates(const Scope& scope, const OptimizerSpec& optimizer, DType dtype,
                                   Output learning_rate, Output beta1_power, Output beta2_power)
    : scope_(scope), optimizer_(optimizer), dtype_(dtype), learning_rate_(learning_rate) {
  switch (optimizer.kind) {
    case Kind::kSgd:
      break;
    case Kind::kMomentum:
      momentum_ = Scalar(optimizer.momentum, "momentum");
      break;
    case Kind::kAdagrad:
      epsilon_ = Scalar(optimizer.epsilon, "epsilon");
      break;
    case Kind::kRmsProp:
      momentum_ = Scalar(optimizer.momentum, "momentum");
      [[fallthrough]];
    case Kind::kAdadelta:
      rho_ = Scalar(optimizer.rho, "rho");
      epsilon_ = Scalar(optimizer.epsilon, "epsilon");
      break;
    case Kind::kAdam:
    case Kind::kAdamW:
    case Kind::kYogi: {
      // TensorFlow's op corrects the bias by its beta powers, of its own type: in float32, 1 − 0.999 has lost two
      // digits and more. So the correction is made here in float64, and the op gets powers that correct nothing.
      // Epsilon is that of the paper's algorithm, behind the correction, where the op's stands before it.
      const auto wide = [&](double value, std::string_view name) { return scope_.Const(Tensor::Scalar(value), name); };
      const auto narrow = [&](Output value) {
        return dtype_ == DType::kFloat64 ? value : scope_.Op("Cast", {value}, {{"DstT", dtype_}});
      };
      const Output one = wide(1, "one");
      const Output first = scope_.Op("Sub", {one, beta1_power});
      const Output second = scope_.Op("Sqrt", {scope_.Op("Sub", {one, beta2_power})});
      const Output rate =
          dtype_ == DType::kFloat64 ? learning_rate : scope_.Op("Cast", {learning_rate}, {{"DstT", DType::kFloat64}});
      learning_rate_ = narrow(scope_.Op("RealDiv", {scope_.Op("Mul", {rate, second}), first}));
      epsilon_ = narrow(scope_.Op("Mul", {wide(optimizer.epsilon, "epsilon"), second}));
      if (optimizer.kind == Kind::kAdamW) {
        // The op decays by its learning rate, which is now the corrected one.
        const Output decay = wide(optimizer.weight_decay, "weight_decay");
        weight_decay_ = narrow(scope_.Op("RealDiv", {scope_.Op("Mul", {decay, first}), second}));
      }
      beta1_ = Scalar(optimizer.beta1, "beta1");
      beta2_ = Scalar(optimizer.beta2, "beta2");
      no_power_ = Scalar(0, "no_power");
      break;
    }
  }
  if (optimizer.kind != Kind::kAdamW && optimizer.weight_decay > 0)
    weight_decay_ = Scalar(optimizer.weight_decay, "weight_decay");
}

Node* OptimizerUpdates::Update(Output variable, std::span<const Output> slots, Output gradient, std::string_view name) {
  const OptimizerSpec& o = optimizer_;
  if (o.kind != Kind::kAdamW && o.weight_decay > 0) {
    const Output value = scope_.Op("ReadVariableOp", {variable}, {{"dtype", dtype_}});
    gradient = scope_.Op("AddV2", {gradient, scope_.Op("Mul", {value, weight_decay_})});
  }
  std::vector<Output> inputs = {variable};
  inputs.insert(inputs.end(), slots.begin(), slots.end());
  const auto add = [&](std::string_view op, std::initializer_list<Output> rest, AttrMap attrs = {}) {
    inputs.insert(inputs.end(), rest);
    return scope_.AddNode(op, inputs, std::move(attrs), name);
  };
  // Where rows without gradient would stay as they are, a sparse gradient need not be made dense.
  if (const auto rows = AsIndexedSlices(gradient)) {
    if (o.kind == Kind::kSgd)
      return add("ResourceSparseApplyGradientDescent", {learning_rate_, rows->values, rows->indices});
    if (o.kind == Kind::kAdagrad)
      return add("ResourceSparseApplyAdagradV2", {learning_rate_, epsilon_, rows->values, rows->indices});
  }
  switch (o.kind) {
    case Kind::kSgd:
      return add("ResourceApplyGradientDescent", {learning_rate_, gradient});
    case Kind::kMomentum:
      return add("ResourceApplyMomentum", {learning_rate_, gradient, momentum_}, {{"use_nesterov", o.nesterov}});
    case Kind::kAdagrad:
      return add("ResourceApplyAdagradV2", {learning_rate_, epsilon_, gradient});
    case Kind::kAdadelta:
      return add("ResourceApplyAdadelta", {learning_rate_, rho_, epsilon_, gradient});
    case Kind::kRmsProp:
      return add(o.centered ? "ResourceApplyCenteredRMSProp" : "ResourceApplyRMSProp",
                 {learning_rate_, rho_, momentum_, epsilon_, gradient});
    case Kind::kAdam:
      return add("ResourceApplyAdam", {no_power_, no_power_, learning_rate_, beta1_, beta2_, epsilon_, gradient});
    case Kind::kAdamW:
      return add("ResourceApplyAdamW",
                 {no_power_, no_power_, learning_rate_, beta1_, beta2_, epsilon_, weight_decay_, gradient});
    case Kind::kYogi:
      return add("ResourceApplyYogi", {no_power_, no_power_, learning_rate_, beta1_, beta2_, epsilon_, gradient});
  }
  return nullptr;
}

}  // namespace rivulet
