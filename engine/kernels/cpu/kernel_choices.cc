#include "engine/kernels/cpu/kernel_choices.h"

#include <vector>

#include "engine/compile/compile.h"
#include "engine/graph/scope.h"
#include "engine/kernels/cpu/vector/cpu_targets.h"
#include "engine/program/program.h"

namespace rivulet {
namespace {

// The implementation of the single node that `build` adds for inputs of these shapes.
StatusOr<std::string> ImplementationOf(std::string_view op, DType dtype, const std::vector<Shape>& inputs,
                                       AttrMap attrs, const std::vector<int32_t>& sizes, int sizes_at,
                                       const KernelPolicy& policy) {
  Graph graph;
  const Scope scope(graph);
  Signature signature;
  std::vector<Output> edges;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (static_cast<int>(i) == sizes_at) edges.push_back(scope.Const(Tensor::Of<int32_t>({4}, std::span(sizes))));
    const std::string name = fmt::format("input_{}", i);
    edges.push_back(scope.Placeholder(name, dtype, inputs[i]));
    signature.feeds.push_back({name, {dtype, inputs[i]}});
  }
  if (static_cast<int>(inputs.size()) == sizes_at)
    edges.push_back(scope.Const(Tensor::Of<int32_t>({4}, std::span(sizes))));
  scope.Op(op, edges, std::move(attrs), "op");
  RIVULET_RETURN_IF_ERROR(scope.status());
  signature.fetches = {"op"};
  CompileOptions options;
  options.kernels = policy;
  RIVULET_ASSIGN_OR_RETURN(const auto program, CompileProgram(graph, signature, options));
  for (const Instruction& instruction : program->instructions())
    if (instruction.node == "op" && instruction.implementation != "fetch") return instruction.implementation;
  return Internal("no instruction was bound for {}", op);
}

}  // namespace

StatusOr<std::string> KernelChoices(const KernelPolicy& policy) {
  std::string text = fmt::format("own kernels: {}\n", CpuTargetName());
  const auto line = [&](std::string_view what, DType dtype, const std::string& implementation) {
    text += fmt::format("{:<52} {:<9} {}\n", what, Name(dtype), implementation);
  };
  struct Product {
    int64_t m, k, n;
    bool transpose_a, transpose_b;
  };
  for (const Product& p :
       {Product{10, 784, 200, false, false}, Product{10, 3136, 512, false, false}, Product{10, 512, 3136, false, true},
        Product{3136, 10, 512, true, false}, Product{256, 256, 256, false, false}}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
      const Shape a = p.transpose_a ? Shape{p.k, p.m} : Shape{p.m, p.k},
                  b = p.transpose_b ? Shape{p.n, p.k} : Shape{p.k, p.n};
      RIVULET_ASSIGN_OR_RETURN(
          const std::string chosen,
          ImplementationOf("MatMul", dtype, {a, b}, {{"transpose_a", p.transpose_a}, {"transpose_b", p.transpose_b}},
                           {}, -1, policy));
      line(fmt::format("MatMul {}{} · {}{}", a.ToString(), p.transpose_a ? "ᵀ" : "", b.ToString(),
                       p.transpose_b ? "ᵀ" : ""),
           dtype, chosen);
    }
  }
  struct Convolution {
    int32_t size, in, out, window, stride;
  };
  for (const Convolution& c :
       {Convolution{28, 1, 32, 5, 1}, Convolution{14, 32, 64, 5, 1}, Convolution{32, 16, 32, 3, 2}}) {
    const int32_t after = (c.size + c.stride - 1) / c.stride;
    const Shape image{10, c.size, c.size, c.in}, filter{c.window, c.window, c.in, c.out}, out{10, after, after, c.out};
    const AttrMap attrs = {{"strides", std::vector<int64_t>{1, c.stride, c.stride, 1}},
                           {"padding", std::string("SAME")}};
    const std::vector<int32_t> image_sizes = {10, c.size, c.size, c.in},
                               filter_sizes = {c.window, c.window, c.in, c.out};
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      const auto choose = [&](std::string_view op, const std::vector<Shape>& inputs, const std::vector<int32_t>& sizes,
                              int sizes_at) -> Status {
        RIVULET_ASSIGN_OR_RETURN(const std::string chosen,
                                 ImplementationOf(op, dtype, inputs, attrs, sizes, sizes_at, policy));
        line(fmt::format("{} {} * {}, stride {}", op, image.ToString(), filter.ToString(), c.stride), dtype, chosen);
        return absl::OkStatus();
      };
      RIVULET_RETURN_IF_ERROR(choose("Conv2D", {image, filter}, {}, -1));
      RIVULET_RETURN_IF_ERROR(choose("Conv2DBackpropInput", {filter, out}, image_sizes, 0));
      RIVULET_RETURN_IF_ERROR(choose("Conv2DBackpropFilter", {image, out}, filter_sizes, 1));
    }
  }
  return text;
}

}  // namespace rivulet
