// A step of a recurrent layer in one pass over its gates has the bits of the plain loops, on every instruction set. So
// has a product whose second factor was packed beforehand.
#include <gmock/gmock.h>

#include <cstring>

#include "engine/kernels/cpu/product/small_matmul.h"
#include "tests/engine/kernels/every_target.h"
#include "tests/engine/kernels/run_op.h"
#include "tests/testing/run_graph.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {
namespace {

// More steps than a kernel is laid out for, units that fill no vector, sequences of unlike lengths.
constexpr int64_t kSteps = 9, kBatch = 3, kUnits = 37;

Tensor Rows(int64_t gates, uint32_t seed) { return RandomTensor<float>({kBatch, kSteps, gates * kUnits}, seed); }
Tensor Kernel(int64_t gates) { return RandomTensor<float>({kUnits, gates * kUnits}, 2); }
Tensor State(uint32_t seed) { return RandomTensor<float>({kBatch, kUnits}, seed); }
Tensor LeftOut() { return Tensor(DType::kFloat32, Shape{0}); }
Tensor Lengths() { return Tensor::Of<int32_t>(Shape{kBatch}, {9, 2, 7}); }

// A bound that nothing reaches makes the kernels take their loops. Zeros may differ in their sign.
std::vector<Tensor> ExpectBitsOfLoops(const std::string& op, const std::vector<Tensor>& inputs,
                                      const std::string& target) {
  const auto fused = RunOp(op, inputs), loops = RunOp(op, inputs, {{"clip", 1e30f}});
  EXPECT_OK(fused);
  EXPECT_OK(loops);
  for (size_t i = 0; i < fused->outputs.size(); ++i) {
    EXPECT_THAT(fused->outputs[i].flat<float>(), ::testing::ElementsAreArray(loops->outputs[i].flat<float>()))
        << op << " on " << target << ", output " << i;
  }
  return fused->outputs;
}

TEST(SequenceRows, Lstm_HasTheBitsOfItsLoops) {
  OnEveryTarget([](const std::string& target) {
    const std::vector<Tensor> made =
        ExpectBitsOfLoops("LSTM", {Rows(4, 1), Kernel(4), State(3), State(4), LeftOut(), Lengths()}, target);
    ExpectBitsOfLoops("LSTMGrad",
                      {Kernel(4), State(3), State(4), LeftOut(), Lengths(), made[0], made[3], made[4], Rows(1, 5),
                       State(6), State(7), Rows(1, 8)},
                      target);
  });
}

// Inside a step the gates and the output's gradient die with LSTMGrad, whose outputs then lie where they lay.
void ExpectLstmGradientInPlace(const Tensor& lengths, const AttrMap& attrs) {
  const std::vector<Tensor> forward = {Rows(4, 1), Kernel(4), State(3), State(4), LeftOut(), lengths};
  ASSERT_OK_AND_ASSIGN(const OpRun made, RunOp("LSTM", forward, attrs));
  ASSERT_OK_AND_ASSIGN(const OpRun output_grad, RunOp("Neg", {Rows(1, 5)}));
  ASSERT_OK_AND_ASSIGN(const OpRun apart,
                       RunOp("LSTMGrad",
                             {Kernel(4), State(3), State(4), LeftOut(), lengths, made.outputs[0], made.outputs[3],
                              made.outputs[4], output_grad.outputs[0], State(6), State(7), LeftOut()},
                             attrs));
  Graph graph;
  const Scope scope(graph);
  Feeds feeds;
  const auto feed = [&](const Tensor& value) {
    feeds.emplace_back(fmt::format("x{}", feeds.size()), value);
    return scope.Placeholder(feeds.back().first, value.dtype(), value.shape());
  };
  std::vector<Output> x;
  for (const Tensor& input : forward) x.push_back(feed(input));
  Node* const lstm = scope.AddNode("LSTM", x, attrs);
  const std::vector<Output> inputs = {x[1],
                                      x[2],
                                      x[3],
                                      x[4],
                                      x[5],
                                      lstm->output(0),
                                      lstm->output(3),
                                      lstm->output(4),
                                      scope.Op("Neg", {feed(Rows(1, 5))}),
                                      feed(State(6)),
                                      feed(State(7)),
                                      x[4]};
  Node* const gradient = scope.AddNode("LSTMGrad", inputs, attrs);
  ASSERT_OK(scope.status());
  std::vector<std::string> fetches;
  for (int port = 0; port < 4; ++port) fetches.push_back(gradient->output(port).name());
  ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> in_place, RunGraph(graph, feeds, fetches));
  for (size_t i = 0; i < in_place.size(); ++i)
    EXPECT_EQ(std::memcmp(in_place[i].data(), apart.outputs[i].data(), in_place[i].bytes()), 0) << "output " << i;
}

TEST(SequenceRows, LstmGradientInPlaceOfItsGates_HasTheBitsOfOneApart) {
  for (const float clip : {0.0f, 1e30f})  // one pass, and loops
    for (const bool reverse : {false, true})
      for (const Tensor& lengths : {Lengths(), Tensor(DType::kInt32, Shape{0})})
        ExpectLstmGradientInPlace(lengths, {{"clip", clip}, {"reverse", reverse}});
}

TEST(SequenceRows, Gru_HasTheBitsOfItsLoops) {
  OnEveryTarget([](const std::string& target) {
    for (const bool bias : {false, true}) {
      const std::vector<Tensor> made = ExpectBitsOfLoops(
          "GRU", {Rows(3, 1), Kernel(3), bias ? RandomTensor<float>({3 * kUnits}, 9) : LeftOut(), State(3), Lengths()},
          target);
      ExpectBitsOfLoops("GRUGrad", {Kernel(3), State(3), Lengths(), made[0], made[2], Rows(1, 5), State(6)}, target);
    }
  });
}

TEST(PackedMatMul, FactorLaidOutBeforehand_GivesTheBitsOfThePlainProduct) {
  OnEveryTarget([](const std::string& target) {
    for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{
             {1, 1, 1}, {10, 96, 300}, {4, 37, 71}, {13, 32, 64}, {60, 70, 5}, {3, 33, 0}, {0, 5, 3}}) {
      const Tensor a = RandomTensor<float>({m, k}, 1), b = RandomTensor<float>({k, n}, 2);
      std::vector<float> plain(static_cast<size_t>(m * n)), product(plain.size()), turned(static_cast<size_t>(n * k));
      PanelMatMul(a.flat<float>().data(), k, 1, b.flat<float>().data(), plain.data(), m, n, k);
      TransposeMatrix(b.flat<float>().data(), turned.data(), k, n);
      for (const bool from_turned : {false, true}) {
        std::vector<float> packed(static_cast<size_t>(PackedElements(n, k)));
        PackPanels(from_turned ? turned.data() : b.flat<float>().data(), from_turned ? 1 : n, from_turned ? k : 1,
                   packed.data(), n, k);
        PackedMatMul(a.flat<float>().data(), k, 1, packed.data(), product.data(), m, n, k);
        EXPECT_TRUE(plain.empty() || std::memcmp(plain.data(), product.data(), plain.size() * sizeof(float)) == 0)
            << target << " " << m << " " << n << " " << k << " " << from_turned;
      }
    }
  });
}

}  // namespace
}  // namespace rivulet::testing
