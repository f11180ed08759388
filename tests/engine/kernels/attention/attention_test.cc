// Attention and its gradient for floats on every instruction set, compared with doubles.
#include <gmock/gmock.h>

#include <limits>

#include "tests/engine/kernels/every_target.h"
#include "tests/engine/kernels/run_op.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {
namespace {

struct AttentionCase {
  int64_t batch, heads, shared, time, keys, depth, width;
  bool causal = false;
  int64_t offset = 0;
  float scale = 0;
};

Tensor Widened(const Tensor& from) {
  Tensor wide(DType::kFloat64, from.shape());
  for (size_t i = 0; i < static_cast<size_t>(from.elements()); ++i)
    wide.flat<double>()[i] = static_cast<double>(from.flat<float>()[i]);
  return wide;
}

// Values and errors are of the order of 1; a log of a sum of nothing is -infinity in both.
void ExpectClose(const Tensor& actual, const Tensor& expected, double tolerance, const std::string& what) {
  double worst = 0;
  for (size_t i = 0; i < static_cast<size_t>(expected.elements()); ++i) {
    const double a = static_cast<double>(actual.flat<float>()[i]), e = expected.flat<double>()[i];
    if (a != e) worst = std::max(worst, std::abs(a - e));
    if (std::isnan(a)) worst = std::numeric_limits<double>::infinity();
  }
  EXPECT_LE(worst, tolerance) << what;
}

TEST(Attention, EveryTarget_IsThatOfDoubles) {
  const std::vector<AttentionCase> cases = {
      {2, 4, 4, 80, 80, 16, 16, true},
      {1, 2, 2, 80, 80, 16, 16},
      {1, 2, 1, 1, 1, 1, 1},
      {1, 4, 2, 13, 33, 5, 40, true, 20},
      {1, 2, 2, 49, 31, 24, 7, true, -3},
      {1, 1, 1, 100, 32, 64, 33, true, -40},
      {1, 1, 1, 7, 1100, 8, 8},
      {1, 3, 1, 50, 45, 16, 16, true, 0, 2.5f},
      {1, 2, 2, 20, 20, 4, 4, false, 0, -1},
      {1, 1, 1, 5, 0, 4, 4},
  };
  for (size_t number = 0; number < cases.size(); ++number) {
    const AttentionCase& c = cases[number];
    const AttrMap attrs = {{"causal", c.causal}, {"causal_offset", c.offset}, {"scale", c.scale}};
    std::vector<Tensor> inputs = {RandomTensor<float>({c.batch, c.heads, c.time, c.depth}, 1),
                                  RandomTensor<float>({c.batch, c.shared, c.keys, c.depth}, 2),
                                  RandomTensor<float>({c.batch, c.shared, c.keys, c.width}, 3),
                                  Tensor(DType::kBool, Shape({0}))};
    std::vector<Tensor> wide;
    for (const Tensor& input : inputs) wide.push_back(input.dtype() == DType::kBool ? input : Widened(input));
    const auto expected = RunOp("ScaledDotProductAttention", wide, attrs);
    ASSERT_OK(expected);
    const Tensor output_grad = RandomTensor<float>({c.batch, c.heads, c.time, c.width}, 4);
    auto wide_grad_inputs = wide;
    for (const Tensor& tensor : {expected->outputs[0], expected->outputs[1], Widened(output_grad)})
      wide_grad_inputs.push_back(tensor);
    const auto expected_grad = RunOp("ScaledDotProductAttentionGrad", wide_grad_inputs, attrs);
    ASSERT_OK(expected_grad);
    OnEveryTarget([&](const std::string& target) {
      const std::string what = fmt::format("case {} on {}, output ", number, target);
      const auto run = RunOp("ScaledDotProductAttention", inputs, attrs, {}, {}, /*misalign=*/sizeof(float));
      ASSERT_OK(run);
      ExpectClose(run->outputs[0], expected->outputs[0], 1e-6, what + "0");
      ExpectClose(run->outputs[1], expected->outputs[1], 4e-6, what + "1");
      auto grad_inputs = inputs;
      for (const Tensor& tensor : {run->outputs[0], run->outputs[1], output_grad}) grad_inputs.push_back(tensor);
      const auto grad = RunOp("ScaledDotProductAttentionGrad", grad_inputs, attrs, {}, {}, sizeof(float));
      ASSERT_OK(grad);
      for (size_t i = 0; i < 3; ++i)
        ExpectClose(grad->outputs[i], expected_grad->outputs[i], 1e-5, fmt::format("{}{} of the gradient", what, i));
    });
  }
}

// Scores of +-infinity and NaN, by the rules of the op: a row without any score above -infinity is 0.
TEST(Attention, ExtremeScores_MakeNothingElseNaN) {
  const float infinity = std::numeric_limits<float>::infinity();
  const Tensor query = Tensor::Of<float>({1, 1, 4, 1}, {-infinity, infinity, std::nanf(""), 1});
  const Tensor key = Tensor::Of<float>({1, 1, 2, 1}, {1, 2}), value = Tensor::Of<float>({1, 1, 2, 1}, {3, 5});
  OnEveryTarget([&](const std::string& target) {
    const auto run = RunOp("ScaledDotProductAttention", {query, key, value, Tensor(DType::kBool, Shape({0}))});
    ASSERT_OK(run);
    const float *out = run->outputs[0].flat<float>().data(), *log_sum = run->outputs[1].flat<float>().data();
    EXPECT_TRUE(out[0] == 0 && log_sum[0] == -infinity) << target;
    EXPECT_TRUE(std::isnan(out[1]) && std::isnan(out[2]) && std::isnan(log_sum[2])) << target;
    EXPECT_NEAR(static_cast<double>(out[3]), 3 + 2 / (1 + std::exp(-1.0)), 1e-6) << target;
  });
}

}  // namespace
}  // namespace rivulet::testing
