#include "engine/program/gpu_via_float32.h"

#include <string_view>
#include <utility>

#include "engine/gpu/lane_cast.h"
#include "engine/program/gpu_elements.h"
#include "engine/program/gpu_kernel.h"

namespace rivulet {
namespace {

class GpuViaFloat32Kernel final : public GpuKernel {
 public:
  explicit GpuViaFloat32Kernel(Float32Conversions conversions) : with_(std::move(conversions)) {}

  Status Launch(const GpuContext& context) const override {
    // Kernels are shared by all threads, so tables are made per launch; a launch is captured once and then replayed.
    std::vector<GpuOperand> inputs(context.inputs.begin(), context.inputs.end());
    std::vector<GpuOperand> outputs(context.outputs.begin(), context.outputs.end());
    std::vector<GpuOperand> variables(context.variables.begin(), context.variables.end());
    RIVULET_RETURN_IF_ERROR(Widen(context, with_.inputs, inputs));
    RIVULET_RETURN_IF_ERROR(Widen(context, with_.variables, variables));
    for (const ConvertedTensor& tensor : with_.outputs) outputs[tensor.index] = InScratch(context, tensor);
    GpuContext inner = context;
    inner.inputs = inputs;
    inner.outputs = outputs;
    inner.variables = variables;
    inner.narrow_factors = with_.is_product;
    RIVULET_RETURN_IF_ERROR(static_cast<const GpuKernel&>(*with_.kernel).Launch(inner));
    RIVULET_RETURN_IF_ERROR(Narrow(context, with_.outputs, context.outputs));
    return with_.writes_variables ? Narrow(context, with_.variables, context.variables) : absl::OkStatus();
  }

 private:
  static GpuOperand InScratch(const GpuContext& context, const ConvertedTensor& tensor) {
    return {context.scratch.data + tensor.offset, context.scratch.lane_stride};
  }

  static Status Cast(const GpuContext& context, std::string_view kernel, const GpuOperand& to, const GpuOperand& from,
                     int64_t count, float largest) {
    return context.stream->Launch(kernel, LaneCastArguments{to.data, to.lane_stride, from.data, from.lane_stride, count,
                                                            largest, context.lanes.count, context.lanes.ids});
  }

  static Status Widen(const GpuContext& context, const std::vector<ConvertedTensor>& tensors,
                      std::vector<GpuOperand>& operands) {
    for (const ConvertedTensor& tensor : tensors) {
      const GpuOperand wide = InScratch(context, tensor);
      RIVULET_RETURN_IF_ERROR(Cast(context, tensor.dtype == DType::kBFloat16 ? "widen_bfloat16" : "widen_float16", wide,
                                   operands[tensor.index], tensor.count, std::numeric_limits<float>::infinity()));
      operands[tensor.index] = wide;
    }
    return {};
  }

  Status Narrow(const GpuContext& context, const std::vector<ConvertedTensor>& tensors,
                std::span<const GpuOperand> operands) const {
    for (const ConvertedTensor& tensor : tensors) {
      const float largest = with_.below_one ? LargestBelowOne(tensor.dtype) : std::numeric_limits<float>::infinity();
      RIVULET_RETURN_IF_ERROR(Cast(context, tensor.dtype == DType::kBFloat16 ? "narrow_bfloat16" : "narrow_float16",
                                   operands[tensor.index], InScratch(context, tensor), tensor.count, largest));
    }
    return {};
  }

  const Float32Conversions with_;
};

ElementType ElementTypeOf(DType dtype) {
  return dtype == DType::kBFloat16 ? ElementType::kBfloat16 : ElementType::kFloat16;
}

}  // namespace

std::unique_ptr<const Kernel> NewElementsVia(const Float32Conversions& conversions) {
  const auto* const elements = dynamic_cast<const GpuElements*>(conversions.kernel.get());
  if (elements == nullptr || !conversions.variables.empty() || conversions.below_one) return nullptr;
  ElementProgram program = elements->elements();
  for (const ConvertedTensor& input : conversions.inputs) program.inputs[input.index].type = ElementTypeOf(input.dtype);
  for (const ConvertedTensor& output : conversions.outputs) {
    for (ElementTarget& target : program.targets) {
      if (static_cast<size_t>(target.index) != output.index) continue;
      const bool bfloat16 = output.dtype == DType::kBFloat16;
      // A separate step, because a joined consumer reads the value from here and not from memory.
      program.steps.push_back(
          {bfloat16 ? kElementToBfloat16 : kElementToFloat16, {{ElementOperand::Kind::kStep, target.step}}});
      target.step = static_cast<int>(program.steps.size()) - 1;
      target.type = ElementTypeOf(output.dtype);
    }
  }
  if (!FitsElementChain(program)) return nullptr;
  return NewElementChain(std::move(program));
}

std::unique_ptr<const Kernel> NewGpuViaFloat32(Float32Conversions conversions) {
  return std::make_unique<GpuViaFloat32Kernel>(std::move(conversions));
}

}  // namespace rivulet
