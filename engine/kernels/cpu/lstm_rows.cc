#include "engine/kernels/cpu/lstm_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/lstm_rows.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// clang-format off: the order matters
#include "engine/kernels/cpu/tail-inl.h"
#include "engine/kernels/cpu/vector_math-inl.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void LstmForward(const float* projection, const float* product, float* gates, float* c, float* h, float* cell,
                 float* output, size_t units) {
  const hn::ScalableTag<float> d;
  ForEachVector(d, units, [&](auto load, auto store) HWY_ATTR {
    const auto sum = [&](size_t gate)
                         HWY_ATTR { return hn::Add(load(projection + gate * units), load(product + gate * units)); };
    const auto in = SigmoidOf(d, sum(0)), forget = SigmoidOf(d, sum(1)), candidate = TanhOf(d, sum(2));
    const auto out = SigmoidOf(d, sum(3));
    const auto next = hn::Add(hn::Mul(forget, load(c)), hn::Mul(in, candidate));
    store(gates, in);
    store(gates + units, forget);
    store(gates + 2 * units, candidate);
    store(gates + 3 * units, out);
    store(c, next);
    store(cell, next);
    const auto state = hn::Mul(out, TanhOf(d, next));
    store(h, state);
    store(output, state);
  });
}

void LstmBackward(const LstmRowGradient& r, size_t units) {
  const hn::ScalableTag<float> d;
  const auto one = hn::Set(d, 1.0f), zero = hn::Zero(d);
  ForEachVector(d, units, [&](auto load, auto store) HWY_ATTR {
    const auto in = load(r.gates), forget = load(r.gates + units), candidate = load(r.gates + 2 * units);
    const auto out = load(r.gates + 3 * units), activated = TanhOf(d, load(r.cell));
    const auto of_sigmoid = [&](auto gradient, auto y)
                                HWY_ATTR { return hn::Mul(gradient, hn::Mul(y, hn::Sub(one, y))); };
    const auto of_tanh = [&](auto gradient, auto y) HWY_ATTR { return hn::Mul(gradient, hn::Sub(one, hn::Mul(y, y))); };
    const auto state = hn::Add(load(r.h_grad), load(r.output_grad));
    auto carried = hn::Add(load(r.c_grad), of_tanh(hn::Mul(state, out), activated));
    if (r.cells_grad != nullptr) carried = hn::Add(carried, load(r.cells_grad));
    const auto before = r.c_before == nullptr ? zero : load(r.c_before);
    store(r.grad, of_sigmoid(hn::Mul(carried, candidate), in));
    store(r.grad + units, of_sigmoid(hn::Mul(carried, before), forget));
    store(r.grad + 2 * units, of_tanh(hn::Mul(carried, in), candidate));
    store(r.grad + 3 * units, of_sigmoid(hn::Mul(state, activated), out));
    store(r.c_grad, hn::Mul(carried, forget));
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rivulet {

HWY_EXPORT(LstmForward);
HWY_EXPORT(LstmBackward);

void LstmForwardRow(const float* projection, const float* product, float* gates, float* c, float* h, float* cell,
                    float* output, size_t units) {
  HWY_DYNAMIC_DISPATCH(LstmForward)(projection, product, gates, c, h, cell, output, units);
}

void LstmBackwardRow(const LstmRowGradient& row, size_t units) { HWY_DYNAMIC_DISPATCH(LstmBackward)(row, units); }

}  // namespace rivulet
#endif
