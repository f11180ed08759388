#include "engine/kernels/cpu/recurrent/gru_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/recurrent/gru_rows.cc"
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

void GruForward(const float* projection, const float* product, const float* bias, float* gates, float* h, float* output,
                size_t units) {
  const hn::ScalableTag<float> d;
  const auto one = hn::Set(d, 1.0f);
  ForEachVector(d, units, [&](auto load, auto store) HWY_ATTR {
    const auto from_state = [&](size_t gate) HWY_ATTR {
      const auto sum = load(product + gate * units);
      return bias == nullptr ? sum : hn::Add(sum, load(bias + gate * units));
    };
    const auto z = SigmoidOf(d, hn::Add(load(projection), from_state(0)));
    const auto r = SigmoidOf(d, hn::Add(load(projection + units), from_state(1)));
    const auto inner = from_state(2);
    const auto candidate = TanhOf(d, hn::Add(load(projection + 2 * units), hn::Mul(r, inner)));
    const auto next = hn::Add(hn::Mul(z, load(h)), hn::Mul(hn::Sub(one, z), candidate));
    store(gates, z);
    store(gates + units, r);
    store(gates + 2 * units, candidate);
    store(gates + 3 * units, inner);
    store(h, next);
    store(output, next);
  });
}

void GruBackward(const GruRowGradient& row, size_t units) {
  const hn::ScalableTag<float> d;
  const auto one = hn::Set(d, 1.0f);
  ForEachVector(d, units, [&](auto load, auto store) HWY_ATTR {
    const auto z = load(row.gates), r = load(row.gates + units), candidate = load(row.gates + 2 * units);
    const auto inner = load(row.gates + 3 * units);
    const auto of_sigmoid = [&](auto gradient, auto y)
                                HWY_ATTR { return hn::Mul(gradient, hn::Mul(y, hn::Sub(one, y))); };
    const auto state = hn::Add(load(row.h_grad), load(row.output_grad));
    const auto z_grad = of_sigmoid(hn::Mul(state, hn::Sub(load(row.h), candidate)), z);
    const auto candidate_grad = hn::Mul(hn::Mul(state, hn::Sub(one, z)), hn::Sub(one, hn::Mul(candidate, candidate)));
    const auto r_grad = of_sigmoid(hn::Mul(candidate_grad, inner), r);
    store(row.grad, z_grad);
    store(row.grad + units, r_grad);
    store(row.grad + 2 * units, candidate_grad);
    store(row.recurrent, z_grad);
    store(row.recurrent + units, r_grad);
    store(row.recurrent + 2 * units, hn::Mul(candidate_grad, r));
    store(row.h_grad, hn::Mul(state, z));
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rivulet {

HWY_EXPORT(GruForward);
HWY_EXPORT(GruBackward);

void GruForwardRow(const float* projection, const float* product, const float* bias, float* gates, float* h,
                   float* output, size_t units) {
  HWY_DYNAMIC_DISPATCH(GruForward)(projection, product, bias, gates, h, output, units);
}

void GruBackwardRow(const GruRowGradient& row, size_t units) { HWY_DYNAMIC_DISPATCH(GruBackward)(row, units); }

}  // namespace rivulet
#endif
