#include "engine/kernels/cuda/element_adapter.h"

#include <limits>
#include <utility>

namespace rivulet::gpu {
namespace {

class ElementsKernel final : public GpuKernel, public GpuElements {
 public:
  ElementsKernel(std::unique_ptr<const Kernel> kernel, ElementProgram program)
      : kernel_(std::move(kernel)), program_(std::move(program)) {}
  Status Launch(const GpuContext& context) const override {
    return static_cast<const GpuKernel&>(*kernel_).Launch(context);
  }
  const ElementProgram& elements() const override { return program_; }

 private:
  const std::unique_ptr<const Kernel> kernel_;
  const ElementProgram program_;
};

std::optional<ElementType> TypeIn(DType dtype, DType own) {
  if (dtype == own) return ElementType::kOwn;
  if (dtype == DType::kBool) return ElementType::kBool;
  return std::nullopt;
}

bool IsOwn(DType dtype) { return dtype == DType::kFloat32 || dtype == DType::kFloat64; }

// The type of a node's arithmetic; for truth values only, float32.
DType OwnOf(const NodeView& node) {
  if (IsOwn(node.outputs[0].dtype)) return node.outputs[0].dtype;
  for (const TensorSpec& input : node.inputs)
    if (input.dtype != DType::kBool) return input.dtype;
  return DType::kFloat32;
}

}  // namespace

std::optional<ElementPlace> ElementPlaceOf(const TensorSpec& input, const Shape& output, DType own) {
  const std::optional<ElementType> type = TypeIn(input.dtype, own);
  if (!type) return std::nullopt;
  // From the last axis on: repeated axes, then others, then repeated ones again.
  int64_t divide = 1, modulo = 1;
  enum { kBehind, kWithin, kBefore } part = kBehind;
  for (int back = 1; back <= output.rank(); ++back) {
    const int64_t size = output.dim(output.rank() - back);
    if (size == 1) continue;
    const bool repeated = back > input.shape.rank() || input.shape.dim(input.shape.rank() - back) == 1;
    if (repeated) {
      if (part == kWithin) part = kBefore;
      if (part == kBehind) divide *= size;
    } else {
      if (part == kBefore) return std::nullopt;
      part = kWithin;
      modulo *= size;
    }
  }
  if (part == kBehind) return ElementPlace{1, divide == 1 ? 0U : 1U, *type};
  // No repeated axes precede it: the quotient is the position.
  return ElementPlace{static_cast<uint32_t>(divide), part == kWithin ? 0 : static_cast<uint32_t>(modulo), *type};
}

std::optional<ElementProgram> ElementsOf(const NodeView& node, std::span<const Shape> shapes, ElementCode code,
                                         double parameter) {
  const TensorSpec& output = node.outputs[0];
  ElementProgram program{.dtype = OwnOf(node), .count = output.shape.elements()};
  const std::optional<ElementType> type = TypeIn(output.dtype, program.dtype);
  if (!IsOwn(program.dtype) || !type || program.count > std::numeric_limits<int32_t>::max()) return std::nullopt;
  std::vector<ElementOperand> operands;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const auto source = ElementPlaceOf({node.inputs[i].dtype, shapes[i]}, output.shape, program.dtype);
    if (!source) return std::nullopt;
    program.inputs.push_back(*source);
    operands.push_back({ElementOperand::Kind::kInput, static_cast<int>(i)});
  }
  program.steps = {StepOf(code, std::move(operands), parameter)};
  program.targets = {{.step = 0, .type = *type}};
  return program;
}

std::optional<ElementProgram> ElementsOf(const NodeView& node, ElementCode code, double parameter) {
  std::vector<Shape> shapes;
  for (const TensorSpec& input : node.inputs) shapes.push_back(input.shape);
  return ElementsOf(node, shapes, code, parameter);
}

Prepared WithElements(Prepared prepared, std::optional<ElementProgram> program) {
  if (program && FitsElementChain(*program))
    prepared.kernel = std::make_unique<ElementsKernel>(std::move(prepared.kernel), *std::move(program));
  return prepared;
}

}  // namespace rivulet::gpu
