#include "engine/kernels/cpu/recurrent/lstm_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/recurrent/lstm_rows.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// clang-format off: the order matters
#include "engine/kernels/cpu/vector/tail-inl.h"
#include "engine/kernels/cpu/vector/vector_math-inl.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// One vector of each of a row's four gates.
HWY_INLINE void PrefetchGates(const float* row, std::ptrdiff_t units) {
  for (std::ptrdiff_t gate = 0; gate < 4; ++gate) hwy::Prefetch(row + gate * units);
}

void LstmForward(const float* projection, const float* product, float* gates, float* c, float* h, float* cell,
                 float* output, size_t units, std::ptrdiff_t next) {
  const hn::ScalableTag<float> d;
  const std::ptrdiff_t width = static_cast<std::ptrdiff_t>(units);
  const float *next_projection = projection + next * 4 * width, *next_cell = cell + next * width;
  const float* next_output = output + next * width;
  ForEachVector(d, units, [&](auto load, auto store) HWY_ATTR {
    PrefetchGates(next_projection, width);
    hwy::Prefetch(next_cell);
    hwy::Prefetch(next_output);
    next_projection += hn::Lanes(d);
    next_cell += hn::Lanes(d);
    next_output += hn::Lanes(d);
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
  const std::ptrdiff_t width = static_cast<std::ptrdiff_t>(units);
  const float *next_gates = r.gates + r.next * 4 * width, *next_output_grad = r.output_grad + r.next * width;
  const float *next_grad = r.grad + r.next * 4 * width, *next_c_before = r.next_c_before;
  ForEachVector(d, units, [&](auto load, auto store) HWY_ATTR {
    PrefetchGates(next_gates, width);
    if (r.grad != r.gates) PrefetchGates(next_grad, width);
    hwy::Prefetch(next_output_grad);
    next_gates += hn::Lanes(d);
    next_grad += hn::Lanes(d);
    next_output_grad += hn::Lanes(d);
    if (next_c_before != nullptr) {
      hwy::Prefetch(next_c_before);
      next_c_before += hn::Lanes(d);
    }
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
                    float* output, size_t units, std::ptrdiff_t next) {
  HWY_DYNAMIC_DISPATCH(LstmForward)(projection, product, gates, c, h, cell, output, units, next);
}

void LstmBackwardRow(const LstmRowGradient& row, size_t units) { HWY_DYNAMIC_DISPATCH(LstmBackward)(row, units); }

}  // namespace rivulet
#endif
