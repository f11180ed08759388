// Adapters of elementwise.cu.
#include "engine/kernels/cuda/elementwise.h"

#include <array>
#include <optional>

#include "engine/kernels/cpu/movement/copies.h"
#include "engine/kernels/cuda/device_walk.h"
#include "engine/kernels/cuda/element_adapter.h"
#include "engine/kernels/cuda/elementwise_list.h"
#include "engine/kernels/cuda/launch.h"

namespace rivulet::gpu {
namespace {

// (input, 0) for each input with the output's layout, so that the output may reuse its memory.
std::vector<std::pair<int, int>> InPlace(const NodeView& node) {
  std::vector<std::pair<int, int>> pairs;
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (node.inputs[i] == node.outputs[0]) pairs.emplace_back(static_cast<int>(i), 0);
  return pairs;
}

double ParameterOf(const NodeView& node) {
  const float* alpha = node.node.FindAttr<float>("alpha");
  return alpha == nullptr ? 0 : static_cast<double>(*alpha);
}

StatusOr<Prepared> PrepareUnary(const NodeView& node, std::string kernel, ElementCode code) {
  UnaryArguments arguments{};
  RIVULET_ASSIGN_OR_RETURN(arguments.count, CountOf(node.outputs[0].shape.elements()));
  arguments.parameter = ParameterOf(node);
  Prepared prepared = Launching(
      [kernel = std::move(kernel), arguments](const GpuContext& c) {
        UnaryArguments a = arguments;
        a.x = InputOf<void>(c, 0);
        a.y = OutputOf<void>(c, 0);
        return Put(c, kernel, a);
      },
      static_cast<double>(arguments.count), InPlace(node));
  return WithElements(std::move(prepared), ElementsOf(node, code, arguments.parameter));
}

// Without a code the function cannot be part of a chain.
StatusOr<Prepared> PrepareBinary(const NodeView& node, std::string kernel, std::optional<ElementCode> code) {
  const Shape& output = node.outputs[0].shape;
  BinaryArguments arguments{};
  RIVULET_ASSIGN_OR_RETURN(arguments.count, CountOf(output.elements()));
  RIVULET_ASSIGN_OR_RETURN(const auto walk, MakeBroadcastWalk<2>(output, {node.inputs[0].shape, node.inputs[1].shape}));
  RIVULET_ASSIGN_OR_RETURN(arguments.walk, DeviceWalk(walk));
  arguments.parameter = ParameterOf(node);
  Prepared prepared = Launching(
      [kernel = std::move(kernel), arguments](const GpuContext& c) {
        BinaryArguments a = arguments;
        a.a = InputOf<void>(c, 0);
        a.b = InputOf<void>(c, 1);
        a.y = OutputOf<void>(c, 0);
        return Put(c, kernel, a);
      },
      static_cast<double>(arguments.count), InPlace(node));
  if (!code) return prepared;
  return WithElements(std::move(prepared), ElementsOf(node, *code, arguments.parameter));
}

// One number per channel: the last axis, or the second in NCHW.
StatusOr<Prepared> PrepareBiasAdd(const NodeView& node, std::string kernel, ElementCode code) {
  const Shape& shape = node.inputs[0].shape;
  if (shape.rank() < 2) return InvalidArgument("a bias needs a value of rank 2 or more, not {}", shape.ToString());
  const std::string* format = node.node.FindAttr<std::string>("data_format");
  const int axis = format != nullptr && *format == "NCHW" && shape.rank() > 2 ? 1 : shape.rank() - 1;
  if (node.inputs[1].shape != Shape({shape.dim(axis)}))
    return InvalidArgument("a bias of {} does not fit {} channels", node.inputs[1].shape.ToString(), shape.dim(axis));
  std::vector<int64_t> dims(static_cast<size_t>(shape.rank() - axis), 1);
  dims[0] = shape.dim(axis);
  std::vector<TensorSpec> inputs(node.inputs.begin(), node.inputs.end());
  inputs[1].shape = Shape(std::move(dims));
  NodeView along_axis = node;
  along_axis.inputs = inputs;
  return PrepareBinary(along_axis, std::move(kernel), code);
}

StatusOr<Prepared> PrepareTernary(const NodeView& node, const Shape& first, std::string kernel, ElementCode code) {
  const Shape& output = node.outputs[0].shape;
  TernaryArguments arguments{};
  RIVULET_ASSIGN_OR_RETURN(arguments.count, CountOf(output.elements()));
  RIVULET_ASSIGN_OR_RETURN(const auto walk,
                           MakeBroadcastWalk<3>(output, {first, node.inputs[1].shape, node.inputs[2].shape}));
  RIVULET_ASSIGN_OR_RETURN(arguments.walk, DeviceWalk(walk));
  Prepared prepared = Launching(
      [kernel = std::move(kernel), arguments](const GpuContext& c) {
        TernaryArguments a = arguments;
        a.a = InputOf<void>(c, 0);
        a.b = InputOf<void>(c, 1);
        a.c = InputOf<void>(c, 2);
        a.y = OutputOf<void>(c, 0);
        return Put(c, kernel, a);
      },
      static_cast<double>(arguments.count), InPlace(node));
  return WithElements(std::move(prepared),
                      ElementsOf(node, std::array{first, node.inputs[1].shape, node.inputs[2].shape}, code));
}

StatusOr<Prepared> SelectBySize(const NodeView& node, const Shape& condition) {
  const size_t bytes = SizeOf(node.outputs[0].dtype);
  if (bytes == 0) return Unimplemented("a choice between elements of type {}", Name(node.outputs[0].dtype));
  return PrepareTernary(node, condition, fmt::format("Select_uint{}_t", bytes * 8), ElementCode::kSelect);
}
StatusOr<Prepared> PrepareSelectV2(const NodeView& node, const KernelPolicy&) {
  return SelectBySize(node, node.inputs[0].shape);
}
// A vector of conditions selects slices.
StatusOr<Prepared> PrepareSelect(const NodeView& node, const KernelPolicy&) {
  const Shape &condition = node.inputs[0].shape, &output = node.outputs[0].shape;
  if (condition.rank() != 1 || output.rank() <= 1) return SelectBySize(node, condition);
  std::vector<int64_t> dims(static_cast<size_t>(output.rank()), 1);
  dims[0] = condition.dim(0);
  return SelectBySize(node, Shape(std::move(dims)));
}

// The sum in order, with a step for each operand after the first.
std::optional<ElementProgram> SumElements(const NodeView& node) {
  std::optional<ElementProgram> program = ElementsOf(node, ElementCode::kCopy);
  if (!program || node.inputs.size() < 2) return program;
  program->steps.clear();
  for (int i = 1; i < static_cast<int>(node.inputs.size()); ++i) {
    using Kind = ElementOperand::Kind;
    const ElementOperand sum = i == 1 ? ElementOperand{Kind::kInput, 0} : ElementOperand{Kind::kStep, i - 2};
    program->steps.push_back(StepOf(ElementCode::kAddV2, {sum, {Kind::kInput, i}}));
  }
  program->targets[0].step = static_cast<int>(program->steps.size()) - 1;
  return program;
}

StatusOr<Prepared> PrepareAddN(const NodeView& node, std::string kernel) {
  AddNArguments arguments{};
  RIVULET_ASSIGN_OR_RETURN(arguments.count, CountOf(node.outputs[0].shape.elements()));
  const size_t inputs = node.inputs.size();
  // With one call every element is read before it is written; with more, only the first call's inputs are.
  std::vector<std::pair<int, int>> in_place = InPlace(node);
  std::erase_if(in_place, [](const auto& pair) { return pair.first >= AddNArguments::kMost; });
  Prepared prepared = Launching(
      [kernel = std::move(kernel), arguments, inputs](const GpuContext& c) {
        for (size_t next = 0; next < inputs || next == 0;) {
          AddNArguments a = arguments;
          a.y = OutputOf<void>(c, 0);
          if (next > 0) a.x[a.inputs++] = SpanOf<const void>(c.outputs[0]);
          while (next < inputs && a.inputs < AddNArguments::kMost) a.x[a.inputs++] = InputOf<void>(c, next++);
          RIVULET_RETURN_IF_ERROR(Put(c, kernel, a));
        }
        return absl::OkStatus();
      },
      static_cast<double>(arguments.count) * static_cast<double>(inputs - 1), std::move(in_place));
  return WithElements(std::move(prepared), SumElements(node));
}

// Chosen by the attribute `approximate`: the formula with tanh, or with erf.
StatusOr<Prepared> PrepareGelu(const NodeView& node, std::string_view type) {
  const bool tanh = node.attr<bool>("approximate");
  return PrepareUnary(node, fmt::format("{}_{}", tanh ? "GeluTanh" : "Gelu", type),
                      tanh ? ElementCode::kGeluTanh : ElementCode::kGelu);
}
StatusOr<Prepared> PrepareGeluGrad(const NodeView& node, std::string_view type) {
  const bool tanh = node.attr<bool>("approximate");
  return PrepareBinary(node, fmt::format("{}_{}", tanh ? "GeluTanhGrad" : "GeluGrad", type),
                       tanh ? ElementCode::kGeluTanhGrad : ElementCode::kGeluGrad);
}

#define RIVULET_GPU_ADAPTER(op, F, T, prepare)                                         \
  RIVULET_KERNEL(op, Device::kCuda, T, [](const NodeView& node, const KernelPolicy&) { \
    return prepare(node, #F "_" #T, ElementCode::k##F);                                \
  });
#define RIVULET_GPU_UNARY(F, T) RIVULET_GPU_ADAPTER(#F, F, T, PrepareUnary)
#define RIVULET_GPU_BINARY(F, T) RIVULET_GPU_ADAPTER(#F, F, T, PrepareBinary)
RIVULET_GPU_UNARY_FUNCTIONS(RIVULET_GPU_UNARY)
RIVULET_GPU_BINARY_FUNCTIONS(RIVULET_GPU_BINARY)
RIVULET_GPU_COMPARISONS(RIVULET_GPU_BINARY)
#define RIVULET_GPU_POWER(F, T)                                                        \
  RIVULET_KERNEL(#F, Device::kCuda, T, [](const NodeView& node, const KernelPolicy&) { \
    return PrepareBinary(node, #F "_" #T, std::nullopt);                               \
  });
RIVULET_GPU_POWERS(RIVULET_GPU_POWER)

// Other names for the same functions.
#define RIVULET_GPU_ADD(F, T) RIVULET_GPU_ADAPTER("Add", F, T, PrepareBinary)
#define RIVULET_GPU_BIAS(F, T) RIVULET_GPU_ADAPTER("BiasAdd", F, T, PrepareBiasAdd)
#define RIVULET_GPU_DIV(F, T) RIVULET_GPU_ADAPTER("Div", F, T, PrepareBinary)
#define RIVULET_GPU_INV(F, T) RIVULET_GPU_ADAPTER("Inv", F, T, PrepareUnary)
#define RIVULET_GPU_INV_GRAD(F, T) RIVULET_GPU_ADAPTER("InvGrad", F, T, PrepareBinary)
#define RIVULET_GPU_RINT(F, T) RIVULET_GPU_ADAPTER("Rint", F, T, PrepareUnary)
RIVULET_GPU_NUMBERS(RIVULET_GPU_ADD, AddV2)
RIVULET_GPU_FLOATS(RIVULET_GPU_BIAS, AddV2)
RIVULET_GPU_FLOATS(RIVULET_GPU_DIV, RealDiv)
RIVULET_GPU_FLOATS(RIVULET_GPU_INV, Reciprocal)
RIVULET_GPU_FLOATS(RIVULET_GPU_INV_GRAD, ReciprocalGrad)
RIVULET_GPU_FLOATS(RIVULET_GPU_RINT, Round)

#define RIVULET_GPU_LOGIC(F, prepare)                                                     \
  RIVULET_KERNEL(#F, Device::kCuda, void, [](const NodeView& node, const KernelPolicy&) { \
    return prepare(node, #F "_bool", ElementCode::k##F);                                  \
  });
RIVULET_GPU_LOGIC(LogicalAnd, PrepareBinary)
RIVULET_GPU_LOGIC(LogicalOr, PrepareBinary)
RIVULET_GPU_LOGIC(LogicalNot, PrepareUnary)

#define RIVULET_GPU_CLIP(F, T)                                                                    \
  RIVULET_KERNEL("ClipByValue", Device::kCuda, T, [](const NodeView& node, const KernelPolicy&) { \
    return PrepareTernary(node, node.inputs[0].shape, #F "_" #T, ElementCode::k##F);              \
  });
RIVULET_GPU_SIGNED(RIVULET_GPU_CLIP, ClipByValue)
#define RIVULET_GPU_ADDN(F, T)             \
  RIVULET_KERNEL("AddN", Device::kCuda, T, \
                 [](const NodeView& node, const KernelPolicy&) { return PrepareAddN(node, #F "_" #T); });
RIVULET_GPU_SIGNED(RIVULET_GPU_ADDN, AddN)

#define RIVULET_GPU_GELU(F, T)                                                                     \
  RIVULET_KERNEL("Gelu", Device::kCuda, T,                                                         \
                 [](const NodeView& node, const KernelPolicy&) { return PrepareGelu(node, #T); }); \
  RIVULET_KERNEL("GeluGrad", Device::kCuda, T,                                                     \
                 [](const NodeView& node, const KernelPolicy&) { return PrepareGeluGrad(node, #T); });
RIVULET_GPU_FLOATS(RIVULET_GPU_GELU, Gelu)

RIVULET_KERNEL("Select", Device::kCuda, void, PrepareSelect);
RIVULET_KERNEL("SelectV2", Device::kCuda, void, PrepareSelectV2);

}  // namespace
}  // namespace rivulet::gpu
