// Exp, Log, Log1p, Tanh, Sigmoid and Softplus of floats. Those of doubles are in unary.cc.
#include "engine/kernels/cpu/elementwise/unary_transcendental.h"

#include "engine/program/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/elementwise/unary_transcendental.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// clang-format off: the order matters
#include "engine/kernels/cpu/vector/tail-inl.h"
#include "engine/kernels/cpu/vector/vector_math-inl.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#define RIVULET_FLOAT_LOOP(name, function)                                                               \
  void name(const float* in, float* out, size_t count) {                                                 \
    const hn::ScalableTag<float> d;                                                                      \
    ForEachVector(d, count, [&](auto load, auto store) HWY_ATTR { store(out, function(d, load(in))); }); \
  }
RIVULET_FLOAT_LOOP(ExpLoop, ExpOf)
RIVULET_FLOAT_LOOP(LogLoop, LogOf)
RIVULET_FLOAT_LOOP(Log1pLoop, Log1pOf)
RIVULET_FLOAT_LOOP(TanhLoop, TanhOf)
RIVULET_FLOAT_LOOP(SigmoidLoop, SigmoidOf)
RIVULET_FLOAT_LOOP(SoftplusLoop, SoftplusOf)

void ExpShiftedLoop(const float* in, float shift, float* out, size_t count) {
  const hn::ScalableTag<float> d;
  const auto by = hn::Set(d, shift);
  ForEachVector(d, count, [&](auto load, auto store) HWY_ATTR { store(out, ExpOf(d, hn::Sub(load(in), by))); });
}

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rivulet {

HWY_EXPORT(ExpLoop);
HWY_EXPORT(LogLoop);
HWY_EXPORT(Log1pLoop);
HWY_EXPORT(TanhLoop);
HWY_EXPORT(SigmoidLoop);
HWY_EXPORT(SoftplusLoop);
HWY_EXPORT(ExpShiftedLoop);

void ExpOfShifted(const float* in, float shift, float* out, size_t count) {
  HWY_DYNAMIC_DISPATCH(ExpShiftedLoop)(in, shift, out, count);
}

void TanhOfRow(float* values, size_t count) { HWY_DYNAMIC_DISPATCH(TanhLoop)(values, values, count); }
void SigmoidOfRow(float* values, size_t count) { HWY_DYNAMIC_DISPATCH(SigmoidLoop)(values, values, count); }

namespace {

template <auto kLoop>
class FloatKernel final : public Kernel {
 public:
  explicit FloatKernel(size_t count) : count_(count) {}
  Status Run(const KernelContext& context) const override {
    kLoop(reinterpret_cast<const float*>(context.inputs[0]), reinterpret_cast<float*>(context.outputs[0]), count_);
    return {};
  }

 private:
  size_t count_;
};

template <auto kLoop>
StatusOr<Prepared> PrepareFloat(const NodeView& node, const KernelPolicy&) {
  Prepared prepared;
  prepared.kernel = std::make_unique<FloatKernel<kLoop>>(static_cast<size_t>(node.outputs[0].shape.elements()));
  prepared.in_place = {{0, 0}};
  prepared.implementation = "hwy";
  prepared.flops = static_cast<double>(node.outputs[0].shape.elements());
  return prepared;
}

#define RIVULET_FLOAT_KERNEL(name)                                                                                     \
  void name##Dispatch(const float* in, float* out, size_t count) { HWY_DYNAMIC_DISPATCH(name##Loop)(in, out, count); } \
  RIVULET_KERNEL(#name, Device::kCpu, float, PrepareFloat<name##Dispatch>);
RIVULET_FLOAT_KERNEL(Exp)
RIVULET_FLOAT_KERNEL(Log)
RIVULET_FLOAT_KERNEL(Log1p)
RIVULET_FLOAT_KERNEL(Tanh)
RIVULET_FLOAT_KERNEL(Sigmoid)
RIVULET_FLOAT_KERNEL(Softplus)

}  // namespace
}  // namespace rivulet
#endif
