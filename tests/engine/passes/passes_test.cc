// Each pass's changes to a graph, and the parts that it must not change.
#include <gmock/gmock.h>

#include <cmath>

#include "engine/program/program.h"
#include "tests/engine/passes/optimized.h"
#include "tests/testing/tensors.h"

namespace rivulet::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Passes, UnknownName_IsRefusedWithTheNearest) {
  Build b;
  b.Fetch(b.scope.Op("Neg", {b.Feed("x", {2})}));
  CompileOptions options;
  options.passes.without = {"fuse_product"};
  EXPECT_THAT(OptimizeGraph(b.graph, b.signature, options),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("Did you mean 'fuse_products'?")));
  options.passes.without = {"prune"};
  EXPECT_THAT(OptimizeGraph(b.graph, b.signature, options),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("cannot be left out")));
}

TEST(Passes, EachHasADoc) {
  for (const Pass& pass : Passes()) {
    EXPECT_TRUE(pass.doc.ends_with(".")) << pass.name;
    EXPECT_EQ(pass.exact, pass.tolerance == 0) << pass.name;
  }
}

TEST(Prune, WhatNobodyAskedFor_IsLeftOut) {
  Build b;
  const Output x = b.Feed("x", {2});
  b.Fetch(b.scope.Op("Exp", {x}, {}, "y"));
  b.scope.Op("Tanh", {x}, {}, "unwanted");
  const Graph graph = b.Optimized(NoPasses());
  EXPECT_EQ(graph.Find("unwanted"), nullptr);
  EXPECT_EQ(graph.nodes().size(), 2u);
}

TEST(Prune, FeedThatReplacesANode_CutsOffWhatMadeIt) {
  Build b;
  const Output x = b.scope.Placeholder("x", DType::kFloat32, Shape{2});
  b.Fetch(b.scope.Op("Exp", {b.scope.Op("Tanh", {x}, {}, "hidden")}, {}, "y"));
  b.signature.feeds = {{"hidden", F32({2})}};
  const Graph graph = b.Optimized();
  ASSERT_NE(graph.Find("hidden"), nullptr);
  EXPECT_EQ(graph.Find("hidden")->type(), "Placeholder");
  EXPECT_EQ(graph.Find("x"), nullptr);
}

TEST(FoldConstants, ShapesAndTheirArithmetic_BecomeConstants) {
  Build b;
  const Output x = b.scope.Placeholder("x", DType::kFloat32, Shape{-1, 3});
  b.signature.feeds = {{"x", F32({4, 3})}};
  const Output size = b.scope.Op("Prod", {b.scope.Op("Shape", {x}), b.scope.Const(Ints({0}))}, {}, "size");
  b.Fetch(b.scope.Op("Cast", {size}, {{"DstT", DType::kFloat32}}, "count"));
  const Graph graph = b.Optimized();
  ASSERT_EQ(graph.Find("count")->type(), "Const");
  EXPECT_EQ(graph.Find("count")->attr<Tensor>("value").flat<float>()[0], 12);
  EXPECT_NE(graph.Find("x"), nullptr) << "a feed keeps its name though nobody needs it";
}

TEST(SimplifyShapes, IdentityAndItsKin_AreTakenOut) {
  Build b;
  Output x = b.Feed("x", {2, 3});
  x = b.scope.Op("Identity", {b.scope.Op("StopGradient", {b.scope.Op("Identity", {x})})});
  b.Fetch(b.scope.Op("Exp", {x}, {}, "y"));
  const Graph graph = b.Optimized(Only("simplify_shapes"));
  EXPECT_EQ(graph.nodes().size(), 2u);
  EXPECT_EQ(graph.Find("y")->input(0).name(), "x");
}

TEST(SimplifyShapes, FetchedIdentity_KeepsItsName) {
  Build b;
  b.Fetch(b.scope.Op("Identity", {b.Feed("x", {2})}, {}, "y"));
  const Graph graph = b.Optimized();
  ASSERT_NE(graph.Find("y"), nullptr);
  EXPECT_EQ(graph.Find("y")->input(0).name(), "x");
}

TEST(SimplifyShapes, ReshapeOfReshape_IsOne) {
  Build b;
  const Output x = b.Feed("x", {2, 3});
  const Output flat = b.scope.Op("Reshape", {x, b.scope.Const(Ints({6}))});
  const Output back = b.scope.Op("Reshape", {flat, b.scope.Const(Ints({2, 3}))});
  const Output wide = b.scope.Op("ExpandDims", {flat, b.scope.Const(Tensor::Scalar<int32_t>(0))});
  b.Fetch(b.scope.Op("Exp", {back}, {}, "same"));
  b.Fetch(b.scope.Op("Exp", {wide}, {}, "other"));
  const Graph graph = b.Optimized(Only("simplify_shapes"));
  EXPECT_EQ(graph.Find("same")->input(0).name(), "x");
  EXPECT_EQ(Count(graph, "Reshape"), 1);
  EXPECT_EQ(graph.Find("other")->input(0).node->input(0).name(), "x");
  EXPECT_EQ(graph.Find("other")->outputs()[0].shape, Shape({1, 6}));
}

TEST(SimplifyShapes, TransposeThereAndBack_IsNothing) {
  Build b;
  const Output x = b.Feed("x", {2, 3, 4});
  const Output there = b.scope.Op("Transpose", {x, b.scope.Const(Ints({2, 0, 1}))});
  b.Fetch(b.scope.Op("Exp", {b.scope.Op("Transpose", {there, b.scope.Const(Ints({1, 2, 0}))})}, {}, "y"));
  EXPECT_EQ(b.Optimized().Find("y")->input(0).name(), "x");
}

TEST(SimplifyShapes, TwoTransposes_AreOneWithTheRightOrder) {
  Build b;
  const Output x = b.Feed("x", {2, 3, 4});
  const Output there = b.scope.Op("Transpose", {x, b.scope.Const(Ints({2, 0, 1}))});
  b.Fetch(b.scope.Op("Transpose", {there, b.scope.Const(Ints({2, 1, 0}))}, {}, "y"));
  const Graph graph = b.Optimized();
  EXPECT_EQ(Count(graph, "Transpose"), 1);
  EXPECT_EQ(graph.Find("y")->outputs()[0].shape, Shape({3, 2, 4}));
}

TEST(SimplifyShapes, TransposeOfAxesOfSizeOne_IsAReshape) {
  Build b;
  b.Fetch(b.scope.Op("Transpose", {b.Feed("x", {2, 1, 3}), b.scope.Const(Ints({1, 0, 2}))}, {}, "moves_nothing"));
  b.Fetch(b.scope.Op("Transpose", {b.Feed("z", {2, 1, 3}), b.scope.Const(Ints({2, 1, 0}))}, {}, "moves"));
  const Graph graph = b.Optimized();
  EXPECT_EQ(graph.Find("moves_nothing")->type(), "Reshape");
  EXPECT_EQ(graph.Find("moves")->type(), "Transpose");
}

TEST(SimplifyShapes, CastToAWiderTypeAndBack_IsNothingAndTheOtherWayStays) {
  Build b;
  const Output x = b.Feed("x", {2});
  const auto cast = [&](Output y, DType to) { return b.scope.Op("Cast", {y}, {{"DstT", to}}); };
  b.Fetch(b.scope.Op("Exp", {cast(cast(x, DType::kFloat64), DType::kFloat32)}, {}, "wider"));
  b.Fetch(b.scope.Op("Exp", {cast(cast(x, DType::kInt32), DType::kFloat32)}, {}, "narrower"));
  const Graph graph = b.Optimized();
  EXPECT_EQ(graph.Find("wider")->input(0).name(), "x");
  EXPECT_EQ(graph.Find("narrower")->input(0).node->type(), "Cast");
}

TEST(SimplifyShapes, SliceThatReverses_Stays) {
  Build b;
  const Output x = b.Feed("x", {3});
  b.Fetch(b.scope.Op("StridedSlice", {x, b.scope.Const(Ints({0})), b.scope.Const(Ints({0})), b.scope.Const(Ints({-1}))},
                     {{"begin_mask", int64_t{1}}, {"end_mask", int64_t{1}}}, "reversed"));
  b.Fetch(
      b.scope.Op("Exp", {b.scope.Op("Slice", {x, b.scope.Const(Ints({0})), b.scope.Const(Ints({3}))})}, {}, "whole"));
  const Graph graph = b.Optimized();
  EXPECT_EQ(graph.Find("reversed")->type(), "StridedSlice");
  EXPECT_EQ(graph.Find("whole")->input(0).name(), "x");
}

TEST(SimplifyArithmetic, NeutralElements_AreTakenOut) {
  Build b;
  const Output x = b.Feed("x", {2, 3});
  Output y = b.scope.Op("Mul", {x, b.scope.Const(1.0f)});
  y = b.scope.Op("RealDiv", {y, b.scope.Const(Tensor::Of<float>({3}, {1, 1, 1}))});
  y = b.scope.Op("Sub", {y, b.scope.Const(0.0f)});
  y = b.scope.Op("AddV2", {b.scope.Const(-0.0f), y});
  y = b.scope.Op("Neg", {b.scope.Op("Neg", {y})});
  b.Fetch(b.scope.Op("Exp", {y}, {}, "y"));
  EXPECT_EQ(b.Optimized(Only("simplify_arithmetic")).Find("y")->input(0).name(), "x");
}

TEST(SimplifyArithmetic, WhatChangesABit_Stays) {
  Build b;
  const Output x = b.Feed("x", {3});
  b.Fetch(b.scope.Op("AddV2", {x, b.scope.Const(0.0f)}, {}, "minus_zero_becomes_zero"));
  b.Fetch(b.scope.Op("Sub", {x, b.scope.Const(-0.0f)}, {}, "so_does_this"));
  b.Fetch(b.scope.Op("Mul", {x, b.scope.Const(0.0f)}, {}, "nan_stays_nan"));
  b.Fetch(b.scope.Op("RealDiv", {x, b.scope.Const(3.0f)}, {}, "a_third"));
  b.Fetch(b.scope.Op("RealDiv", {x, b.scope.Const(std::ldexp(1.0f, 127))}, {}, "denormal_reciprocal"));
  b.Fetch(b.scope.Op("Mul", {x, b.scope.Const(Tensor::Of<float>({2, 1}, {1, 1}))}, {}, "broadcasts"));
  const Graph graph = b.Optimized();
  EXPECT_EQ(graph.Find("minus_zero_becomes_zero")->type(), "AddV2");
  EXPECT_EQ(graph.Find("so_does_this")->type(), "Sub");
  EXPECT_EQ(graph.Find("nan_stays_nan")->type(), "Mul");
  EXPECT_EQ(graph.Find("a_third")->type(), "RealDiv");
  EXPECT_EQ(graph.Find("denormal_reciprocal")->type(), "RealDiv");
  EXPECT_EQ(graph.Find("broadcasts")->type(), "Mul");
}

TEST(SimplifyArithmetic, DivisionByAPowerOfTwo_IsAProduct) {
  Build b;
  b.Fetch(b.scope.Op("RealDiv", {b.Feed("x", {3}), b.scope.Const(-8.0f)}, {}, "y"));
  const Graph graph = b.Optimized();
  ASSERT_EQ(graph.Find("y")->type(), "Mul");
  EXPECT_EQ(graph.Find("y")->input(1).node->attr<Tensor>("value").flat<float>()[0], -0.125f);
}

TEST(SimplifyArithmetic, ReductionOverAxesOfSizeOne_IsAReshape) {
  Build b;
  const Output x = b.Feed("x", {3, 1});
  b.Fetch(b.scope.Op("Max", {x, b.scope.Const(Ints({1}))}, {}, "max"));
  b.Fetch(b.scope.Op("Sum", {b.scope.Op("Tanh", {x}), b.scope.Const(Ints({1}))}, {}, "sum"));
  b.Fetch(b.scope.Op("EuclideanNorm", {x, b.scope.Const(Ints({1}))}, {}, "norm"));
  const Graph graph = b.Optimized();
  EXPECT_EQ(graph.Find("max")->type(), "Reshape");
  EXPECT_EQ(graph.Find("sum")->type(), "Reshape");
  EXPECT_EQ(graph.Find("norm")->type(), "EuclideanNorm");
}

// Which axes a gradient is summed over is known when the batch is.
TEST(SimplifyArithmetic, ProductsOfTensorsAlike_HaveGradientsWithoutSums) {
  Build b;
  const Output x = b.Feed("x", {2, 3}), y = b.Feed("y", {2, 3});
  const Output axes = b.scope.Op("BroadcastGradientArgs", {b.scope.Op("Shape", {x}), b.scope.Op("Shape", {y})});
  b.Fetch(b.scope.Op("Neg", {b.scope.Op("Sum", {b.scope.Op("Exp", {x}), axes})}, {}, "z"));
  EXPECT_EQ(Count(b.Optimized(), "Sum"), 0);
}

TEST(CommonSubexpressions, EqualNodes_AreComputedOnce) {
  Build b;
  const Output x = b.Feed("x", {2, 2});
  const auto square = [&] { return b.scope.Op("MatMul", {x, x}, {{"transpose_b", true}}); };
  b.Fetch(b.scope.Op("Sub", {b.scope.Op("Exp", {square()}), b.scope.Op("Exp", {square()})}, {}, "y"));
  const Graph graph = b.Optimized();
  EXPECT_EQ(Count(graph, "MatMul"), 1);
  EXPECT_EQ(Count(graph, "Exp"), 1);
}

TEST(CommonSubexpressions, OtherAttributesInputsOrControls_AreNotAlike) {
  Build b;
  const Output x = b.Feed("x", {2, 2}), z = b.Feed("z", {2, 2});
  std::vector<Output> products = {b.scope.Op("MatMul", {x, x}), b.scope.Op("MatMul", {x, x}, {{"transpose_a", true}}),
                                  b.scope.Op("MatMul", {x, z}), b.scope.WithControl({z.node}).Op("MatMul", {x, x})};
  b.Fetch(b.scope.Op("AddN", products));
  EXPECT_EQ(Count(b.Optimized(), "MatMul"), 4);
}

TEST(CommonSubexpressions, TwoPlaceholders_AreTwo) {
  Build b;
  const Output x = b.Feed("x", {2}), z = b.Feed("z", {2});
  b.Fetch(b.scope.Op("Sub", {b.scope.Op("Exp", {x}), b.scope.Op("Exp", {z})}));
  EXPECT_EQ(Count(b.Optimized(), "Exp"), 2);
}

TEST(CommonSubexpressions, RandomOps_AreNeverAlikeAndKeepTheirPlace) {
  Build b;
  const Output shape = b.scope.Const(Ints({3}));
  const auto draw = [&](const char* name) {
    return b.scope.Op("RandomUniform", {shape}, {{"dtype", DType::kFloat32}}, name);
  };
  draw("unwanted");
  b.Fetch(b.scope.Op("Sub", {draw("first"), draw("second")}));
  const Graph graph = b.Optimized();
  EXPECT_EQ(graph.Find("unwanted"), nullptr);
  EXPECT_EQ(graph.Find("first")->attr<int64_t>("_random_index"), 1);
  EXPECT_EQ(graph.Find("second")->attr<int64_t>("_random_index"), 2);
}

TEST(CommonSubexpressions, ReadsOfAVariable_AreAlikeUntilItIsWritten) {
  Build b;
  const Output handle = b.scope.Op(
      "VarHandleOp", {}, {{"dtype", DType::kFloat32}, {"shape", Shape{2}}, {"shared_name", std::string("w")}}, "w");
  const auto read = [&](const Scope& scope) {
    return scope.Op("ReadVariableOp", {handle}, {{"dtype", DType::kFloat32}});
  };
  const Output before = read(b.scope), again = read(b.scope);
  const Output sum = b.scope.Op("AddV2", {before, again});
  Node* write = b.scope.WithControl({sum.node}).AddNode("AssignVariableOp", {handle, b.Feed("x", {2})});
  const Output after = read(b.scope.WithControl({write}));
  b.Fetch(b.scope.Op("Sub", {sum, after}, {}, "y"));
  b.signature.variables = {{"w", 0, 0, F32({2})}};
  EXPECT_EQ(Count(b.Optimized(), "ReadVariableOp"), 2);
}

TEST(ControlEdges, OfANodeTakenOut_AreKept) {
  Build b;
  const Output handle = b.scope.Op(
      "VarHandleOp", {}, {{"dtype", DType::kFloat32}, {"shape", Shape{2}}, {"shared_name", std::string("w")}}, "w");
  Node* write = b.scope.AddNode("AssignVariableOp", {handle, b.Feed("x", {2})}, {}, "write");
  // The identity waits for the write, and the read for the identity alone.
  const Output waits = b.scope.WithControl({write}).Op("Identity", {b.Feed("z", {2})});
  const Output read =
      b.scope.WithControl({waits.node}).Op("ReadVariableOp", {handle}, {{"dtype", DType::kFloat32}}, "read");
  b.Fetch(b.scope.Op("AddV2", {read, waits}, {}, "y"));
  b.signature.variables = {{"w", 0, 0, F32({2})}};
  const Graph graph = b.Optimized();
  EXPECT_EQ(Count(graph, "Identity"), 0);
  const auto controls = graph.Find("read")->control_inputs();
  EXPECT_NE(std::find(controls.begin(), controls.end(), graph.Find("write")), controls.end());
}

TEST(FuseProducts, MatMulBiasAndRelu_AreOneUnderTheLastName) {
  Build b;
  const Output product = b.scope.Op("MatMul", {b.Feed("x", {2, 3}), b.Feed("w", {3, 4})}, {}, "product");
  const Output sum = b.scope.Op("BiasAdd", {product, b.Feed("bias", {4})}, {}, "sum");
  b.Fetch(b.scope.Op("Exp", {b.scope.Op("Relu", {sum}, {}, "relu")}, {}, "y"));
  const Graph graph = b.Optimized();
  ASSERT_EQ(graph.Find("relu")->type(), "_FusedMatMul");
  EXPECT_THAT(graph.Find("relu")->attr<std::vector<std::string>>("fused_ops"), ElementsAre("BiasAdd", "Relu"));
  EXPECT_EQ(graph.Find("relu")->input(2).name(), "bias");
  EXPECT_EQ(graph.Find("product"), nullptr);
}

TEST(FuseProducts, AdditionOfAVector_IsABias) {
  Build b;
  const Output product = b.scope.Op("MatMul", {b.Feed("x", {2, 3}), b.Feed("w", {3, 4})});
  b.Fetch(b.scope.Op("AddV2", {b.Feed("bias", {4}), product}, {}, "y"));
  b.Fetch(b.scope.Op(
      "AddV2", {b.scope.Op("MatMul", {b.Feed("a", {2, 3}), b.Feed("c", {3, 4})}), b.Feed("full", {2, 4})}, {}, "z"));
  const Graph graph = b.Optimized();
  EXPECT_EQ(graph.Find("y")->type(), "_FusedMatMul");
  EXPECT_EQ(graph.Find("z")->type(), "AddV2");
}

TEST(FuseProducts, ProductThatOthersUse_Stays) {
  Build b;
  const Output product = b.scope.Op("MatMul", {b.Feed("x", {2, 3}), b.Feed("w", {3, 4})}, {}, "product");
  b.Fetch(b.scope.Op("BiasAdd", {product, b.Feed("bias", {4})}));
  b.Fetch(product);
  const Output other = b.scope.Op("MatMul", {b.Feed("a", {2, 3}), b.Feed("c", {3, 4})});
  const Output sum = b.scope.Op("BiasAdd", {other, b.Feed("b2", {4})}, {}, "sum");
  b.Fetch(b.scope.Op("AddV2", {b.scope.Op("Relu", {sum}), sum}));
  const Graph graph = b.Optimized();
  EXPECT_EQ(graph.Find("product")->type(), "MatMul");
  EXPECT_EQ(graph.Find("sum")->type(), "_FusedMatMul");
  EXPECT_EQ(Count(graph, "Relu"), 1);
}

// A convolution with its bias, and a pool of what it leaves.
struct Pooling {
  AttrMap pool = {{"ksize", std::vector<int64_t>{1, 2, 2, 1}},
                  {"strides", std::vector<int64_t>{1, 2, 2, 1}},
                  {"padding", std::string("SAME")}};
  Build b;
  // Of images of 8×8 by default.
  std::string TypeOfPool(int64_t side = 8, bool seen = false, const CompileOptions& options = {}) {
    const Output convolution =
        b.scope.Op("Conv2D", {b.Feed("x", {1, side, side, 3}), b.Feed("w", {3, 3, 3, 4})},
                   {{"strides", std::vector<int64_t>{1, 1, 1, 1}}, {"padding", std::string("SAME")}});
    const Output biased = b.scope.Op("BiasAdd", {convolution, b.Feed("bias", {4})});
    b.Fetch(b.scope.Op("MaxPool", {biased}, pool, "pool"));
    if (seen) b.Fetch(biased);
    return std::string(b.Optimized(options).Find("pool")->type());
  }
};

TEST(FusePooling, PoolOfAConvolution_IsOneWithIt) { EXPECT_EQ(Pooling().TypeOfPool(), "_FusedConv2DMaxPool"); }

TEST(FusePooling, ConvolutionThatOthersSee_Stays) { EXPECT_EQ(Pooling().TypeOfPool(8, true), "MaxPool"); }

TEST(FusePooling, WindowsThatReachBeyondTheImage_Stay) { EXPECT_EQ(Pooling().TypeOfPool(7), "MaxPool"); }

TEST(FusePooling, WindowsThatOverlap_Stay) {
  Pooling overlapping;
  overlapping.pool["ksize"] = std::vector<int64_t>{1, 3, 3, 1};
  EXPECT_EQ(overlapping.TypeOfPool(), "MaxPool");
}

TEST(FusePooling, PortableKernels_StayApart) {
  CompileOptions options;
  options.kernels.portable = true;
  EXPECT_EQ(Pooling().TypeOfPool(8, false, options), "MaxPool");
}

TEST(FusePooling, GradientsOfPoolAndRelu_AreOne) {
  Build b;
  const AttrMap window = {{"ksize", std::vector<int64_t>{1, 2, 2, 1}},
                          {"strides", std::vector<int64_t>{1, 2, 2, 1}},
                          {"padding", std::string("VALID")}};
  const Output relu = b.Feed("relu", {1, 4, 4, 3}), pool = b.scope.Op("MaxPool", {relu}, window);
  const Output gradient = b.scope.Op("MaxPoolGrad", {relu, pool, b.Feed("dy", {1, 2, 2, 3})}, window);
  b.Fetch(b.scope.Op("ReluGrad", {gradient, relu}, {}, "fused"));
  const Output other = b.scope.Op("MaxPoolGrad", {relu, pool, b.Feed("dz", {1, 2, 2, 3})}, window);
  b.Fetch(b.scope.Op("ReluGrad", {other, b.Feed("other", {1, 4, 4, 3})}, {}, "apart"));
  const Graph graph = b.Optimized();
  EXPECT_EQ(graph.Find("fused")->type(), "_MaxPoolReluGrad");
  EXPECT_EQ(graph.Find("apart")->type(), "ReluGrad");
}

// A normalisation, its activation and the gradients of both, as layers build them; outputs of the two are fetched.
struct Normalized {
  Build b;
  Output norm, activation;
  explicit Normalized(const std::string& op = "Relu6", bool training = true, const std::string& gradient_op = "") {
    const AttrMap attrs = {{"is_training", training}};
    const Output x = b.Feed("x", {2, 3, 3, 4}), scale = b.Feed("scale", {4}), offset = b.Feed("offset", {4});
    const Output mean = b.Feed("mean", {4}), variance = b.Feed("variance", {4});
    norm = b.scope.Op("FusedBatchNormV3", {x, scale, offset, mean, variance}, attrs, "norm");
    activation = b.scope.Op(op, {norm}, {}, "activation");
    b.Fetch(b.scope.Op("Neg", {activation}, {}, "y"));
    const Output dy = b.scope.Op(gradient_op.empty() ? op + "Grad" : gradient_op,
                                 {b.Feed("dy", {2, 3, 3, 4}), activation}, {}, "activation_gradient");
    b.Fetch(b.scope.Op("FusedBatchNormGradV3",
                       {dy, x, scale, training ? norm.node->output(3) : mean,
                        training ? norm.node->output(4) : variance, norm.node->output(5)},
                       attrs, "gradient"));
  }
};

TEST(FuseNormalization, ActivationsAndTheirGradients_AreOneWithIt) {
  for (const std::string op : {"Relu", "Relu6"}) {
    Normalized n(op);
    const Graph graph = n.b.Optimized();
    ASSERT_NE(graph.Find("norm"), nullptr);
    EXPECT_EQ(graph.Find("norm")->type(), "_FusedBatchNormEx");
    EXPECT_EQ(graph.Find("norm")->attr<std::string>("activation_mode"), op);
    EXPECT_EQ(graph.Find("gradient")->type(), "_FusedBatchNormGradEx");
    EXPECT_EQ(graph.Find("gradient")->attr<std::string>("activation_mode"), op);
    EXPECT_EQ(Count(graph, op), 0);
    EXPECT_EQ(Count(graph, op + "Grad"), 0);
  }
}

TEST(FuseNormalization, NormalisedValuesThatOthersUse_Stay) {
  Normalized n;
  n.b.Fetch(n.b.scope.Op("Abs", {n.norm}));
  const Graph graph = n.b.Optimized();
  EXPECT_EQ(graph.Find("norm")->type(), "FusedBatchNormV3");
  EXPECT_EQ(graph.Find("gradient")->type(), "FusedBatchNormGradV3");
}

TEST(FuseNormalization, GradientOfAnotherActivation_StaysApart) {
  Normalized n("Relu6", true, "ReluGrad");
  const Graph graph = n.b.Optimized();
  EXPECT_EQ(graph.Find("norm")->type(), "_FusedBatchNormEx");
  EXPECT_EQ(graph.Find("gradient")->type(), "FusedBatchNormGradV3");
  EXPECT_EQ(Count(graph, "ReluGrad"), 1);
}

TEST(FuseNormalization, ActivationsGradientThatOthersUse_StaysApart) {
  Normalized n;
  n.b.Fetch(n.b.scope.Op("Abs", {n.b.graph.Find("activation_gradient")->output()}));
  const Graph graph = n.b.Optimized();
  EXPECT_EQ(graph.Find("gradient")->type(), "FusedBatchNormGradV3");
  EXPECT_EQ(Count(graph, "Relu6Grad"), 1);
}

TEST(FuseNormalization, OutsideTraining_ForwardAlone) {
  Normalized n("Relu", false);
  const Graph graph = n.b.Optimized();
  EXPECT_EQ(graph.Find("norm")->type(), "_FusedBatchNormEx");
  EXPECT_EQ(graph.Find("gradient")->type(), "FusedBatchNormGradV3");
}

// Under a budget an activation by itself is what is cheap to compute again.
TEST(FuseNormalization, MemoryBudget_KeepsThemApart) {
  Normalized n;
  CompileOptions options;
  options.passes.memory_budget_bytes = 1 << 20;
  EXPECT_EQ(Count(n.b.Optimized(options), "Relu6"), 1);
}

}  // namespace
}  // namespace rivulet::testing
