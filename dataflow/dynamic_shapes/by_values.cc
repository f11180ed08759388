// Ops with an input whose value is a size that is computed during the run: a range up to a count, bins up to the
// largest value. The op's shape function computes the sizes from the values, and its own kernel does the rest.
#include "dataflow/dynamic_shapes/run_kernel.h"
#include "dataflow/resources/async_op.h"

namespace rivulet {
namespace {

StatusOr<std::vector<Tensor>> WithKnownValues(const AsyncContext& context) {
  Graph graph;
  NodeSpec spec{context.node.name(), std::string(context.node.type()), {}, {}, context.node.attrs()};
  for (const Tensor& input : context.inputs) {
    const std::string name = fmt::format("{}/input_{}", context.node.name(), spec.inputs.size());
    RIVULET_ASSIGN_OR_RETURN(Node * value,
                             graph.AddNode({name, "Const", {}, {}, {{"dtype", input.dtype()}, {"value", input}}}));
    spec.inputs.push_back(value->output());
  }
  RIVULET_ASSIGN_OR_RETURN(const Node* node, graph.AddNode(std::move(spec)));
  std::vector<Tensor> outputs;
  // Limits the memory that a value can request.
  constexpr int64_t kMostElements = int64_t{1} << 24;
  for (const TensorSpec& output : node->outputs()) {
    if (output.shape.elements() > kMostElements)
      return InvalidArgument("the values ask for an output {}, of more than {} elements", output.shape.ToString(),
                             kMostElements);
    RIVULET_ASSIGN_OR_RETURN(outputs.emplace_back(), Tensor::Create(output.dtype, output.shape));
  }
  RIVULET_RETURN_IF_ERROR(RunKernelOf(context, *node, outputs));
  return outputs;
}
void ByValues(AsyncContext& context, AsyncDone done) { done(WithKnownValues(context)); }

RIVULET_DYNAMIC_OP("Range", ByValues);
RIVULET_DYNAMIC_OP("Bincount", ByValues);
RIVULET_DYNAMIC_OP("DenseBincount", ByValues);

}  // namespace
}  // namespace rivulet
