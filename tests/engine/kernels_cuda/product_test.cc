// Matrix products in every tile and layout.
#include <gtest/gtest.h>

#include <limits>

#include "engine/compile/compile_gpu.h"
#include "engine/graph/scope.h"
#include "engine/kernels/cuda/library_product.h"
#include "engine/kernels/cuda/product_launch.h"
#include "engine/kernels/cuda/product_table.h"
#include "engine/program/staged_gpu_program.h"
#include "tests/emulated_gpu/emulated_backend.h"
#include "tests/engine/kernels_cuda/op_case.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {
namespace {

struct Sizes {
  int64_t m, n, k;
};

Tensor Matrix(int64_t rows, int64_t columns, bool turned, uint32_t seed, bool doubles = false) {
  const Shape shape = turned ? Shape{columns, rows} : Shape{rows, columns};
  return doubles ? Doubles(shape, seed) : Floats(shape, seed);
}

// Rows and columns around the edges of every tile.
TEST(GpuProductTest, MatMul_EveryTileAndLayout_IsTheCpus) {
  const std::vector<Sizes> sizes = {{1, 1, 1},    {10, 10, 37}, {16, 64, 16},   {17, 65, 17},
                                    {65, 33, 20}, {70, 31, 9},  {3, 5, 0},      {0, 4, 3},
                                    {64, 70, 33}, {520, 65, 5}, {515, 130, 18}, {3, 5, 511},
                                    {3, 5, 512},  {9, 66, 777}, {20, 40, 1100}, {70, 70, 520}};
  for (const auto& [m, n, k] : sizes) {
    for (const bool a : {false, true}) {
      for (const bool b : {false, true}) {
        CheckOnGpu({.op = "MatMul",
                    .inputs =
                        [=, m = m, n = n, k = k](uint32_t s) {
                          return std::vector{Matrix(m, k, a, s), Matrix(k, n, b, s + 50)};
                        },
                    .attrs = {{"transpose_a", a}, {"transpose_b", b}},
                    .tolerance = k > 256 ? 4e-5 : 1e-5,
                    .name = fmt::format("{}x{}x{}{}{}", m, n, k, a ? " a turned" : "", b ? " b turned" : "")});
      }
    }
  }
}

// A long depth of few tiles is cut, into parts that are nowhere beyond its end, and that only the shape decides.
TEST(GpuProductTest, ChunksOfADepth_CoverIt) {
  for (const int64_t depth : {0, 1, 16, 255, 511, 512, 513, 777, 1024, 9000, 12544, 100000}) {
    for (const int64_t rows : {10, 100, 2000}) {
      const gpu::Tile tile = gpu::TileFor(DType::kFloat32, rows, 64);
      const gpu::DepthChunks chunks = gpu::ChunksFor(tile, rows, 64, depth);
      const int64_t count = chunks.count.divisor, tiles = (rows + tile.rows - 1) / tile.rows;
      if (depth < 512 || tiles > 16) {
        EXPECT_EQ(count, 1) << depth;
      }
      if (depth >= 1024 && tiles <= 8) {
        EXPECT_GT(count, 1) << depth;
      }
      EXPECT_LE(count * tiles, std::max<int64_t>(tiles, 32));
      EXPECT_GE(count * chunks.depth, depth);
      EXPECT_LT((count - 1) * chunks.depth, std::max<int64_t>(depth, 1));
      EXPECT_EQ(chunks.depth % 32, 0);
      EXPECT_EQ(gpu::PartialBytes(chunks, DType::kFloat32, rows, 64),
                count == 1 ? 0 : static_cast<size_t>(count * rows * 64 * 4));
    }
  }
}

TEST(GpuProductTest, MatMul_Doubles) {
  for (const bool turned : {false, true})
    CheckOnGpu({.op = "MatMul",
                .inputs =
                    [=](uint32_t s) {
                      return std::vector{Matrix(66, 40, turned, s, true), Matrix(40, 70, turned, s + 50, true)};
                    },
                .attrs = {{"transpose_a", turned}, {"transpose_b", turned}},
                .tolerance = 1e-13});
}

TEST(GpuProductTest, FusedMatMul_BiasAndActivation_AreTheCpus) {
  for (const std::vector<std::string>& fused :
       std::vector<std::vector<std::string>>{{"BiasAdd"}, {"BiasAdd", "Relu"}, {"BiasAdd", "Relu6"}}) {
    for (const auto& [m, n, k] : {Sizes{10, 20, 50}, Sizes{70, 90, 12}, Sizes{10, 20, 900}})
      CheckOnGpu({.op = "_FusedMatMul",
                  .inputs =
                      [=, m = m, n = n, k = k](uint32_t s) {
                        Tensor bias = Floats({n}, s + 1);
                        bias.flat<float>()[1] = std::numeric_limits<float>::quiet_NaN();
                        return std::vector{Floats({m, k}, s), Floats({k, n}, s + 9), bias};
                      },
                  .attrs = {{"num_args", int64_t{1}}, {"fused_ops", fused}},
                  .tolerance = 1e-5});
  }
}

TEST(GpuProductTest, BatchMatMul_AndOneForAll) {
  for (const bool turned : {false, true}) {
    CheckOnGpu({.op = "BatchMatMulV2",
                .inputs =
                    [=](uint32_t s) {
                      return std::vector{Floats(turned ? Shape{2, 3, 7, 18} : Shape{2, 3, 18, 7}, s),
                                         Floats(turned ? Shape{2, 3, 20, 7} : Shape{2, 3, 7, 20}, s + 3)};
                    },
                .attrs = {{"adj_x", turned}, {"adj_y", turned}},
                .tolerance = 1e-5});
  }
  CheckOnGpu({.op = "BatchMatMulV2",
              .inputs =
                  [](uint32_t s) {
                    return std::vector{Floats({4, 5, 6}, s), Floats({6, 3}, s + 3)};
                  },
              .tolerance = 1e-5});
}

TEST(GpuProductTest, BatchMatMul_RepeatingAlongSomeAxes_SaysTheMend) {
  const Status status = PrepareOnGpu({.op = "BatchMatMulV2", .inputs = [](uint32_t s) {
                                        return std::vector{Floats({2, 1, 5, 6}, s), Floats({1, 3, 6, 3}, s + 3)};
                                      }});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(status.message(),
            "products of 2 and 3 matrices that repeat along some axes alone, on a GPU; broadcast them first");
}

// What a lane of infinities and NaN computes reaches no other.
TEST(GpuProductTest, MatMul_NotFinite_StaysInItsRowAndLane) {
  CheckOnGpu({.op = "MatMul",
              .inputs =
                  [](uint32_t s) {
                    Tensor a = Floats({20, 20}, s);
                    if (s == 1) a.flat<float>()[45] = std::numeric_limits<float>::quiet_NaN();
                    return std::vector{a, Floats({20, 30}, s + 1)};
                  },
              .tolerance = 1e-5});
}

// The same products as without it, so that places, layouts and edges are all that may go wrong.
TEST(GpuProductTest, Tf32_OfFactorsThatItHolds_IsTheCpus) {
  const std::vector<Sizes> sizes = {{1, 1, 1},   {10, 10, 37}, {16, 64, 16}, {17, 65, 17}, {65, 33, 20},
                                    {70, 31, 9}, {3, 5, 0},    {64, 70, 33}, {520, 65, 5}, {515, 130, 18}};
  for (const auto& [m, n, k] : sizes) {
    for (const bool a : {false, true}) {
      for (const bool b : {false, true}) {
        CheckOnGpu({.op = "MatMul",
                    .inputs =
                        [=, m = m, n = n, k = k](uint32_t s) {
                          return std::vector{RoundedToTf32(Matrix(m, k, a, s)), RoundedToTf32(Matrix(k, n, b, s + 50))};
                        },
                    .attrs = {{"transpose_a", a}, {"transpose_b", b}},
                    .tolerance = k > 256 ? 4e-5 : 1e-5,
                    .name = fmt::format("{}x{}x{}{}{}", m, n, k, a ? " a turned" : "", b ? " b turned" : ""),
                    .device = {.allow_tf32 = true}});
      }
    }
  }
}

// 1 + 2⁻¹¹ lies in the middle between two numbers of TF32, and goes up; 1 + 2⁻¹² goes down.
TEST(GpuProductTest, Tf32_RoundsFactorsToTenBits_AndOnlyWhereItIsAllowed) {
  const auto product = [](float value, bool allow) {
    Graph graph;
    Scope scope(graph);
    const Tensor x = Tensor::Of<float>(Shape{1, 1}, {value});
    scope.Op(
        "MatMul",
        {scope.Placeholder("x", DType::kFloat32, Shape{1, 1}), scope.Const(Tensor::Of<float>(Shape{1, 1}, {1.0f}))}, {},
        "y");
    const Signature signature{.feeds = {{"x", {DType::kFloat32, Shape{1, 1}}}}, .fetches = {"y"}};
    const auto program = CompileForGpu(graph, signature);
    EXPECT_OK(program);
    const auto device = GpuDevice::Open(gpu::EmulatedBackend(), 0, {.allow_tf32 = allow});
    EXPECT_OK(device);
    const auto staged = NewStagedProgram(*program, *device);
    const auto instance = staged->Instantiate();
    EXPECT_OK(instance);
    Tensor y(DType::kFloat32, Shape{1, 1});
    const std::vector<TensorView> feeds = {x.view()}, fetches = {y.view()};
    Bindings bindings;
    bindings.feeds = feeds;
    bindings.fetches = fetches;
    EXPECT_OK((*instance)->Run(bindings));
    return y.flat<float>()[0];
  };
  EXPECT_EQ(product(1 + 0x1p-11f, true), 1 + 0x1p-10f);
  EXPECT_EQ(product(1 + 0x1p-12f, true), 1.0f);
  EXPECT_EQ(product(1 + 0x1p-12f, false), 1 + 0x1p-12f);
}

// What the table says of shapes and devices, and what is never the library's.
TEST(LibraryProductsTest, Table_IsAskedByShapeAndDeviceAlone) {
  const gpu::LibraryAlgorithm algorithm{.id = 21, .tile = 18};
  const std::vector<gpu::LibraryProduct> table = {{.compute_major = 9,
                                                   .compute_minor = 0,
                                                   .arithmetic = "float",
                                                   .turn_a = false,
                                                   .turn_b = true,
                                                   .least_rows = 1,
                                                   .most_rows = 16,
                                                   .columns = 512,
                                                   .depth = 3136,
                                                   .algorithm = algorithm}};
  RivuletGpuProperties hopper{};
  hopper.compute_major = 9;
  const auto asked = [&](gpu::ProductArguments p, std::string_view arithmetic = "float") {
    return gpu::LibraryFor(table, hopper, arithmetic, p);
  };
  gpu::ProductArguments p = gpu::ProductOfMatrices(10, 512, 3136, false, true);
  EXPECT_EQ(asked(p), algorithm);
  for (const int lanes : {1, 3, 64}) {
    p.lanes.count = lanes;
    EXPECT_EQ(asked(p), algorithm);
  }
  EXPECT_EQ(asked(p, "tf32"), std::nullopt);
  EXPECT_EQ(asked(gpu::ProductOfMatrices(16, 512, 3136, false, true)), algorithm);
  EXPECT_EQ(asked(gpu::ProductOfMatrices(17, 512, 3136, false, true)), std::nullopt);
  EXPECT_EQ(asked(gpu::ProductOfMatrices(10, 512, 3136, false, false)), std::nullopt);
  EXPECT_EQ(asked(gpu::ProductOfMatrices(10, 512, 3136, true, true)), std::nullopt);
  gpu::ProductArguments odd = p;
  odd.epilogue.activation = gpu::kRelu6;
  EXPECT_EQ(asked(odd), std::nullopt);
  odd = p;
  odd.batches = 2;
  EXPECT_EQ(asked(odd), std::nullopt);
  odd = p;
  odd.c_row = 1024;  // rows with something between
  EXPECT_EQ(asked(odd), std::nullopt);
  hopper.compute_major = 8;
  EXPECT_EQ(asked(p), std::nullopt);
}

// Where the table names an algorithm and the library is missing, ours takes its place.
TEST(LibraryProductsTest, WithoutTheLibrary_TheProductIsOurs) {
  RivuletGpuApi hopper = gpu::EmulatedBackend();
  hopper.properties = [](int32_t device, RivuletGpuProperties* properties) {
    const int code = gpu::EmulatedBackend().properties(device, properties);
    properties->compute_major = 9;
    return code;
  };
  ASSERT_OK_AND_ASSIGN(const auto device, GpuDevice::Open(hopper, 0));
  ASSERT_OK_AND_ASSIGN(const auto stream, device->NewStream());
  gpu::ProductArguments p = gpu::ProductOfMatrices(2, 10, 128, false, false);
  ASSERT_TRUE(gpu::LibraryFor(gpu::LibraryProducts(), device->properties(), "float", p).has_value());
  const std::vector<float> ones(10 * 128, 1.0f);
  std::vector<float> sums(20);
  ASSERT_OK_AND_ASSIGN(const GpuMemory factors, device->Allocate(ones.size() * sizeof(float), "factors"));
  ASSERT_OK_AND_ASSIGN(const GpuMemory result, device->Allocate(sums.size() * sizeof(float), "result"));
  ASSERT_OK(stream->ToDevice(factors.data(), ones.data(), factors.size()));
  p.a = p.b = {factors.data(), 0};
  p.c = {result.data(), 0};
  GpuContext context;
  context.stream = stream.get();
  ASSERT_OK(gpu::PutProduct(context, DType::kFloat32, p));
  ASSERT_OK(stream->ToHost(sums.data(), result.data(), result.size()));
  ASSERT_OK(stream->Wait());
  EXPECT_EQ(sums, std::vector<float>(20, 128.0f));
}

// The product as a library computes it that knows matrices column by column, in every layout.
TEST(LibraryProductsTest, Matrices_ColumnByColumn_AreOurProductTurned) {
  constexpr int kRows = 3, kColumns = 5, kDepth = 4;
  for (const bool turn_a : {false, true}) {
    for (const bool turn_b : {false, true}) {
      const gpu::ProductArguments p = gpu::ProductOfMatrices(kRows, kColumns, kDepth, turn_a, turn_b);
      const gpu::LibraryMatrices m = gpu::LibraryMatricesOf(p);
      const auto at = [](const gpu::LibraryMatrix& matrix, int64_t row, int64_t column) {
        return matrix.turned ? row * matrix.rows + column : column * matrix.rows + row;
      };
      EXPECT_EQ(m.result.rows * m.result.columns, kRows * kColumns);
      for (int i = 0; i < kRows; ++i) {
        for (int j = 0; j < kColumns; ++j) {
          EXPECT_EQ(at(m.result, j, i), i * p.c_row + j);
          for (int k = 0; k < kDepth; ++k) {
            EXPECT_EQ(at(m.first, j, k), j * p.b_column + k * p.b_depth);
            EXPECT_EQ(at(m.second, k, i), i * p.a_row + k * p.a_depth);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace rivulet::testing
