// Shared parts of this folder's adapters, which translate a node to launches of device kernels.
#pragma once

#include <limits>
#include <string>
#include <utility>

#include "engine/kernels/cuda/lane_span.h"
#include "engine/program/gpu_kernel.h"

namespace rivulet::gpu {

template <typename T>
LaneSpan<T> SpanOf(const GpuOperand& operand, size_t offset = 0) {
  return {reinterpret_cast<T*>(operand.data + offset), operand.lane_stride};
}
template <typename T>
LaneSpan<const T> InputOf(const GpuContext& context, size_t i) {
  return SpanOf<const T>(context.inputs[i]);
}
template <typename T>
LaneSpan<T> OutputOf(const GpuContext& context, size_t i) {
  return SpanOf<T>(context.outputs[i]);
}
template <typename T>
LaneSpan<T> VariableOf(const GpuContext& context, size_t i) {
  return SpanOf<T>(context.variables[i]);
}

// Puts one kernel into the stream, with `arguments.lanes` set.
template <typename Arguments>
Status Put(const GpuContext& context, std::string_view kernel, Arguments arguments) {
  arguments.lanes = {context.lanes.count, context.lanes.ids};
  return context.stream->Launch(kernel, arguments);
}

// A kernel whose calls are `launch(context)`.
template <typename F>
class LaunchingKernel final : public GpuKernel {
 public:
  explicit LaunchingKernel(F launch) : launch_(std::move(launch)) {}
  Status Launch(const GpuContext& context) const override { return launch_(context); }

 private:
  F launch_;
};

template <typename F>
Prepared Launching(F launch, double flops = 0, std::vector<std::pair<int, int>> in_place = {}) {
  Prepared prepared;
  prepared.kernel = std::make_unique<LaunchingKernel<F>>(std::move(launch));
  prepared.implementation = "cuda";
  prepared.flops = flops;
  prepared.in_place = std::move(in_place);
  return prepared;
}

// The type's text in names of device kernels ("relu_float").
template <typename T>
inline constexpr std::string_view kTypeText = "";
template <>
inline constexpr std::string_view kTypeText<float> = "float";
template <>
inline constexpr std::string_view kTypeText<double> = "double";
template <>
inline constexpr std::string_view kTypeText<int32_t> = "int32_t";
template <>
inline constexpr std::string_view kTypeText<int64_t> = "int64_t";
template <>
inline constexpr std::string_view kTypeText<uint8_t> = "uint8_t";
template <>
inline constexpr std::string_view kTypeText<bool> = "bool";

// Positions within one lane's tensor have 31 bits on the device. UNIMPLEMENTED: more elements.
inline StatusOr<int32_t> CountOf(int64_t elements) {
  if (elements > std::numeric_limits<int32_t>::max())
    return Unimplemented("a tensor of {} elements is beyond the 2^31 - 1 of one lane on a GPU", elements);
  return static_cast<int32_t>(elements);
}

}  // namespace rivulet::gpu
