// LSTM, GRU and SimpleRNN. The engine's ops take the product of the inputs with the kernel, a MatMul before them;
// ONNX's take the inputs and the kernel. Where that product is found, its inputs are taken; otherwise the projection
// itself is the input, and the kernel the identity. Sequences of ONNX's are [time, batch, features], its gates stand in
// another order for LSTM. Weights keep the engine's layout; what rearranges them does not depend on the input, and
// runtimes compute it once.
#include <optional>

#include "engine/onnx/export/exporter.h"

namespace rivulet::onnx {
namespace {

struct InputProjection {
  Output x, kernel, bias;  // bias may be empty
};

// x · kernel + bias, as SequenceProduct (engine/layers/recurrent.h) builds it.
std::optional<InputProjection> FindProjection(Output projection) {
  const auto dim = [](Output of, int axis) { return of.shape().dim(axis); };
  const auto has_rank = [](Output of, int rank) { return of.shape().known_rank() && of.shape().rank() == rank; };
  if (projection.node->type() != "Reshape" || !has_rank(projection, 3)) return std::nullopt;
  InputProjection found;
  Output product = projection.node->input(0);
  if (product.node->type() == "BiasAdd") {
    found.bias = product.node->input(1);
    product = product.node->input(0);
  }
  if (product.node->type() != "MatMul" || product.node->attr<bool>("transpose_a") ||
      product.node->attr<bool>("transpose_b"))
    return std::nullopt;
  const Output rows = product.node->input(0);
  found.kernel = product.node->input(1);
  if (rows.node->type() != "Reshape" || !has_rank(rows, 2) || !has_rank(found.kernel, 2)) return std::nullopt;
  found.x = rows.node->input(0);
  if (!has_rank(found.x, 3) || dim(found.x, 2) == kUnknownDim || dim(found.x, 2) != dim(found.kernel, 0))
    return std::nullopt;
  // There are as many rows before as after: when one of the two leading sizes is kept, so is the other.
  for (int axis = 0; axis < 2; ++axis)
    if (dim(found.x, axis) != kUnknownDim && dim(found.x, axis) == dim(projection, axis)) return found;
  return std::nullopt;
}

struct CellActivations {
  std::vector<std::string> names;
  std::vector<float> alpha, beta;
};

// Names as the engine's ops have them. The lists hold a number for each activation that takes one.
void AddActivation(CellActivations& all, const std::string& name) {
  static const std::map<std::string, std::string> names = {
      {"tanh", "Tanh"}, {"sigmoid", "Sigmoid"},      {"hard_sigmoid", "HardSigmoid"},
      {"relu", "Relu"}, {"softsign", "Softsign"},    {"softplus", "Softplus"},
      {"elu", "Elu"},   {"leaky_relu", "LeakyRelu"}, {"linear", "Affine"}};
  all.names.push_back(names.at(name));
  if (name == "hard_sigmoid") {
    all.alpha.push_back(0.2f);
    all.beta.push_back(0.5f);
  } else if (name == "leaky_relu") {
    all.alpha.push_back(0.01f);
  } else if (name == "elu") {
    all.alpha.push_back(1.0f);
  } else if (name == "linear") {
    all.alpha.push_back(1.0f);
    all.beta.push_back(0.0f);
  }
}

// Blocks along axis 0 in another order.
Value Reordered(const ExportContext& n, const Value& x, const std::vector<int64_t>& order) {
  bool sorted = true;
  for (size_t i = 0; i < order.size(); ++i) sorted = sorted && order[i] == static_cast<int64_t>(i);
  if (sorted || x.empty()) return x;
  const int count = static_cast<int>(order.size());
  const std::vector<Value> parts = n.All("Split", {x}, count, {{"axis", int64_t{0}}, {"num_outputs", int64_t{count}}});
  std::vector<Value> moved;
  for (int64_t block : order) moved.push_back(parts[static_cast<size_t>(block)]);
  return n.Concat(moved, 0);
}

struct Places {  // of inputs, -1 where the op has none
  int bias = -1, h = -1, c = -1, peephole = -1, lengths = -1;
};

Status Recurrent(ExportContext& n, const char* op, const std::vector<int64_t>& order, const Places& at) {
  const auto gates = static_cast<int64_t>(order.size());
  const bool time_major = n.attr<bool>("time_major");
  RIVULET_ASSIGN_OR_RETURN(const Shape recurrent, n.KnownShape(1));
  const int64_t units = recurrent.dim(0);
  const auto optional = [&](int i) { return i < 0 || n.IsLeftOut(i) ? Value() : n.input(i); };

  Value x, w, bias;
  const Output projection = n.node().input(0);
  if (const auto found = FindProjection(projection)) {
    x = n.ValueOf(found->x);
    w = n.Transpose(n.ValueOf(found->kernel), {1, 0});
    if (found->bias) bias = n.ValueOf(found->bias);
  } else {
    x = n.input(0);
    const Value zeros = n.Op("Expand", {n.Scalar(n.dtype(0), 0), n.Ints({gates * units, gates * units})});
    w = n.Op("EyeLike", {zeros});
  }
  if (!time_major) x = n.Transpose(x, {1, 0, 2});
  w = n.Unsqueeze(Reordered(n, w, order), {0});
  const Value r = n.Unsqueeze(Reordered(n, n.Transpose(n.input(1), {1, 0}), order), {0});
  const Value recurrent_bias = optional(at.bias);
  Value b;
  if (!bias.empty() || !recurrent_bias.empty()) {
    const auto or_zeros = [&](const Value& value) {
      return value.empty() ? n.Op("Expand", {n.Scalar(n.dtype(0), 0), n.Ints({gates * units})}) : value;
    };
    b = n.Unsqueeze(n.Concat({Reordered(n, or_zeros(bias), order), Reordered(n, or_zeros(recurrent_bias), order)}, 0),
                    {0});
  }
  const auto state = [&](int i) {
    const Value value = optional(i);
    return value.empty() ? value : n.Unsqueeze(value, {0});
  };
  Value lengths = optional(at.lengths);
  if (!lengths.empty() && n.dtype(at.lengths) != DType::kInt32) lengths = n.Cast(lengths, DType::kInt32);
  std::vector<Value> inputs = {x, w, r, b, lengths, state(at.h)};
  if (at.c >= 0) {
    inputs.push_back(state(at.c));
    const Value peephole = optional(at.peephole);  // i, f, o here; i, o, f there
    inputs.push_back(peephole.empty() ? peephole : n.Unsqueeze(Reordered(n, peephole, {0, 2, 1}), {0}));
  }
  CellActivations activations;
  if (gates > 1) AddActivation(activations, n.attr<std::string>("recurrent_activation"));
  AddActivation(activations, n.attr<std::string>("activation"));
  if (at.c >= 0) AddActivation(activations, n.attr<std::string>("output_activation"));
  AttrMap attrs = {{"hidden_size", units},
                   {"direction", std::string(n.attr<bool>("reverse") ? "reverse" : "forward")},
                   {"activations", activations.names}};
  if (!activations.alpha.empty()) attrs["activation_alpha"] = activations.alpha;
  if (!activations.beta.empty()) attrs["activation_beta"] = activations.beta;
  if (n.attr<float>("clip") > 0) attrs["clip"] = n.attr<float>("clip");
  if (std::string_view(op) == "GRU") attrs["linear_before_reset"] = n.attr<bool>("reset_after");

  const int outputs = at.c >= 0 ? 3 : 2;
  for (int port = outputs; port < static_cast<int>(n.node().outputs().size()); ++port)
    RIVULET_RETURN_IF_ERROR(n.RefuseOutput(port, "which the backward pass needs"));
  const std::vector<Value> values = n.All(op, std::move(inputs), outputs, std::move(attrs));
  Value y = n.Squeeze(values[0], {1});
  if (!time_major) y = n.Transpose(y, {1, 0, 2});
  n.set_output(0, y);
  for (int port = 1; port < outputs; ++port)
    if (n.IsUsed(port)) n.set_output(port, n.Squeeze(values[static_cast<size_t>(port)], {0}));
  return absl::OkStatus();
}

RIVULET_ONNX_EXPORT("LSTM", [](ExportContext& n) {  // i, f, c, o here; i, o, f, c there
  return Recurrent(n, "LSTM", {0, 3, 1, 2}, {.h = 2, .c = 3, .peephole = 4, .lengths = 5});
});
RIVULET_ONNX_EXPORT("GRU", [](ExportContext& n) {
  return Recurrent(n, "GRU", {0, 1, 2}, {.bias = 2, .h = 3, .lengths = 4});
});
RIVULET_ONNX_EXPORT("SimpleRNN", [](ExportContext& n) { return Recurrent(n, "RNN", {0}, {.h = 2, .lengths = 3}); });

}  // namespace
}  // namespace rivulet::onnx
