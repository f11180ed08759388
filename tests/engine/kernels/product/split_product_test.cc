// float32 products of factors split into bfloat16 parts, compared with float64 sums: as exact as any float32 sum, for
// every shape and layout.
#include "engine/kernels/cpu/product/split_product.h"

#include <gmock/gmock.h>

#include "tests/engine/kernels/product/split_problem.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {
namespace {

bool Make(const SplitProduct& p, const float* a, const float* b, std::vector<float>& c) {
  c.assign(static_cast<size_t>(p.m * p.n) + 16, -7.0f);
  AlignedBuffer scratch(SplitProductScratch(p));
  std::memset(scratch.data(), 0xFF, scratch.size());
  const bool made = RunSplitProduct(p, a, b, c.data(), scratch.data());
  for (size_t i = c.size() - 16; i < c.size(); ++i) EXPECT_EQ(c[i], -7.0f) << "written behind the product";
  return made;
}

TEST_F(SplitProductTest, EveryShapeAndLayout_IsTheSum) {
  for (const bool turned_a : {false, true}) {
    for (const bool turned_b : {false, true}) {
      for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{{1, 1, 1},
                                                                       {32, 32, 32},
                                                                       {33, 47, 65},
                                                                       {16, 48, 17},
                                                                       {37, 16, 70},
                                                                       {48, 80, 256},
                                                                       {20, 530, 300},
                                                                       {65, 31, 321},
                                                                       {100, 65, 515}}) {
        const SplitProduct p = ShapeOf(m, n, k, turned_a, turned_b);
        const Tensor a = RandomTensor<float>({m * k}, 1), b = RandomTensor<float>({k * n}, 2);
        std::vector<float> c;
        ASSERT_TRUE(Make(p, a.flat<float>().data(), b.flat<float>().data(), c));
        ExpectSums(p, a.flat<float>().data(), b.flat<float>().data(), c);
      }
    }
  }
}

// No sum of its own: the error is that of products alone, of which a whole float32 has three parts.
TEST_F(SplitProductTest, SingleProducts_AreThoseOfFloat32ButForTheirLastBit) {
  const SplitProduct p = ShapeOf(64, 64, 1, false, false);
  std::vector<float> a(64), b(64), c;
  for (size_t i = 0; i < 64; ++i) {
    a[i] = std::ldexp(1.0f + static_cast<float>(i * 131071 + 8193) * 0x1p-23f, static_cast<int>(i) - 32);
    b[i] = -std::ldexp(1.0f + static_cast<float>(i * 98317 + 12345) * 0x1p-23f, 16 - static_cast<int>(i));
  }
  ASSERT_TRUE(Make(p, a.data(), b.data(), c));
  for (size_t row = 0; row < 64; ++row)
    for (size_t column = 0; column < 64; ++column) {
      const double product = static_cast<double>(a[row]) * b[column];
      ASSERT_NEAR(c[row * 64 + column], product, 3 * 0x1p-24 * std::abs(product));
    }
}

TEST_F(SplitProductTest, WholeNumbersAndZeros_AreExact) {
  const SplitProduct p = ShapeOf(40, 40, 100, false, true);
  std::vector<float> a(4000), b(4000), c;
  for (size_t i = 0; i < 4000; ++i) {
    a[i] = i / 100 == 3 ? 0.0f : static_cast<float>(static_cast<int>(i * 7919 % 401) - 200);
    b[i] = static_cast<float>(static_cast<int>(i * 104729 % 301) - 150);
  }
  ASSERT_TRUE(Make(p, a.data(), b.data(), c));
  for (int64_t row = 0; row < 40; ++row)
    for (int64_t column = 0; column < 40; ++column)
      ASSERT_EQ(c[static_cast<size_t>(row * 40 + column)],
                static_cast<float>(SumOf(p, a.data(), b.data(), row, column).value));
}

TEST_F(SplitProductTest, InfinityNaNAndTheLargest_AreRefusedWhereverTheyAre) {
  for (const float strange : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(),
                              -std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::max()}) {
    for (const bool turned : {false, true}) {
      const SplitProduct p = ShapeOf(37, 50, 300, turned, turned);
      for (const size_t at : {size_t{0}, size_t{17}, size_t{5555}, size_t{37 * 300 - 1}}) {
        std::vector<float> a(37 * 300, 1.0f), b(50 * 300, 1.0f), c;
        EXPECT_TRUE(Make(p, a.data(), b.data(), c));
        a[at] = strange;
        EXPECT_FALSE(Make(p, a.data(), b.data(), c)) << strange << " at " << at;
        a[at] = 1.0f;
        b[at] = strange;
        EXPECT_FALSE(Make(p, a.data(), b.data(), c)) << strange << " at " << at;
      }
    }
  }
}

// What a program sees then: the sums that any kernel has.
TEST_F(SplitProductTest, MatMulOfInfinity_IsWhatFloat32HasOfIt) {
  constexpr size_t kColumns = 256, kTerms = 64;
  Tensor a = RandomTensor<float>({256, kTerms}, 1);
  const Tensor b = RandomTensor<float>({kTerms, kColumns}, 2);
  const auto plain = RunOp("MatMul", {a, b});
  ASSERT_OK(plain);
  EXPECT_EQ(plain->implementation, "amx, three parts");
  a.flat<float>()[5 * kTerms + 9] = kInfinity;
  const auto run = RunOp("MatMul", {a, b});
  ASSERT_OK(run);
  const auto c = run->outputs[0].flat<float>(), finite = plain->outputs[0].flat<float>();
  for (size_t i = 0; i < c.size(); ++i) {
    if (i / kColumns == 5) {
      EXPECT_EQ(c[i], b.flat<float>()[9 * kColumns + i % kColumns] > 0 ? kInfinity : -kInfinity);
    } else {
      EXPECT_NEAR(c[i], finite[i], 64 * 0x1p-24);
    }
  }
}

// Taking small factors apart takes longer than multiplying them by vectors.
TEST_F(SplitProductTest, Choice_HangsOnTheShapeAlone) {
  struct Choice {
    int64_t m, n, k;
    bool turned_a, splits;
  };
  for (const Choice& c :
       {Choice{800, 64, 64, false, true}, Choice{800, 1024, 256, false, true}, Choice{64, 64, 800, true, true},
        Choice{64, 64, 64, false, false}, Choice{100, 200, 784, false, false}, Choice{100, 100, 100, false, false}}) {
    const auto run = RunOp(
        "MatMul",
        {RandomTensor<float>(c.turned_a ? Shape{c.k, c.m} : Shape{c.m, c.k}, 1), RandomTensor<float>({c.k, c.n}, 2)},
        {{"transpose_a", c.turned_a}});
    ASSERT_OK(run);
    EXPECT_EQ(run->implementation == "amx, three parts", c.splits) << c.m << "x" << c.n << "x" << c.k;
  }
}

TEST_F(SplitProductTest, BiasAndActivation_HaveTheBitsOfOnesApart) {
  for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{{320, 128, 256}, {300, 600, 64}, {512, 250, 96}}) {
    const Tensor a = RandomTensor<float>({m, k}, 1), b = RandomTensor<float>({k, n}, 2);
    const Tensor bias = RandomTensor<float>({n}, 3);
    for (const char* activation : {"", "Relu", "Relu6"}) {
      std::vector<std::string> ops = {"BiasAdd"};
      if (*activation != 0) ops.emplace_back(activation);
      const auto fused = RunOp("_FusedMatMul", {a, b, bias}, {{"fused_ops", ops}}), product = RunOp("MatMul", {a, b});
      ASSERT_OK(fused);
      ASSERT_OK(product);
      EXPECT_THAT(fused->implementation, ::testing::StartsWith("amx, three parts + bias"));
      auto apart = RunOp("BiasAdd", {product->outputs[0], bias});
      ASSERT_OK(apart);
      if (*activation != 0) apart = RunOp(activation, {apart->outputs[0]});
      ASSERT_OK(apart);
      EXPECT_THAT(fused->outputs[0].flat<float>(), ::testing::ElementsAreArray(apart->outputs[0].flat<float>()));
    }
  }
}

TEST_F(SplitProductTest, BiasOfAProductWithNaN_IsAddedOnce) {
  Tensor a = RandomTensor<float>({256, 64}, 1);
  const Tensor b = RandomTensor<float>({64, 256}, 2), bias = RandomTensor<float>({256}, 3);
  const std::vector<std::string> ops = {"BiasAdd"};
  const auto plain = RunOp("_FusedMatMul", {a, b, bias}, {{"fused_ops", ops}});
  ASSERT_OK(plain);
  a.flat<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  const auto run = RunOp("_FusedMatMul", {a, b, bias}, {{"fused_ops", ops}});
  ASSERT_OK(run);
  const auto actual = run->outputs[0].flat<float>(), expected = plain->outputs[0].flat<float>();
  for (size_t i = 0; i < actual.size(); ++i) {
    if (i < 256) {
      EXPECT_TRUE(std::isnan(actual[i]));
    } else {
      EXPECT_NEAR(actual[i], expected[i], 65 * 0x1p-24);
    }
  }
}

}  // namespace
}  // namespace rivulet::testing
