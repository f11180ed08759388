#include <array>

#include "engine/base/join.h"
#include "engine/base/nearest.h"
#include "engine/layers/activations.h"
#include "engine/layers/layers.h"

namespace rivulet {
namespace {

struct NamedActivation {
  std::string_view name;
  Output (*apply)(const Scope& scope, Output x);
};

template <const char* kOp>
Output ByOp(const Scope& scope, Output x) {
  return scope.Op(kOp, {x});
}

constexpr char kRelu[] = "Relu", kTanh[] = "Tanh", kSigmoid[] = "Sigmoid", kSoftmax[] = "Softmax",
               kSoftplus[] = "Softplus", kExp[] = "Exp", kRelu6[] = "Relu6", kElu[] = "Elu", kSelu[] = "Selu",
               kGelu[] = "Gelu", kSoftsign[] = "Softsign", kLeakyRelu[] = "LeakyRelu";

constexpr NamedActivation kActivations[] = {
    {"linear", [](const Scope&, Output x) { return x; }},
    {"relu", ByOp<kRelu>},
    {"tanh", ByOp<kTanh>},
    {"sigmoid", ByOp<kSigmoid>},
    {"softmax", ByOp<kSoftmax>},
    {"softplus", ByOp<kSoftplus>},
    {"exponential", ByOp<kExp>},
    {"relu6", ByOp<kRelu6>},
    {"leaky_relu", ByOp<kLeakyRelu>},
    {"elu", ByOp<kElu>},
    {"selu", ByOp<kSelu>},
    {"gelu", ByOp<kGelu>},
    {"softsign", ByOp<kSoftsign>},
    {"swish", Swish},
    {"hard_swish", HardSwish},
    {"mish", Mish},
};

}  // namespace

std::vector<std::string> ActivationNames() {
  std::vector<std::string> names;
  for (const NamedActivation& activation : kActivations) names.emplace_back(activation.name);
  return names;
}

Output Activate(const Scope& scope, Output x, std::string_view activation) {
  if (activation.empty() || !x) return x;
  for (const NamedActivation& known : kActivations)
    if (known.name == activation) return known.apply(scope, x);
  scope.Fail(NotFound("there is no activation '{}'.{} Activations are {}", activation,
                      DidYouMean(activation, ActivationNames()), Join(ActivationNames(), ", ")));
  return {};
}

}  // namespace rivulet
