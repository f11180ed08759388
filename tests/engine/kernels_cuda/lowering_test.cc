// Ops without a device kernel that are lowered to others: Einsum, grouped convolutions, NCHW images.
#include <gtest/gtest.h>

#include "engine/compile/compile.h"
#include "engine/compile/compile_gpu.h"
#include "engine/graph/graph.h"
#include "engine/profile/gpu_trial.h"
#include "engine/program/program.h"
#include "tests/emulated_gpu/emulated_backend.h"
#include "tests/engine/kernels_cuda/op_case.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {
namespace {

using ::testing::HasSubstr;

struct LoweredCase {
  std::string op;
  std::vector<Tensor> inputs;
  AttrMap attrs;
  std::vector<int> constants = {};
};

struct OneNode {
  Graph graph;
  Signature signature;
  std::vector<TensorView> feeds;
};

StatusOr<std::unique_ptr<OneNode>> GraphOf(const LoweredCase& c) {
  auto made = std::make_unique<OneNode>();
  std::vector<Output> edges;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const Tensor& value = c.inputs[i];
    NodeSpec spec{.name = fmt::format("input{}", i), .op = "Placeholder"};
    spec.attrs["dtype"] = value.dtype();
    if (std::ranges::find(c.constants, static_cast<int>(i)) != c.constants.end()) {
      spec.op = "Const";
      spec.attrs["value"] = value;
    } else {
      spec.attrs["shape"] = value.shape();
      made->signature.feeds.push_back({spec.name, {value.dtype(), value.shape()}});
      made->feeds.push_back(value.view());
    }
    RIVULET_ASSIGN_OR_RETURN(Node * node, made->graph.AddNode(std::move(spec)));
    edges.push_back(node->output());
  }
  RIVULET_RETURN_IF_ERROR(made->graph.AddNode({.name = "op", .op = c.op, .inputs = edges, .attrs = c.attrs}).status());
  made->signature.fetches = {"op"};
  return made;
}

StatusOr<Tensor> OnHost(const OneNode& one) {
  RIVULET_ASSIGN_OR_RETURN(const auto program, CompileProgram(one.graph, one.signature));
  RIVULET_ASSIGN_OR_RETURN(const auto instance, program->Instantiate());
  AlignedBuffer arena(program->memory().arena_bytes);
  Tensor result(program->fetch_specs()[0].dtype, program->fetch_specs()[0].shape);
  const TensorView fetch = result.view();
  Bindings bindings;
  bindings.arena = arena.data();
  bindings.feeds = one.feeds;
  bindings.fetches = {&fetch, 1};
  RIVULET_RETURN_IF_ERROR(instance->Run(bindings));
  return result;
}

StatusOr<Tensor> OnDevice(const OneNode& one) {
  RIVULET_ASSIGN_OR_RETURN(const auto device, GpuDevice::Open(gpu::EmulatedBackend(), 0));
  RIVULET_ASSIGN_OR_RETURN(const auto program, CompileForGpu(one.graph, one.signature));
  RIVULET_ASSIGN_OR_RETURN(const auto run, GpuTrial::Create(program, device, {}, 2));
  RIVULET_ASSIGN_OR_RETURN(const auto stream, device->NewStream());
  RIVULET_RETURN_IF_ERROR(run->Feed(one.feeds));
  RIVULET_RETURN_IF_ERROR(run->Put(*stream));
  RIVULET_RETURN_IF_ERROR(stream->Wait());
  Tensor result(program->fetch_specs()[0].dtype, program->fetch_specs()[0].shape);
  const TensorView fetch = result.view();
  RIVULET_RETURN_IF_ERROR(run->Fetch(1, {&fetch, 1}));
  return result;
}

void ExpectAsOnHost(const LoweredCase& c) {
  ASSERT_OK_AND_ASSIGN(const auto one, GraphOf(c));
  ASSERT_OK_AND_ASSIGN(const Tensor host, OnHost(*one));
  ASSERT_OK_AND_ASSIGN(const Tensor device, OnDevice(*one));
  ASSERT_EQ(device.shape(), host.shape());
  for (int64_t i = 0; i < host.elements(); ++i) {
    const float expected = host.flat<float>()[static_cast<size_t>(i)];
    ASSERT_NEAR(device.flat<float>()[static_cast<size_t>(i)], expected, 4e-6 * std::max(1.0f, std::abs(expected)))
        << "element " << i;
  }
}

AttrMap EquationOf(const std::string& equation, int64_t operands) { return {{"equation", equation}, {"N", operands}}; }

TEST(GpuLoweringTest, Einsum_OfProducts_IsTheHosts) {
  struct Case {
    std::string equation;
    std::vector<Shape> shapes;
  };
  for (const Case& c : std::vector<Case>{{"ij,jk->ik", {{3, 4}, {4, 5}}},
                                         {"bij,bkj->bik", {{2, 3, 4}, {2, 5, 4}}},
                                         {"bhid,bhjd->bhij", {{2, 3, 4, 5}, {2, 3, 6, 5}}},
                                         {"ij,kj->ki", {{3, 4}, {5, 4}}},
                                         {"i,j->ji", {{3}, {4}}},
                                         {"ij,j->i", {{3, 4}, {4}}},
                                         {"ijk->ki", {{2, 3, 4}}},
                                         {"ijk,jl->l", {{2, 3, 4}, {3, 5}}},
                                         {"...ab,...bc->...ac", {{2, 3, 4, 5}, {2, 3, 5, 6}}},
                                         {"ab,bc,cd->ad", {{2, 3}, {3, 4}, {4, 5}}},
                                         {"ij,ij->", {{3, 4}, {3, 4}}}}) {
    SCOPED_TRACE(c.equation);
    LoweredCase lowered{.op = "Einsum", .inputs = {}, .attrs = EquationOf(c.equation, 0)};
    for (const Shape& shape : c.shapes)
      lowered.inputs.push_back(Floats(shape, static_cast<uint32_t>(lowered.inputs.size() + 1)));
    lowered.attrs["N"] = static_cast<int64_t>(c.shapes.size());
    ExpectAsOnHost(lowered);
  }
}

TEST(GpuLoweringTest, Einsum_OfADiagonal_IsRefusedByName) {
  ASSERT_OK_AND_ASSIGN(const auto one, GraphOf({"Einsum", {Floats({3, 3}, 1)}, EquationOf("ii->i", 1)}));
  EXPECT_THAT(CompileForGpu(one->graph, one->signature),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("Einsum")));
}

AttrMap ConvolutionAttrs(const std::string& format, int64_t stride) {
  const bool nchw = format == "NCHW";
  return {{"strides", nchw ? std::vector<int64_t>{1, 1, stride, stride} : std::vector<int64_t>{1, stride, stride, 1}},
          {"padding", std::string("SAME")},
          {"data_format", format}};
}

// Two groups of two channels, and as many groups as channels.
TEST(GpuLoweringTest, ConvolutionOfGroups_AndItsGradients_AreTheHosts) {
  for (const auto& [channels, outputs] : {std::pair<int64_t, int64_t>{2, 6}, std::pair<int64_t, int64_t>{1, 8}}) {
    SCOPED_TRACE(channels);
    const AttrMap attrs = ConvolutionAttrs("NHWC", 2);
    const Shape image = {2, 6, 5, 4}, filter = {3, 3, channels, outputs}, result = {2, 3, 3, outputs};
    const auto sizes = [](const Shape& shape) {
      std::vector<int32_t> dims;
      for (const int64_t dim : shape.dims()) dims.push_back(static_cast<int32_t>(dim));
      return Ints(dims);
    };
    ExpectAsOnHost({"Conv2D", {Floats(image, 1), Floats(filter, 2)}, attrs});
    ExpectAsOnHost({"Conv2DBackpropInput", {sizes(image), Floats(filter, 2), Floats(result, 3)}, attrs, {0}});
    AttrMap transposed = attrs;
    transposed["_groups"] = image.dim(3) / channels;
    ExpectAsOnHost({"Conv2DBackpropInput", {Ints({6, 5}), Floats(filter, 2), Floats(result, 3)}, transposed, {0}});
    ExpectAsOnHost({"Conv2DBackpropFilter", {Floats(image, 1), sizes(filter), Floats(result, 3)}, attrs, {1}});
  }
}

TEST(GpuLoweringTest, ConvolutionOfNchwImages_IsTheHosts) {
  ExpectAsOnHost({"Conv2D", {Floats({2, 3, 6, 5}, 1), Floats({3, 3, 3, 4}, 2)}, ConvolutionAttrs("NCHW", 1)});
  ExpectAsOnHost({"Conv2D", {Floats({2, 4, 6, 5}, 1), Floats({3, 3, 2, 4}, 2)}, ConvolutionAttrs("NCHW", 2)});
}

}  // namespace
}  // namespace rivulet::testing
