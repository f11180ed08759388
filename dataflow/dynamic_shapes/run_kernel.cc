#include "dataflow/dynamic_shapes/run_kernel.h"

#include "engine/program/via_float32.h"

namespace rivulet {

Status RunKernelOf(const AsyncContext& context, const Node& node, std::vector<Tensor>& outputs) {
  std::vector<TensorSpec> in, out;
  std::vector<const Tensor*> values;
  std::vector<std::byte*> from, to;
  for (const Tensor& input : context.inputs) {
    in.push_back({input.dtype(), input.shape()});
    values.push_back(&input);
    from.push_back(input.view().data);
  }
  for (Tensor& output : outputs) {
    out.push_back({output.dtype(), output.shape()});
    to.push_back(output.data());
  }
  const NodeView view{node, in, out, {}, values, 0, &context.graph, &context.compile.passes};
  RIVULET_ASSIGN_OR_RETURN(const Prepared prepared,
                           PrepareKernel(view, {.portable = context.compile.kernels.portable}));
  AlignedBuffer scratch(prepared.scratch_bytes);
  const std::unique_ptr<KernelState> state = prepared.kernel->NewState();
  KernelContext kernel;
  kernel.inputs = from;
  kernel.outputs = to;
  kernel.scratch = scratch.data();
  kernel.state = state.get();
  return prepared.kernel->Run(kernel);
}

}  // namespace rivulet
