// Per-FedAvg (Fallah et al. 2020, arXiv:2002.07948, algorithm 1), first order (FO, section 5) and Hessian-free (HF): a
// model from which each client reaches a good personal model by one step of gradient descent,
//
//   min over w:  (1 / K) · Σ_k F_k(w − alpha · ∇F_k(w))
//
// A local step takes two consecutive batches of the client, D and D':
//
//   w̃ = w − alpha · ∇F_k(w; D),    w ← w − β · ∇F_k(w̃; D')
//
// with β = client.optimizer.learning_rate, which omits the factor I − alpha · ∇²F_k(w) of the gradient. With
// hessian_step = δ a third batch D'' approximates that factor: with g = ∇F_k(w̃; D'),
//
//   w ← w − β · (g − alpha · (∇F_k(w + δ · g; D'') − ∇F_k(w − δ · g; D'')) / (2 · δ))
//
// Remaining batches at the end have no effect. With alpha = 0 every other batch has no effect, and the rest is
// federated averaging with uniform weights: to the bit if all batches are full and client.epochs is doubled.
// evaluation.fine_tune_epochs measures the clients' personal models.
#include "federated/algorithms/algorithm.h"
#include "federated/plan/learning_rate.h"
#include "federated/plan/number.h"

namespace rivulet {
namespace {

// The model before the look-ahead step; whether that step was taken, 0 or 1.
constexpr char kBefore[] = "slots/0", kAhead[] = "scalars/0";
// Hessian-free: the gradient g at the look-ahead model; the model w − δ · g, while params has w + δ · g. kAhead then
// counts the batches of a step that were seen.
constexpr char kDirection[] = "slots/1", kAgainst[] = "slots/2";

Setting InnerRate() {
  Setting alpha = Float("alpha", 0.01, "Length of the step from the common model to a client's own.").Between(0, 1e3);
  alpha.example = "0.1";
  return alpha;
}

Setting Probe() {
  Setting probe = Float("hessian_step", 0,
                        "Distance of the gradients on either side for the Hessian's product (the paper's delta, "
                        "Hessian-free); 0: first order, without the Hessian.")
                      .Between(0, 1e3);
  probe.example = "0.01";
  return probe;
}

Output AsFloat(FlatScope& f, Output number) { return f.scope().Op("Cast", {number}, {{"DstT", DType::kFloat32}}); }

// Returns `from` if `which` is 0, and `to` if it is 1.
Output Choose(FlatScope& f, Output which, Output from, Output to) {
  const Output other = f.scope().Op("Sub", {f.scope().Const(1.0f, "one"), which});
  return f.Add(f.scope().Op("Mul", {from, other}), f.scope().Op("Mul", {to, which}));
}

Status CheckPlainSteps(const ClientConfig& client) {
  const OptimizerConfig& optimizer = client.optimizer;
  if (optimizer.kind == "sgd" && optimizer.weight_decay() == 0 && optimizer.clip_norm == 0 &&
      optimizer.clip_value == 0 && optimizer.learning_rate > 0 && IsConstant(client.schedule)) {
    return absl::OkStatus();
  }
  return InvalidArgument(
      "[algorithm] name = \"per_fedavg\" goes a step ahead and back: it needs client.optimizer.kind = \"sgd\" with a "
      "learning_rate above 0 and without weight_decay, clip_norm and clip_value, and no client.schedule");
}

// 1 if `number` equals `which`, else 0.
Output Is(FlatScope& f, Output number, double which) {
  return AsFloat(f, f.scope().Op("Equal", {number, Number(f.scope(), which)}));
}

// A local step of three batches. The first moves params by alpha against its gradient; there the second computes g.
// Then params becomes w + δ · g, and another model w − δ · g. The third evaluates both, and params moves from w by the
// result. The optimiser subtracts the value of pass.gradient times beta.
void AddHessianFreeStep(double alpha, double beta, double probe, PassBuilder& pass) {
  pass.own = {.slots = 3, .scalars = 1};
  pass.models = {{}, {.prefix = "against", .buffer = kAgainst}};
  pass.also_by = kAgainst;
  pass.gradient = [=](FlatScope& f) {
    const Output params = f.params(), grads = f.grads(), began = f.Read(kBefore), ahead = f.Read(kDirection);
    const Output now = f.Read(kAhead), first = Is(f, now, 0), second = Is(f, now, 1), third = Is(f, now, 2);
    const auto times = [&f](Output factor, Output vector) { return f.scope().Op("Mul", {vector, factor}); };
    const Output from = Choose(f, first, began, params), along = Choose(f, second, ahead, grads);
    const Output curved = f.Scale(alpha / (2 * probe), f.Sub(grads, f.Read("other_grads")));
    const Output to = f.Add(
        f.Add(times(first, f.Sub(from, f.Scale(alpha, grads))), times(second, f.Add(from, f.Scale(probe, along)))),
        times(third, f.Sub(from, f.Scale(beta, f.Sub(along, curved)))));
    f.Assign(kBefore, from);
    f.Assign(kDirection, along);
    f.Assign(kAgainst, f.Sub(from, f.Scale(probe, along)));
    f.Assign(kAhead, f.scope().Op("Cast", {f.Add(first, f.Add(second, second))}, {{"DstT", DType::kFloat64}}));
    return f.Scale(1 / beta, f.Sub(params, to));
  };
  pass.at_end = [](FlatScope& f) {
    f.Assign("params", Choose(f, Is(f, f.Read(kAhead), 0), f.Read(kBefore), f.params()));
  };
}

StatusOr<Composition> PerFedAvg(const AlgorithmContext& context) {
  const ClientConfig& client = context.scenario.client;
  RIVULET_RETURN_IF_ERROR(CheckPlainSteps(client));
  RIVULET_ASSIGN_OR_RETURN(Composition composition, FedAvg(context));
  PassBuilder& pass = composition.passes[0];
  pass.own = {.slots = 1, .scalars = 1};
  // The optimiser subtracts this times β: the first of two steps moves ahead by alpha; the second returns to the start
  // and moves from there by β times its gradient.
  pass.gradient = [alpha = context.settings.number("alpha"), beta = client.optimizer.learning_rate](FlatScope& f) {
    const Output params = f.params(), grads = f.grads(), before = f.Read(kBefore), now = f.Read(kAhead);
    const Output ahead = AsFloat(f, now);
    f.Assign(kAhead, f.Sub(f.scope().Op("OnesLike", {now}), now));
    f.Assign(kBefore, Choose(f, ahead, params, before));
    const Output back = f.Scale(1 / beta, f.Sub(params, before));
    return Choose(f, ahead, f.Scale(alpha / beta, grads), f.Add(grads, back));
  };
  pass.at_end = [](FlatScope& f) {
    f.Assign("params", Choose(f, AsFloat(f, f.Read(kAhead)), f.params(), f.Read(kBefore)));
  };
  if (const double probe = context.settings.number("hessian_step"); probe > 0) {
    AddHessianFreeStep(context.settings.number("alpha"), client.optimizer.learning_rate, probe, pass);
  }
  composition.aggregation.parts = {
      {.value_bits = static_cast<int>(context.scenario.server.value_bits), .weigh = "one"}};
  return composition;
}

RIVULET_ALGORITHM(
    per_fedavg_registration, "per_fedavg",
    "Fallah et al. 2020, arXiv:2002.07948, algorithm 1, first order and Hessian-free",
    "Meta-learning: a model from which each client comes to its own by one step of gradient descent. A local step "
    "takes two batches: by the first it looks `alpha` ahead, and by the gradient of the second there it goes. All "
    "clients count the same. Needs `client.optimizer.kind` \"sgd\"; `evaluation.fine_tune_epochs` measures the "
    "clients' own models.",
    {InnerRate(), Probe()}, PerFedAvg,
    "w̃ = w_k − alpha · ∇F_k(w_k; D)\n"
    "w_k ← w_k − client.optimizer.learning_rate · (∇F_k(w̃; D') − alpha · h),  h = 0, or Hessian-free with g = "
    "∇F_k(w̃; D')\n"
    "h = (∇F_k(w_k + hessian_step · g; D'') − ∇F_k(w_k − hessian_step · g; D'')) / (2 · hessian_step)\n"
    "w ← w + server.learning_rate · (1 / K) · Σ_k (w_k − w)");

}  // namespace
}  // namespace rivulet
