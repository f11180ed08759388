// A thousand random graphs over the ops that most models are made of (each op has tests of its own besides), each drawn
// from a seed; the gradient of each graph is compared with finite differences. A step of the generator evaluates what
// is there and adds a node only where its inputs lie off the node's kinks and poles, and its values stay small: what
// remains must be smooth.
#include <algorithm>
#include <cmath>
#include <map>

#include "engine/base/philox.h"
#include "engine/gradients/gradients.h"
#include "engine/graph/op.h"
#include "engine/passes/pass.h"
#include "tests/testing/gradient_check.h"
#include "tests/testing/run_graph.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using testing::CheckGradients;
using testing::Feeds;
using testing::RandomTensor;
using testing::RunGraph;

constexpr double kMargin = 0.02;  // from kinks and poles
constexpr double kLargest = 4;

class Draw {
 public:
  explicit Draw(uint64_t seed) : key_{{static_cast<uint32_t>(seed), 0x5EED}} {}
  int64_t Below(int64_t bound) { return static_cast<int64_t>(Next() % static_cast<uint32_t>(bound)); }
  int64_t Between(int64_t low, int64_t high) { return low + Below(high - low + 1); }
  bool Coin() { return Below(2) == 1; }

 private:
  uint32_t Next() { return Philox4x32(key_, {index_++, 0, 0, 0})[0]; }
  PhiloxKey key_;
  uint32_t index_ = 0;
};

struct Value {
  Output output;
  Tensor tensor;
  const Shape& shape() const { return tensor.shape(); }
  std::span<const double> values() const { return tensor.flat<double>(); }
};

Tensor Ints(const std::vector<int64_t>& values) {
  Tensor tensor(DType::kInt32, Shape({static_cast<int64_t>(values.size())}));
  std::transform(values.begin(), values.end(), tensor.flat<int32_t>().begin(),
                 [](int64_t v) { return static_cast<int32_t>(v); });
  return tensor;
}
Tensor Int(int64_t value) { return Tensor::Scalar(static_cast<int32_t>(value)); }

bool All(const Value& v, auto predicate) { return std::ranges::all_of(v.values(), predicate); }
bool OffZero(const Value& v) {
  return All(v, [](double x) { return std::abs(x) > kMargin; });
}
bool Distinct(const Value& v) {
  std::vector<double> sorted(v.values().begin(), v.values().end());
  std::ranges::sort(sorted);
  return std::ranges::adjacent_find(sorted, [](double a, double b) { return b - a < kMargin; }) == sorted.end();
}
// No element of a is near any of b: more than a comparison of broadcast operands needs.
bool Apart(const Value& a, const Value& b) {
  return All(a, [&](double x) { return All(b, [&](double y) { return std::abs(x - y) > kMargin; }); });
}

// The graph as it grows.
class Grower {
 public:
  Grower(const Scope& scope, const std::vector<Output>& inputs, const std::vector<Tensor>& values, uint64_t seed)
      : scope_(scope), draw_(seed) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      pool_.push_back({inputs[i], values[i]});
      feeds_.emplace_back(inputs[i].name(), values[i]);
    }
  }

  Draw& draw() { return draw_; }
  const Scope& scope() const { return scope_; }
  const std::vector<Value>& pool() const { return pool_; }
  const Value& Pick() { return pool_[static_cast<size_t>(draw_.Below(static_cast<int64_t>(pool_.size())))]; }
  // One with `accept`; nullptr when some draws found none.
  const Value* Pick(auto accept) {
    for (int attempt = 0; attempt < 8; ++attempt)
      if (const Value& value = Pick(); accept(value)) return &value;
    return nullptr;
  }
  const Value* PickRank(int rank) {
    return Pick([&](const Value& v) { return v.shape().rank() == rank; });
  }
  Output Const(Tensor tensor) { return scope_.Const(std::move(tensor)); }
  Output Random(Shape shape) {
    return Const(RandomTensor(std::move(shape), static_cast<uint64_t>(draw_.Below(1 << 20)) + 1));
  }
  Output Op(std::string_view op, std::vector<Output> inputs, AttrMap attrs = {}) {
    return scope_.Op(op, std::move(inputs), std::move(attrs));
  }

  // Evaluates the new outputs and keeps those that are finite and small.
  Status Keep(const std::vector<Output>& outputs) {
    RIVULET_RETURN_IF_ERROR(scope_.status());
    std::vector<std::string> names;
    for (const Output& output : outputs) names.push_back(output.name());
    RIVULET_ASSIGN_OR_RETURN(auto tensors, RunGraph(scope_.graph(), feeds_, names));
    for (size_t i = 0; i < outputs.size(); ++i) {
      Value value{outputs[i], std::move(tensors[i])};
      if (value.tensor.elements() > 0 && value.tensor.elements() <= 64 &&
          All(value, [](double x) { return std::isfinite(x) && std::abs(x) < kLargest; }))
        pool_.push_back(std::move(value));
    }
    return absl::OkStatus();
  }

 private:
  Scope scope_;
  Draw draw_;
  std::vector<Value> pool_;
  Feeds feeds_;
};

// Adds nodes to the graph and returns float64 outputs; none where it finds no fitting inputs.
using Maker = std::function<std::vector<Output>(Grower&)>;

Maker Unary(std::string op, bool (*accept)(const Value&) = nullptr) {
  return [=](Grower& g) -> std::vector<Output> {
    const Value* x = accept == nullptr ? &g.Pick() : g.Pick(accept);
    if (x == nullptr) return {};
    return {g.Op(op, {x->output})};
  };
}

// x^2 + 0.5: for ops that want positive operands, or none near zero.
Output MadePositive(Grower& g, Output x) { return g.Op("AddV2", {g.Op("Square", {x}), g.Const(Tensor::Scalar(0.5))}); }

Maker OfPositive(std::string op) {
  return [=](Grower& g) -> std::vector<Output> { return {g.Op(op, {MadePositive(g, g.Pick().output)})}; };
}

// Two operands that broadcast.
std::optional<std::pair<Value, Value>> PickPair(Grower& g) {
  for (int attempt = 0; attempt < 8; ++attempt) {
    const Value &x = g.Pick(), &y = g.Pick();
    if (Shape::Broadcast(x.shape(), y.shape()).ok()) return std::pair{x, y};
  }
  return std::nullopt;
}

Maker Binary(std::string op, std::function<bool(const Value&, const Value&)> accept = nullptr) {
  return [=](Grower& g) -> std::vector<Output> {
    const auto pair = PickPair(g);
    if (!pair || (accept && !accept(pair->first, pair->second))) return {};
    return {g.Op(op, {pair->first.output, pair->second.output})};
  };
}

Maker SameShape(std::string op, bool (*accept_second)(const Value&) = nullptr) {
  return [=](Grower& g) -> std::vector<Output> {
    const Value x = g.Pick();
    const Value* y = g.Pick(
        [&](const Value& v) { return v.shape() == x.shape() && (accept_second == nullptr || accept_second(v)); });
    if (y == nullptr) return {};
    return {g.Op(op, {x.output, y->output})};
  };
}

Maker Reduction(std::string op, bool distinct = false) {
  return [=](Grower& g) -> std::vector<Output> {
    const Value* x = g.Pick([&](const Value& v) { return !distinct || Distinct(v); });
    if (x == nullptr) return {};
    std::vector<int64_t> axes;
    for (int axis = 0; axis < x->shape().rank(); ++axis)
      if (g.draw().Coin()) axes.push_back(g.draw().Coin() ? axis : axis - x->shape().rank());
    return {g.Op(op, {x->output, g.Const(Ints(axes))}, {{"keep_dims", g.draw().Coin()}})};
  };
}

// A comparison as a mask. Its operands stay apart, so that the mask does not change within a finite difference.
Maker Comparison(std::string op) {
  return [=](Grower& g) -> std::vector<Output> {
    const auto pair = PickPair(g);
    if (!pair || !Apart(pair->first, pair->second)) return {};
    const Output mask = g.Op(op, {pair->first.output, pair->second.output});
    return {g.Op("Mul", {g.Op("Cast", {mask}, {{"DstT", DType::kFloat64}}), pair->first.output})};
  };
}

Maker Logic(std::string op) {
  return [=](Grower& g) -> std::vector<Output> {
    const Value* x = g.Pick(OffZero);
    if (x == nullptr) return {};
    const Output zero = g.Const(Tensor::Scalar(0.0));
    const Output positive = g.Op("Greater", {x->output, zero});
    const Output mask =
        op == "LogicalNot" ? g.Op(op, {positive}) : g.Op(op, {positive, g.Op("Less", {x->output, zero})});
    return {g.Op("SelectV2", {mask, x->output, g.Op("Neg", {x->output})})};
  };
}

// All and Any over the last axis, as a mask for the whole.
Maker LogicReduction(std::string op) {
  return [=](Grower& g) -> std::vector<Output> {
    const Value* x = g.Pick([](const Value& v) { return v.shape().rank() > 0 && OffZero(v); });
    if (x == nullptr) return {};
    const Output mask = g.Op(op, {g.Op("Greater", {x->output, g.Const(Tensor::Scalar(0.0))}), g.Const(Ints({-1}))},
                             {{"keep_dims", true}});
    return {g.Op("SelectV2", {mask, x->output, g.Op("Square", {x->output})})};
  };
}

Maker Arg(std::string op) {
  return [=](Grower& g) -> std::vector<Output> {
    const Value* x = g.Pick([](const Value& v) { return v.shape().rank() > 0 && Distinct(v); });
    if (x == nullptr) return {};
    const int64_t depth = x->shape().dim(x->shape().rank() - 1);
    const Output index = g.Op(op, {x->output, g.Const(Int(-1))});
    const Output hot =
        g.Op("OneHot", {index, g.Const(Int(depth)), g.Const(Tensor::Scalar(1.0)), g.Const(Tensor::Scalar(-0.5))});
    return {g.Op("Mul", {hot, x->output})};
  };
}

// Random numbers do not depend on the inputs and are the same in each run of a step.
Maker Noise(std::string op) {
  return [=](Grower& g) -> std::vector<Output> {
    const Value x = g.Pick();
    const Output shape = g.Op("Shape", {x.output});
    const bool stateless = op.starts_with("Stateless");
    std::vector<Output> inputs = {shape};
    if (stateless) inputs.push_back(g.Const(Tensor::Of<int64_t>({2}, {g.draw().Below(100), 7})));
    return {g.Op("Mul", {x.output, g.Op(op, inputs, {{"dtype", DType::kFloat64}})})};
  };
}

std::vector<int64_t> Dims(const Value& v) { return {v.shape().dims().begin(), v.shape().dims().end()}; }

Maker Convolution(std::string kind) {
  return [=](Grower& g) -> std::vector<Output> {
    const Value* x = g.PickRank(4);
    if (x == nullptr) return {};
    const bool depthwise = kind.starts_with("Depthwise");
    const std::string forward = depthwise ? "DepthwiseConv2dNative" : "Conv2D";
    // The filter's last two axes: groups of channels at times.
    const int64_t channels = x->shape().dim(3);
    const int64_t in = !depthwise && channels % 2 == 0 && g.draw().Coin() ? channels / 2 : channels;
    const int64_t out = g.draw().Between(1, 2) * (depthwise ? 1 : channels / in);
    const bool same = g.draw().Coin();
    const int64_t height = same ? g.draw().Between(1, 3) : g.draw().Between(1, x->shape().dim(1));
    const int64_t width = same ? g.draw().Between(1, 3) : g.draw().Between(1, x->shape().dim(2));
    const AttrMap attrs = {{"strides", std::vector<int64_t>{1, g.draw().Between(1, 2), g.draw().Between(1, 2), 1}},
                           {"padding", std::string(same ? "SAME" : "VALID")}};
    const Output filter = g.Random({height, width, in, out});
    const Output convolved = g.Op(forward, {x->output, filter}, attrs);
    if (kind == forward || !convolved) return {convolved};
    if (kind == forward + "BackpropInput") return {g.Op(kind, {g.Op("Shape", {x->output}), filter, convolved}, attrs)};
    return {g.Op(kind, {x->output, g.Op("Shape", {filter}), convolved}, attrs)};
  };
}

Maker Pool(std::string kind) {
  return [=](Grower& g) -> std::vector<Output> {
    const bool max = kind.starts_with("Max");
    const Value* x = g.Pick([&](const Value& v) { return v.shape().rank() == 4 && (!max || Distinct(v)); });
    if (x == nullptr) return {};
    const bool same = g.draw().Coin();
    const auto size = [&](int axis) {
      return g.draw().Between(1, same ? 3 : std::min<int64_t>(3, x->shape().dim(axis)));
    };
    const AttrMap attrs = {{"ksize", std::vector<int64_t>{1, size(1), size(2), 1}},
                           {"strides", std::vector<int64_t>{1, g.draw().Between(1, 2), g.draw().Between(1, 2), 1}},
                           {"padding", std::string(same ? "SAME" : "VALID")}};
    const Output pooled = g.Op(max ? "MaxPool" : "AvgPool", {x->output}, attrs);
    if (kind != "AvgPoolGrad") return {pooled};
    return {g.Op(kind, {g.Op("Shape", {x->output}), pooled}, attrs)};
  };
}

// A matrix product with an operand transposed as often as not.
std::vector<Output> MatMul(Grower& g) {
  const Value* a = g.PickRank(2);
  if (a == nullptr) return {};
  const bool ta = g.draw().Coin(), tb = g.draw().Coin();
  const int64_t inner = a->shape().dim(ta ? 0 : 1), columns = g.draw().Between(1, 3);
  const Output b = g.Random(tb ? Shape{columns, inner} : Shape{inner, columns});
  return {g.Op("MatMul", {a->output, b}, {{"transpose_a", ta}, {"transpose_b", tb}})};
}

std::vector<Output> BatchMatMul(Grower& g) {
  const Value* x = g.Pick([](const Value& v) { return v.shape().rank() >= 2; });
  if (x == nullptr) return {};
  const bool adj_x = g.draw().Coin(), adj_y = g.draw().Coin();
  const int rank = x->shape().rank();
  const int64_t inner = x->shape().dim(rank - (adj_x ? 2 : 1)), columns = g.draw().Between(1, 2);
  const Output y = g.Random(adj_y ? Shape{columns, inner} : Shape{inner, columns});
  return {g.Op("BatchMatMulV2", {x->output, y}, {{"adj_x", adj_x}, {"adj_y", adj_y}})};
}

const std::map<std::string, Maker>& Makers() {
  static const std::map<std::string, Maker> makers = [] {
    std::map<std::string, Maker> m;
    for (const char* op : {"Identity", "Neg", "Square", "Tanh", "Sigmoid", "Softplus", "Exp", "L2Loss"})
      m[op] = Unary(op);
    for (const char* op : {"Abs", "Relu", "Sign"}) m[op] = Unary(op, OffZero);
    for (const char* op : {"Sqrt", "Rsqrt", "Log", "Log1p"}) m[op] = OfPositive(op);
    for (const char* op : {"ZerosLike", "OnesLike"})
      m[op] = [=](Grower& g) -> std::vector<Output> {
        const Value x = g.Pick();
        return {g.Op("Sub", {g.Op(op, {x.output}), x.output})};
      };
    m["Floor"] = [](Grower& g) -> std::vector<Output> {
      const Value* x =
          g.Pick([](const Value& v) { return All(v, [](double e) { return std::abs(e - std::round(e)) > kMargin; }); });
      if (x == nullptr) return {};
      return {g.Op("Mul", {g.Op("Floor", {x->output}), x->output})};
    };
    for (const char* op : {"Add", "AddV2", "Sub", "Mul", "SquaredDifference"}) m[op] = Binary(op);
    for (const char* op : {"Div", "RealDiv", "DivNoNan"})
      m[op] = [=](Grower& g) -> std::vector<Output> {
        const auto pair = PickPair(g);
        if (!pair) return {};
        return {g.Op(op, {pair->first.output, MadePositive(g, pair->second.output)})};
      };
    m["FloorDiv"] = [](Grower& g) -> std::vector<Output> {
      const Value* x = g.Pick([](const Value& v) {
        return All(v, [](double e) { return std::abs(2 * e - std::round(2 * e)) > 2 * kMargin; });
      });
      if (x == nullptr) return {};
      return {g.Op("Mul", {g.Op("FloorDiv", {x->output, g.Const(Tensor::Scalar(0.5))}), x->output})};
    };
    m["Pow"] = [](Grower& g) -> std::vector<Output> {
      const auto pair = PickPair(g);
      if (!pair) return {};
      return {g.Op("Pow", {MadePositive(g, pair->first.output), pair->second.output})};
    };
    m["Maximum"] = Binary("Maximum", Apart);
    m["Minimum"] = Binary("Minimum", Apart);
    for (const char* op :
         {"TanhGrad", "SigmoidGrad", "SoftplusGrad", "SqrtGrad", "RsqrtGrad", "ReciprocalGrad", "InvGrad"})
      m[op] = SameShape(op);
    m["ReluGrad"] = SameShape("ReluGrad", OffZero);
    m["AddN"] = [](Grower& g) -> std::vector<Output> {
      const Value x = g.Pick();
      std::vector<Output> inputs = {x.output};
      for (const Value& v : g.pool())
        if (v.shape() == x.shape() && g.draw().Coin()) inputs.push_back(v.output);
      return {g.Op("AddN", inputs)};
    };
    for (const char* op : {"Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual"}) m[op] = Comparison(op);
    for (const char* op : {"LogicalAnd", "LogicalOr", "LogicalNot"}) m[op] = Logic(op);
    for (const char* op : {"All", "Any"}) m[op] = LogicReduction(op);
    m["SelectV2"] = [](Grower& g) -> std::vector<Output> {
      const auto pair = PickPair(g);
      if (!pair || !OffZero(pair->first)) return {};
      const Output mask = g.Op("Greater", {pair->first.output, g.Const(Tensor::Scalar(0.0))});
      return {g.Op("SelectV2", {mask, pair->first.output, pair->second.output})};
    };
    m["Cast"] = [](Grower& g) -> std::vector<Output> {
      const Value* x = g.Pick(OffZero);
      if (x == nullptr) return {};
      const Output mask = g.Op("Cast", {x->output}, {{"DstT", DType::kBool}});
      return {g.Op("Mul", {g.Op("Cast", {mask}, {{"DstT", DType::kFloat64}}), x->output})};
    };
    for (const char* op : {"Sum", "Mean"}) m[op] = Reduction(op);
    for (const char* op : {"Max", "Min"}) m[op] = Reduction(op, /*distinct=*/true);
    for (const char* op : {"ArgMax", "ArgMin"}) m[op] = Arg(op);

    m["Reshape"] = [](Grower& g) -> std::vector<Output> {
      const Value x = g.Pick();
      std::vector<int64_t> dims = Dims(x);
      std::ranges::reverse(dims);
      if (!dims.empty() && g.draw().Coin()) dims[0] = -1;
      return {g.Op("Reshape", {x.output, g.Const(Ints(dims))})};
    };
    m["ExpandDims"] = [](Grower& g) -> std::vector<Output> {
      const Value* x = g.Pick([](const Value& v) { return v.shape().rank() < 4; });
      if (x == nullptr) return {};
      return {g.Op("ExpandDims", {x->output, g.Const(Int(g.draw().Between(-1, x->shape().rank())))})};
    };
    m["Squeeze"] = [](Grower& g) -> std::vector<Output> {
      const Value* x = g.Pick([](const Value& v) { return std::ranges::count(v.shape().dims(), 1) > 0; });
      if (x == nullptr) return {};
      const auto axis = std::ranges::find(x->shape().dims(), 1) - x->shape().dims().begin();
      return {g.Op("Squeeze", {x->output}, {{"squeeze_dims", std::vector<int64_t>{axis}}})};
    };
    m["BroadcastTo"] = [](Grower& g) -> std::vector<Output> {
      const Value* x = g.Pick([](const Value& v) { return v.shape().rank() < 4; });
      if (x == nullptr) return {};
      std::vector<int64_t> dims = Dims(*x);
      for (int64_t& dim : dims)
        if (dim == 1) dim = g.draw().Between(1, 2);
      if (g.draw().Coin()) dims.insert(dims.begin(), 2);
      return {g.Op("BroadcastTo", {x->output, g.Const(Ints(dims))})};
    };
    m["Transpose"] = [](Grower& g) -> std::vector<Output> {
      const Value* x = g.Pick([](const Value& v) { return v.shape().rank() > 1; });
      if (x == nullptr) return {};
      std::vector<int64_t> perm;
      for (int axis = 0; axis < x->shape().rank(); ++axis) perm.insert(perm.begin() + g.draw().Between(0, axis), axis);
      return {g.Op("Transpose", {x->output, g.Const(Ints(perm))})};
    };
    m["ConcatV2"] = [](Grower& g) -> std::vector<Output> {
      const Value* x = g.Pick([](const Value& v) { return v.shape().rank() > 0; });
      if (x == nullptr) return {};
      const int64_t axis = g.draw().Between(-x->shape().rank(), x->shape().rank() - 1);
      std::vector<Output> inputs = {x->output, g.Op("Square", {x->output})};
      inputs.push_back(g.Const(Int(axis)));
      return {g.Op("ConcatV2", inputs)};
    };
    m["Pack"] = [](Grower& g) -> std::vector<Output> {
      const Value* x = g.Pick([](const Value& v) { return v.shape().rank() < 4; });
      if (x == nullptr) return {};
      return {
          g.Op("Pack", {x->output, g.Op("Tanh", {x->output})}, {{"axis", g.draw().Between(-1, x->shape().rank())}})};
    };
    m["Unpack"] = [](Grower& g) -> std::vector<Output> {
      const Value* x = g.Pick([](const Value& v) { return v.shape().rank() > 0; });
      if (x == nullptr) return {};
      const int64_t axis = g.draw().Below(x->shape().rank());
      const int64_t num = x->shape().dim(static_cast<int>(axis));
      Node* node = g.scope().AddNode("Unpack", {x->output}, {{"num", num}, {"axis", axis}});
      if (node == nullptr) return {};
      return {node->output(static_cast<int>(g.draw().Below(num)))};
    };
    m["Split"] = [](Grower& g) -> std::vector<Output> {
      const Value* x = g.Pick([](const Value& v) {
        return v.shape().rank() > 0 && std::ranges::any_of(v.shape().dims(), [](int64_t d) { return d % 2 == 0; });
      });
      if (x == nullptr) return {};
      const auto even = std::ranges::find_if(x->shape().dims(), [](int64_t d) { return d % 2 == 0; });
      const int64_t axis = even - x->shape().dims().begin();
      Node* node = g.scope().AddNode("Split", {g.Const(Int(axis)), x->output}, {{"num_split", int64_t{2}}});
      if (node == nullptr) return {};
      return {node->output(static_cast<int>(g.draw().Below(2)))};
    };
    m["Slice"] = [](Grower& g) -> std::vector<Output> {
      const Value x = g.Pick();
      std::vector<int64_t> begin, size;
      for (int64_t dim : x.shape().dims()) {
        begin.push_back(g.draw().Below(dim));
        size.push_back(g.draw().Coin() ? -1 : g.draw().Between(1, dim - begin.back()));
      }
      return {g.Op("Slice", {x.output, g.Const(Ints(begin)), g.Const(Ints(size))})};
    };
    m["StridedSlice"] = [](Grower& g) -> std::vector<Output> {
      const Value* x = g.Pick([](const Value& v) { return v.shape().rank() > 0; });
      if (x == nullptr) return {};
      std::vector<int64_t> begin, end, strides;
      int64_t shrink = 0;
      for (int axis = 0; axis < x->shape().rank(); ++axis) {
        const int64_t dim = x->shape().dim(axis);
        const bool back = g.draw().Coin();
        begin.push_back(back ? dim - 1 : g.draw().Below(dim));
        end.push_back(back ? -dim - 1 : dim);
        strides.push_back(back ? -g.draw().Between(1, 2) : g.draw().Between(1, 2));
        if (!back && g.draw().Below(4) == 0) shrink |= int64_t{1} << axis;
      }
      return {g.Op("StridedSlice", {x->output, g.Const(Ints(begin)), g.Const(Ints(end)), g.Const(Ints(strides))},
                   {{"shrink_axis_mask", shrink}})};
    };
    m["StridedSliceGrad"] = [](Grower& g) -> std::vector<Output> {
      const Value* x = g.PickRank(1);
      if (x == nullptr) return {};
      const int64_t size = x->shape().dim(0);
      return {g.Op("StridedSliceGrad", {g.Const(Ints({2 * size})), g.Const(Ints({1})), g.Const(Ints({2 * size})),
                                        g.Const(Ints({2})), x->output})};
    };
    m["Pad"] = [](Grower& g) -> std::vector<Output> {
      const Value x = g.Pick();
      Tensor paddings(DType::kInt32, Shape({x.shape().rank(), 2}));
      for (int32_t& amount : paddings.flat<int32_t>()) amount = static_cast<int32_t>(g.draw().Below(2));
      return {g.Op("Pad", {x.output, g.Const(std::move(paddings))})};
    };
    m["Tile"] = [](Grower& g) -> std::vector<Output> {
      const Value x = g.Pick();
      std::vector<int64_t> multiples;
      for (int axis = 0; axis < x.shape().rank(); ++axis) multiples.push_back(g.draw().Between(1, 2));
      return {g.Op("Tile", {x.output, g.Const(Ints(multiples))})};
    };
    m["GatherV2"] = [](Grower& g) -> std::vector<Output> {
      const Value* x = g.Pick([](const Value& v) { return v.shape().rank() > 0; });
      if (x == nullptr) return {};
      const int64_t axis = g.draw().Below(x->shape().rank()), dim = x->shape().dim(static_cast<int>(axis));
      const std::vector<int64_t> indices = {g.draw().Below(dim), g.draw().Below(dim), g.draw().Below(dim)};
      return {g.Op("GatherV2", {x->output, g.Const(Ints(indices)), g.Const(Int(axis))})};
    };
    m["UnsortedSegmentSum"] = [](Grower& g) -> std::vector<Output> {
      const Value* x = g.Pick([](const Value& v) { return v.shape().rank() > 0; });
      if (x == nullptr) return {};
      std::vector<int64_t> ids;
      for (int64_t i = 0; i < x->shape().dim(0); ++i) ids.push_back(g.draw().Between(-1, 2));
      return {g.Op("UnsortedSegmentSum", {x->output, g.Const(Ints(ids)), g.Const(Int(3))})};
    };
    m["Fill"] = [](Grower& g) -> std::vector<Output> {
      const Value* x = g.PickRank(0);
      if (x == nullptr) return {};
      return {g.Op("Fill", {g.Const(Ints({2, 3})), x->output})};
    };
    m["Range"] = [](Grower& g) -> std::vector<Output> {
      const Value* x = g.Pick([](const Value& v) { return v.shape().rank() > 0; });
      if (x == nullptr) return {};
      const auto scalar = [&](double v) { return g.Const(Tensor::Scalar(v)); };
      const auto count = static_cast<double>(x->shape().dim(x->shape().rank() - 1));
      return {g.Op("Mul", {x->output, g.Op("Range", {scalar(0.5), scalar(0.5 + 0.25 * count - 0.1), scalar(0.25)})})};
    };
    m["Size"] = m["Rank"] = [](Grower& g) -> std::vector<Output> {
      const Value x = g.Pick();
      const Output sum = g.Op("AddV2", {g.Op("Size", {x.output}), g.Op("Rank", {x.output})});
      const Output scale =
          g.Op("RealDiv", {g.Const(Tensor::Scalar(1.0)), g.Op("Cast", {sum}, {{"DstT", DType::kFloat64}})});
      return {g.Op("Mul", {x.output, scale})};
    };
    m["Prod"] = [](Grower& g) -> std::vector<Output> {
      const Value x = g.Pick();
      const Output count = g.Op("Prod", {g.Op("Shape", {x.output}), g.Const(Ints({0}))});
      const Output scale = g.Op("Rsqrt", {g.Op("Cast", {count}, {{"DstT", DType::kFloat64}})});
      return {g.Op("Mul", {x.output, scale})};
    };
    m["MatMul"] = MatMul;
    m["BatchMatMulV2"] = BatchMatMul;
    m["BiasAdd"] = [](Grower& g) -> std::vector<Output> {
      const Value* x = g.Pick([](const Value& v) { return v.shape().rank() >= 2; });
      if (x == nullptr) return {};
      return {g.Op("BiasAdd", {x->output, g.Random({x->shape().dim(x->shape().rank() - 1)})})};
    };
    m["BiasAddGrad"] = [](Grower& g) -> std::vector<Output> {
      const Value* x = g.Pick([](const Value& v) { return v.shape().rank() >= 2; });
      if (x == nullptr) return {};
      return {g.Op("BiasAddGrad", {x->output})};
    };
    for (const char* op : {"Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter", "DepthwiseConv2dNative",
                           "DepthwiseConv2dNativeBackpropInput", "DepthwiseConv2dNativeBackpropFilter"})
      m[op] = Convolution(op);
    for (const char* op : {"MaxPool", "AvgPool", "AvgPoolGrad"}) m[op] = Pool(op);
    for (const char* op : {"Softmax", "LogSoftmax"})
      m[op] = Unary(op, [](const Value& v) { return v.shape().rank() > 0; });
    m["SoftmaxCrossEntropyWithLogits"] = [](Grower& g) -> std::vector<Output> {
      const Value* x = g.PickRank(2);
      if (x == nullptr) return {};
      const Output labels = g.Op("Softmax", {g.Random(x->shape())});
      return {g.Op("SoftmaxCrossEntropyWithLogits", {x->output, labels})};
    };
    m["SparseSoftmaxCrossEntropyWithLogits"] = [](Grower& g) -> std::vector<Output> {
      const Value* x = g.PickRank(2);
      if (x == nullptr) return {};
      Tensor labels(DType::kInt64, Shape({x->shape().dim(0)}));
      for (int64_t& label : labels.flat<int64_t>()) label = g.draw().Below(x->shape().dim(1));
      return {g.Op("SparseSoftmaxCrossEntropyWithLogits", {x->output, g.Const(std::move(labels))})};
    };
    for (const char* op : {"RandomUniform", "RandomStandardNormal", "TruncatedNormal", "StatelessRandomUniform",
                           "StatelessRandomNormal", "StatelessTruncatedNormal"})
      m[op] = Noise(op);
    return m;
  }();
  return makers;
}

std::vector<Output> Grow(const Scope& scope, const std::vector<Output>& inputs, const std::vector<Tensor>& values,
                         uint64_t seed, std::map<std::string, int>& used) {
  Grower g(scope, inputs, values, seed);
  const auto& makers = Makers();
  const int64_t size = g.draw().Between(4, 16);
  for (int64_t step = 0; step < size; ++step) {
    auto maker = makers.begin();
    std::advance(maker, g.draw().Below(static_cast<int64_t>(makers.size())));
    const std::vector<Output> outputs = maker->second(g);
    if (!scope.status().ok()) return {};
    if (outputs.empty()) continue;
    const size_t before = g.pool().size();
    if (const Status kept = g.Keep(outputs); !kept.ok()) {
      scope.Fail(Annotate(kept, maker->first));
      return {};
    }
    if (g.pool().size() > before) ++used[maker->first];
  }
  // The youngest values, which depend on the most.
  std::vector<Output> outputs;
  for (auto value = g.pool().rbegin(); value != g.pool().rend() && outputs.size() < 3; ++value)
    outputs.push_back(value->output);
  return outputs;
}

TEST(RandomGraphs, GradientsOfAThousand_EqualFiniteDifferences) {
  constexpr uint64_t kGraphs = 1000;
  std::map<std::string, int> used;
  for (uint64_t seed = 0; seed < kGraphs; ++seed) {
    Draw draw(seed + 77);
    const std::vector<Shape> shapes = {{2, 3}, {3}, {}, {2, 3, 2, 1}, {1, 3, 3, 2}, {2, 2}, {4}};
    std::vector<Tensor> inputs;
    const int64_t count = draw.Between(2, 3);
    for (int64_t i = 0; i < count; ++i)
      inputs.push_back(
          testing::DistinctTensor(shapes[static_cast<size_t>(draw.Below(static_cast<int64_t>(shapes.size())))],
                                  seed * 8 + static_cast<uint64_t>(i), 0.07));
    testing::GradientCheckOptions options;
    options.delta = 1e-6;
    options.tolerance = 1e-5;
    options.known_shapes = {static_cast<testing::KnownShapes>(draw.Below(3))};
    const Status status = CheckGradients(
        inputs, [&](const Scope& scope, const std::vector<Output>& x) { return Grow(scope, x, inputs, seed, used); },
        options);
    ASSERT_OK(status) << "seed " << seed;
  }
  for (const auto& [op, maker] : Makers()) EXPECT_GE(used[op], 10) << op << " is hardly ever chosen";
}

// What passes leave of a graph and its gradient computes the same bits.
TEST(RandomGraphs, Passes_ChangeNoBit) {
  CompileOptions none, exact;
  for (const Pass& pass : Passes()) {
    if (pass.optional) none.passes.without.emplace_back(pass.name);
    if (!pass.exact) exact.passes.without.emplace_back(pass.name);
  }
  std::map<std::string, int> used;
  size_t calls = 0, calls_without = 0;
  for (uint64_t seed = 5000; seed < 5300; ++seed) {
    Draw draw(seed);
    const std::vector<Shape> shapes = {{2, 3}, {3}, {1, 3}, {2, 3, 2, 1}, {1, 3, 3, 2}, {2, 2}, {4}};
    std::vector<Tensor> inputs;
    for (int64_t i = 0; i < 3; ++i)
      inputs.push_back(
          testing::DistinctTensor(shapes[static_cast<size_t>(draw.Below(static_cast<int64_t>(shapes.size())))],
                                  seed * 8 + static_cast<uint64_t>(i), 0.07));
    Graph graph;
    const Scope scope(graph);
    Feeds feeds;
    std::vector<Output> placeholders;
    for (size_t i = 0; i < inputs.size(); ++i) {
      placeholders.push_back(scope.Placeholder(
          "x" + std::to_string(i), DType::kFloat64,
          draw.Coin() ? inputs[i].shape() : Shape(std::vector<int64_t>(inputs[i].shape().rank(), -1))));
      feeds.emplace_back(placeholders.back().name(), inputs[i]);
    }
    const std::vector<Output> outputs = Grow(scope, placeholders, inputs, seed, used);
    ASSERT_OK(scope.status()) << "seed " << seed;
    std::vector<Output> sums;
    for (const Output& output : outputs) {
      const Output flat = scope.Op("Reshape", {output, scope.Const(Ints({-1}))});
      sums.push_back(scope.Op("Sum", {flat, scope.Const(Ints({0}))}));
    }
    const Output loss = scope.Op("AddN", sums);
    ASSERT_OK(scope.status()) << "seed " << seed;
    const auto gradients = ComputeGradients(graph, loss, placeholders);
    ASSERT_OK(gradients) << "seed " << seed;
    std::vector<std::string> fetches = {loss.name()};
    for (const Output& output : outputs) fetches.push_back(output.name());
    for (const Output& gradient : *gradients) fetches.push_back(gradient.name());
    auto plain = testing::CompiledGraph::Compile(graph, feeds, fetches, none);
    auto optimized = testing::CompiledGraph::Compile(graph, feeds, fetches, exact);
    ASSERT_OK(plain) << "seed " << seed;
    ASSERT_OK(optimized) << "seed " << seed;
    const auto expected = plain->Run(feeds, {}, seed), actual = optimized->Run(feeds, {}, seed);
    ASSERT_OK(expected) << "seed " << seed;
    ASSERT_OK(actual) << "seed " << seed;
    for (size_t i = 0; i < fetches.size(); ++i)
      ASSERT_EQ(std::memcmp((*expected)[i].data(), (*actual)[i].data(), (*expected)[i].bytes()), 0)
          << "seed " << seed << ": " << fetches[i];
    calls += optimized->program().instructions().size();
    calls_without += plain->program().instructions().size();
  }
  EXPECT_LT(calls, calls_without * 9 / 10) << "passes leave a tenth of the calls out";
}

}  // namespace
}  // namespace rivulet
