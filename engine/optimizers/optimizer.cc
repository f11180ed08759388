#include "engine/optimizers/optimizer.h"

#include <array>
#include <cmath>

#include "engine/base/nearest.h"
#include "engine/gradients/indexed_slices.h"
#include "engine/graph/variable_name.h"

namespace rivulet {
namespace {

using Kind = OptimizerSpec::Kind;

constexpr std::array<std::pair<std::string_view, Kind>, 8> kNames = {{{"sgd", Kind::kSgd},
                                                                      {"momentum", Kind::kMomentum},
                                                                      {"adagrad", Kind::kAdagrad},
                                                                      {"rmsprop", Kind::kRmsProp},
                                                                      {"adam", Kind::kAdam},
                                                                      {"adamw", Kind::kAdamW},
                                                                      {"adadelta", Kind::kAdadelta},
                                                                      {"yogi", Kind::kYogi}}};

Output ScalarOf(const Scope& scope, DType dtype, double value, std::string_view name) {
  return dtype == DType::kFloat64 ? scope.Const(Tensor::Scalar(value), name)
                                  : scope.Const(static_cast<float>(value), name);
}

Status CheckShare(std::string_view what, double value) {
  if (value >= 0 && value < 1) return absl::OkStatus();
  return InvalidArgument("{} must be in [0, 1), but is {}", what, value);
}

}  // namespace

OptimizerSpec OptimizerSpec::Of(Kind kind) {
  OptimizerSpec spec;
  spec.kind = kind;
  switch (kind) {
    case Kind::kRmsProp:
      spec.momentum = 0;
      spec.epsilon = 1e-7;
      break;
    case Kind::kAdagrad:
      spec.epsilon = 1e-10;
      break;
    case Kind::kAdadelta:
      spec.epsilon = 1e-6;
      break;
    case Kind::kYogi:
      spec.epsilon = 1e-3;
      spec.initial_accumulator = 1e-6;
      break;
    case Kind::kAdamW:
      spec.weight_decay = 0.01;
      break;
    default:
      break;
  }
  return spec;
}

std::string_view Name(Kind kind) {
  for (const auto& [name, known] : kNames)
    if (known == kind) return name;
  return "?";
}

StatusOr<Kind> OptimizerByName(std::string_view name) {
  std::vector<std::string> names;
  for (const auto& [known, kind] : kNames) {
    if (known == name) return kind;
    names.emplace_back(known);
  }
  return NotFound("there is no optimizer '{}'.{} Optimizers are {}", name, DidYouMean(name, names),
                  fmt::join(names, ", "));
}

Status CheckOptimizer(const OptimizerSpec& o) {
  if (!std::isfinite(o.learning_rate) || o.learning_rate < 0)
    return InvalidArgument("the learning rate must be finite and not negative, but is {}", o.learning_rate);
  if (!std::isfinite(o.weight_decay) || o.weight_decay < 0)
    return InvalidArgument("weight decay must be finite and not negative, but is {}", o.weight_decay);
  if (o.kind == Kind::kMomentum || o.kind == Kind::kRmsProp)
    RIVULET_RETURN_IF_ERROR(CheckShare("momentum", o.momentum));
  if (o.kind == Kind::kRmsProp || o.kind == Kind::kAdadelta) RIVULET_RETURN_IF_ERROR(CheckShare("rho", o.rho));
  if (CorrectsBias(o)) {
    RIVULET_RETURN_IF_ERROR(CheckShare("beta1", o.beta1));
    RIVULET_RETURN_IF_ERROR(CheckShare("beta2", o.beta2));
  }
  // Elements whose gradient is always zero, such as padding, would be divided by zero.
  if (o.kind != Kind::kSgd && o.kind != Kind::kMomentum && !(o.epsilon > 0 && std::isfinite(o.epsilon)))
    return InvalidArgument("epsilon must be positive, but is {}", o.epsilon);
  if ((o.kind == Kind::kAdagrad || o.kind == Kind::kYogi) &&
      !(o.initial_accumulator >= 0 && std::isfinite(o.initial_accumulator)))
    return InvalidArgument("the initial accumulator must be finite and not negative, but is {}", o.initial_accumulator);
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
