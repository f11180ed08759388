// Windows from outside: whatever strides, dilations, paddings and sizes a graph states, an op is built and run or
// refused with a sentence, and never brings the process down.
#include <cmath>
#include <limits>
#include <random>

#include "engine/graph/scope.h"
#include "tests/testing/run_graph.h"

namespace rivulet {
namespace {

class Hostile {
 public:
  explicit Hostile(uint32_t seed) : random_(seed) {}
  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  // Mostly sensible, at times absurd.
  int64_t Amount() {
    static constexpr int64_t kAbsurd[] = {0,
                                          -1,
                                          -3,
                                          17,
                                          1 << 20,
                                          int64_t{1} << 31,
                                          (int64_t{1} << 31) - 1,
                                          int64_t{1} << 40,
                                          std::numeric_limits<int64_t>::max(),
                                          std::numeric_limits<int64_t>::min()};
    return Below(6) == 0 ? kAbsurd[Below(std::size(kAbsurd))] : 1 + Below(3);
  }
  std::vector<int64_t> Amounts(bool nchw, bool padding) {
    const size_t count = Below(20) == 0 ? static_cast<size_t>(Below(9)) : padding ? 8 : 4;
    std::vector<int64_t> list(count, padding ? 0 : 1);
    for (size_t i = 0; i < count; ++i) {
      const size_t axis = padding ? i / 2 : i;
      const bool spatial = nchw ? axis >= 2 : axis == 1 || axis == 2;
      if (spatial || Below(30) == 0) list[i] = padding && Below(2) == 0 ? 0 : Amount();
    }
    return list;
  }
  Shape Dims() {
    std::vector<int64_t> dims;
    for (int i = 0; i < 4; ++i) dims.push_back(Below(12) == 0 ? 0 : 1 + Below(6));
    return Shape(std::move(dims));
  }

 private:
  std::mt19937_64 random_;
};

Output Filled(const Scope& scope, const Shape& shape) {
  Tensor tensor(DType::kFloat32, shape);
  for (size_t i = 0; float& x : tensor.flat<float>()) x = static_cast<float>(i++ % 7) - 3;
  return scope.Const(std::move(tensor));
}
Output Sizes(const Scope& scope, const Shape& shape) {
  const std::vector<int32_t> sizes(shape.dims().begin(), shape.dims().end());
  return scope.Const(Tensor::Of<int32_t>(Shape({shape.rank()}), std::span<const int32_t>(sizes)));
}

TEST(HostileWindows, AnyAttributes_AreServedOrRefused) {
  int served = 0, refused = 0;
  for (uint32_t seed = 0; seed < 4000; ++seed) {
    Hostile hostile(seed);
    Graph graph;
    const Scope scope(graph);
    const bool nchw = hostile.Below(2) == 0;
    AttrMap attrs = {{"strides", hostile.Amounts(nchw, false)}, {"data_format", std::string(nchw ? "NCHW" : "NHWC")}};
    const int64_t padding = hostile.Below(3);
    attrs["padding"] = std::string(padding == 0 ? "SAME" : padding == 1 ? "VALID" : "EXPLICIT");
    if (padding == 2) attrs["explicit_paddings"] = hostile.Amounts(nchw, true);
    const Shape image = hostile.Dims(), other = hostile.Dims();
    const std::vector<std::string> ops = {"Conv2D",
                                          "Conv2DBackpropInput",
                                          "Conv2DBackpropFilter",
                                          "DepthwiseConv2dNative",
                                          "DepthwiseConv2dNativeBackpropInput",
                                          "DepthwiseConv2dNativeBackpropFilter",
                                          "MaxPool",
                                          "AvgPool",
                                          "MaxPoolGrad",
                                          "AvgPoolGrad"};
    const std::string op = ops[static_cast<size_t>(hostile.Below(static_cast<int64_t>(ops.size())))];
    const bool pool = op.find("Pool") != std::string::npos, depthwise = op.starts_with("Depthwise");
    SCOPED_TRACE(fmt::format("{} of seed {}", op, seed));
    const Output x = Filled(scope, image);
    if (pool) {
      if (op.starts_with("Avg") && attrs.contains("explicit_paddings")) {
        attrs["_explicit_paddings"] = attrs["explicit_paddings"];
        attrs.erase("explicit_paddings");
      }
      attrs["ksize"] = hostile.Amounts(nchw, false);
      if (hostile.Below(3) == 0) attrs["_dilations"] = hostile.Amounts(nchw, false);
      if (hostile.Below(3) == 0) attrs["_ceil_mode"] = true;
      if (hostile.Below(3) == 0) attrs["_count_include_pad"] = true;
    } else {
      attrs["dilations"] = hostile.Amounts(nchw, false);
    }
    const int64_t channels = image.dim(nchw ? 1 : 3);
    const Shape filter({other.dim(0), other.dim(1), hostile.Below(5) == 0 ? other.dim(2) : channels, other.dim(3)});
    // The gradients get what the forward op gives, where it gives something small.
    const std::string forward = pool ? op.substr(0, 7) : depthwise ? "DepthwiseConv2dNative" : "Conv2D";
    Output y = pool ? scope.Op(forward, {x}, attrs) : scope.Op(forward, {x, Filled(scope, filter)}, attrs);
    if (scope.status().ok()) {
      const StatusOr<int64_t> elements = y.shape().CheckedElements();
      if (!elements.ok() || *elements > 100000) continue;
      const Output gradient = Filled(scope, y.shape());
      if (op == "MaxPoolGrad") y = scope.Op(op, {x, y, gradient}, attrs);
      if (op == "AvgPoolGrad") y = scope.Op(op, {Sizes(scope, image), gradient}, attrs);
      if (op.ends_with("BackpropInput"))
        y = scope.Op(op, {Sizes(scope, image), Filled(scope, filter), gradient}, attrs);
      if (op.ends_with("BackpropFilter")) y = scope.Op(op, {x, Sizes(scope, filter), gradient}, attrs);
    }
    if (!scope.status().ok()) {
      EXPECT_FALSE(Message(scope.status()).empty());
      ++refused;
      continue;
    }
    const auto outputs = testing::RunGraph(graph, {}, {y.name()});
    if (!outputs.ok()) {
      EXPECT_FALSE(Message(outputs.status()).empty());
      ++refused;
      continue;
    }
    for (float value : std::as_const((*outputs)[0]).flat<float>()) ASSERT_TRUE(std::isfinite(value)) << op << seed;
    ++served;
  }
  EXPECT_GT(served, 500);
  EXPECT_GT(refused, 500);
}

TEST(HostileWindows, InThePaddingAlone_IsRefused) {
  Graph graph;
  const Scope scope(graph);
  const Output y = scope.Op("MaxPool", {Filled(scope, {1, 1, 2, 1})},
                            {{"ksize", std::vector<int64_t>{1, 1, 2, 1}},
                             {"strides", std::vector<int64_t>{1, 1, 1, 1}},
                             {"padding", std::string("EXPLICIT")},
                             {"explicit_paddings", std::vector<int64_t>{0, 0, 0, 0, 2, 0, 0, 0}}});
  ASSERT_EQ(scope.status(), absl::OkStatus());
  EXPECT_THAT(std::string(Message(testing::RunGraph(graph, {}, {y.name()}).status())),
              ::testing::HasSubstr("is completely in the padding"));
}

}  // namespace
}  // namespace rivulet
