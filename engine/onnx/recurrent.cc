// RNN, GRU and LSTM: weights [directions, gates · units, …], sequences [time, batch, …] or, with layout 1, [batch,
// time, …].
#include <algorithm>

#include "engine/onnx/cell.h"
#include "engine/onnx/operator.h"

namespace rivulet::onnx {
namespace {

StatusOr<std::vector<Activation>> ActivationsOf(NodeContext& n, const std::vector<std::string>& defaults,
                                                size_t directions) {
  std::vector<std::string> names = n.Strings("activations");
  if (names.empty())
    for (size_t i = 0; i < directions; ++i) names.insert(names.end(), defaults.begin(), defaults.end());
  if (names.size() != defaults.size() * directions)
    return InvalidArgument("{} activations are given for {} directions", names.size(), directions);
  // The lists hold numbers only for those activations that take one.
  const std::vector<float> alphas = n.Floats("activation_alpha"), betas = n.Floats("activation_beta");
  size_t alpha = 0, beta = 0;
  std::vector<Activation> activations;
  for (const std::string& name : names) {
    RIVULET_ASSIGN_OR_RETURN(Activation activation, ActivationOf(name));
    if (TakesAlpha(activation) && alpha < alphas.size()) activation.alpha = alphas[alpha++];
    if (TakesBeta(activation) && beta < betas.size()) activation.beta = betas[beta++];
    activations.push_back(std::move(activation));
  }
  return activations;
}

// Blocks of `units` along axis 0, in another order.
Output Reordered(const Builder& b, Output x, int64_t units, const std::vector<int64_t>& order) {
  if (!x) return {};
  std::vector<Output> parts;
  for (int64_t block : order) parts.push_back(b.Slice(x, 0, block * units, (block + 1) * units));
  return parts.size() == 1 ? parts[0] : b.Concat(parts, 0);
}

Status Recurrent(NodeContext& n, Cell::Kind kind) {
  const Builder& b = n.b();
  const bool lstm = kind == Cell::Kind::kLstm;
  const int64_t gates = lstm ? 4 : kind == Cell::Kind::kGru ? 3 : 1;
  const std::vector<int64_t> order = lstm         ? std::vector<int64_t>{0, 2, 3, 1}  // ONNX: i, o, f, c
                                     : gates == 3 ? std::vector<int64_t>{0, 1, 2}
                                                  : std::vector<int64_t>{0};
  RIVULET_ASSIGN_OR_RETURN(const int rank, n.Rank(0));
  RIVULET_ASSIGN_OR_RETURN(const Shape w, n.KnownShape(1));
  RIVULET_ASSIGN_OR_RETURN(const Shape r, n.KnownShape(2));
  const std::string direction = n.String("direction", "forward");
  const size_t directions = direction == "bidirectional" ? 2 : 1;
  if (direction != "forward" && direction != "reverse" && directions != 2)
    return InvalidArgument("direction '{}' is not one of forward, reverse and bidirectional", direction);
  const int64_t units = r.rank() == 3 ? r.dim(2) : 0;
  if (rank != 3 || w.rank() != 3 || r.rank() != 3 || w.dim(0) != static_cast<int64_t>(directions) ||
      r.dim(0) != w.dim(0) || units < 1 || r.dim(1) != gates * units || w.dim(1) != r.dim(1))
    return InvalidArgument("the weights {} and {} are not those of {} directions", w.ToString(), r.ToString(),
                           directions);
  if (n.has_attr("hidden_size") && n.Int("hidden_size", 0) != units)
    return InvalidArgument("hidden_size is {}, but the weights have {}", n.Int("hidden_size", 0), units);
  const std::vector<std::string> defaults = lstm         ? std::vector<std::string>{"Sigmoid", "Tanh", "Tanh"}
                                            : gates == 3 ? std::vector<std::string>{"Sigmoid", "Tanh"}
                                                         : std::vector<std::string>{"Tanh"};
  RIVULET_ASSIGN_OR_RETURN(const std::vector<Activation> activations, ActivationsOf(n, defaults, directions));
  const bool batch_first = n.Int("layout", 0) == 1;
  std::vector<Output> y, final_h, final_c;
  for (size_t d = 0; d < directions; ++d) {
    Cell cell;
    cell.kind = kind;
    cell.activations.assign(activations.begin() + static_cast<std::ptrdiff_t>(d * defaults.size()),
                            activations.begin() + static_cast<std::ptrdiff_t>((d + 1) * defaults.size()));
    cell.clip = n.Float("clip", 0);
    cell.reset_after = n.Flag("linear_before_reset", false);
    cell.input_forget = n.Flag("input_forget", false);
    cell.time_major = !batch_first;
    cell.reverse = direction == "reverse" || d == 1;
    const auto own = [&](Output x, int axis) { return x ? b.At(x, axis, static_cast<int64_t>(d)) : Output{}; };
    CellInputs inputs;
    inputs.x = n.input(0);
    inputs.kernel = Reordered(b, own(n.input(1), 0), units, order);
    inputs.recurrent_kernel = Reordered(b, own(n.input(2), 0), units, order);
    if (const Output bias = own(n.optional_input(3), 0)) {
      inputs.bias = Reordered(b, b.Slice(bias, 0, 0, gates * units), units, order);
      inputs.recurrent_bias = Reordered(b, b.Slice(bias, 0, gates * units, 2 * gates * units), units, order);
    }
    inputs.lengths = n.optional_input(4);
    inputs.initial_h = own(n.optional_input(5), batch_first ? 1 : 0);
    if (lstm) {
      inputs.initial_c = own(n.optional_input(6), batch_first ? 1 : 0);
      inputs.peephole = Reordered(b, own(n.optional_input(7), 0), units, {0, 2, 1});  // ONNX: i, o, f
    }
    const CellOutputs outputs = RunCell(b, cell, inputs);
    y.push_back(outputs.y);
    final_h.push_back(outputs.final_h);
    final_c.push_back(outputs.final_c);
  }
  if (!n.status().ok()) return n.status();
  n.set_output(0, b.Stack(y, batch_first ? 2 : 1));
  n.set_output(1, b.Stack(final_h, batch_first ? 1 : 0));
  if (lstm) n.set_output(2, b.Stack(final_c, batch_first ? 1 : 0));
  return n.status();
}
RIVULET_ONNX("RNN", [](NodeContext& n) { return Recurrent(n, Cell::Kind::kRnn); });
RIVULET_ONNX("GRU", [](NodeContext& n) { return Recurrent(n, Cell::Kind::kGru); });
RIVULET_ONNX("LSTM", [](NodeContext& n) { return Recurrent(n, Cell::Kind::kLstm); });

}  // namespace
}  // namespace rivulet::onnx
