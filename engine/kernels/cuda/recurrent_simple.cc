// The simple recurrent layer over sequences: per position of the walk a product of all states with the recurrent
// kernel, and one launch for the rest of the step.
#include "engine/kernels/cuda/recurrent_simple.h"

#include "engine/kernels/cuda/product_launch.h"
#include "engine/kernels/cuda/sequences.h"

namespace rivulet::gpu {
namespace {

struct Simple {
  Sequences sequences;
  DType dtype;
  int64_t batch, units;
  int32_t activation;
};

StatusOr<int32_t> SimpleActivationOf(const NodeView& node) {
  const auto& name = node.attr<std::string>("activation");
  if (name == "tanh") return kSimpleTanh;
  if (name == "relu") return kSimpleRelu;
  if (name == "sigmoid") return kSimpleSigmoid;
  return Unimplemented("{} with activation '{}' on a GPU; there is that with 'tanh', 'relu' and 'sigmoid'",
                       node.node.type(), name);
}

StatusOr<Simple> SimpleOf(const NodeView& node, const Shape& rows, size_t lengths) {
  RIVULET_ASSIGN_OR_RETURN(const int32_t activation, SimpleActivationOf(node));
  RIVULET_ASSIGN_OR_RETURN(const Sequences sequences, Sequences::Of(node, rows, 1, lengths));
  return Simple{sequences, node.outputs[0].dtype, sequences.walk.batch, sequences.walk.units, activation};
}

double FlopsOf(const Simple& simple) {
  return 2.0 * static_cast<double>(simple.batch * simple.units * simple.units * simple.sequences.walk.steps);
}

template <typename T>
Status Forward(const GpuContext& c, const Simple& simple, bool has_h) {
  for (int64_t s = 0; s < simple.sequences.walk.steps; ++s) {
    SimpleStepArguments a{};
    a.h_before = s > 0 ? SpanOf<const void>(c.outputs[1]) : Optional(c, 2, has_h);
    if (a.h_before.data != nullptr) {
      ProductArguments p = ProductOfMatrices(simple.batch, simple.units, simple.units, false, false);
      p.a = a.h_before;
      p.b = gpu::InputOf<void>(c, 1);
      p.c = SpanOf<void>(c.scratch);
      RIVULET_RETURN_IF_ERROR(PutProduct(c, simple.dtype, p));
      a.product = SpanOf<const void>(c.scratch);
    }
    a.projection = gpu::InputOf<void>(c, 0);
    a.output = gpu::OutputOf<void>(c, 0);
    a.h = gpu::OutputOf<void>(c, 1);
    a.activation = simple.activation;
    a.walk = simple.sequences.At(c, s);
    RIVULET_RETURN_IF_ERROR(Put(c, fmt::format("simple_step_{}", kTypeText<T>), a));
  }
  return absl::OkStatus();
}

// All steps, with the product of the current one in scratch memory.
template <typename T>
Prepared LaunchingSteps(const Simple& simple, bool has_h, Status (*run)(const GpuContext&, const Simple&, bool has_h)) {
  Prepared prepared =
      Launching([simple, has_h, run](const GpuContext& c) { return run(c, simple, has_h); }, FlopsOf(simple));
  prepared.scratch_bytes = static_cast<size_t>(simple.batch * simple.units) * sizeof(T);
  return prepared;
}

template <typename T>
StatusOr<Prepared> PrepareSimple(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const Simple simple, SimpleOf(node, node.inputs[0].shape, 3));
  return LaunchingSteps<T>(simple, IsGiven(node, 2), Forward<T>);
}

template <typename T>
Status Backward(const GpuContext& c, const Simple& simple, bool has_h) {
  const int64_t units = simple.units;
  RIVULET_RETURN_IF_ERROR(PutCopy(c, c.inputs[5], c.outputs[2], static_cast<size_t>(simple.batch * units) * sizeof(T)));
  for (int64_t s = simple.sequences.walk.steps - 1; s >= -1; --s) {
    SimpleGradArguments a{};
    a.h0 = Optional(c, 1, has_h);
    a.output = gpu::InputOf<void>(c, 3);
    a.output_grad = gpu::InputOf<void>(c, 4);
    a.product = SpanOf<const void>(c.scratch);
    a.projection_grad = gpu::OutputOf<void>(c, 0);
    a.previous = gpu::OutputOf<void>(c, 1);
    a.h_grad = gpu::OutputOf<void>(c, 2);
    a.activation = simple.activation;
    a.later = simple.sequences.StepAt(s + 1);
    a.walk = simple.sequences.At(c, s);
    RIVULET_RETURN_IF_ERROR(Put(c, fmt::format("simple_step_grad_{}", kTypeText<T>), a));
    if (s < 0) break;
    ProductArguments p = ProductOfMatrices(simple.batch, units, units, false, true);
    p.a = SpanOf<const void>(c.outputs[0],
                             static_cast<size_t>(simple.sequences.walk.Row(a.walk.step, 0) * units) * sizeof(T));
    p.a_row = simple.sequences.walk.row_stride() * units;
    p.b = gpu::InputOf<void>(c, 0);
    p.c = SpanOf<void>(c.scratch);
    RIVULET_RETURN_IF_ERROR(PutProduct(c, simple.dtype, p));
  }
  return absl::OkStatus();
}

template <typename T>
StatusOr<Prepared> PrepareSimpleBackward(const NodeView& node, const KernelPolicy&) {
  RIVULET_ASSIGN_OR_RETURN(const Simple simple, SimpleOf(node, node.inputs[3].shape, 2));
  return LaunchingSteps<T>(simple, IsGiven(node, 1), Backward<T>);
}

RIVULET_KERNEL("SimpleRNN", Device::kCuda, float, PrepareSimple<float>);
RIVULET_KERNEL("SimpleRNN", Device::kCuda, double, PrepareSimple<double>);
RIVULET_KERNEL("SimpleRNNGrad", Device::kCuda, float, PrepareSimpleBackward<float>);
RIVULET_KERNEL("SimpleRNNGrad", Device::kCuda, double, PrepareSimpleBackward<double>);

}  // namespace
}  // namespace rivulet::gpu
