// Shared parts of TensorFlow's fused LSTM cells and sequences: the joint product and one example's step.
#pragma once

#include <algorithm>

#include "engine/kernels/cpu/product/step_product.h"
#include "engine/kernels/cpu/recurrent/recurrent.h"

namespace rivulet {

// out = [x, h] · w + b, with `columns` columns.
template <typename T>
struct JointProduct {
  int64_t batch, inputs, units, columns;
  bool portable;
  void operator()(const T* x, const T* h, const T* w, const T* b, T* part, T* out) const {
    StepProduct<T>(portable, x, inputs, 1, w, out, batch, columns, inputs);
    StepProduct<T>(portable, h, units, 1, w + inputs * columns, part, batch, columns, units);
    for (int64_t row = 0; row < batch; ++row)
      for (int64_t i = 0; i < columns; ++i) out[row * columns + i] += part[row * columns + i] + b[i];
  }
};

// One step of an LSTM for one example, from its gates' sums.
template <typename T>
class LstmBlockStep {
 public:
  // The order of gates is i, c, f, o, or with `forget_second` i, f, c, o.
  LstmBlockStep(const NodeView& node, int64_t units, T forget_bias, bool forget_second)
      : units_(units),
        forget_bias_(forget_bias),
        clip_(static_cast<T>(node.attr<float>("cell_clip"))),
        peephole_(node.attr<bool>("use_peephole")),
        forget_second_(forget_second) {}

  struct Peepholes {
    const T *input, *forget, *output;
  };
  // Rows of TensorFlow's outputs, in their order.
  struct Outputs {
    T *i, *cs, *f, *o, *ci, *co, *h;
  };
  void operator()(const T* gates, const T* old, const Peepholes& w, const Outputs& out) const {
    const int64_t units = units_;
    const T* candidate = gates + (forget_second_ ? 2 : 1) * units;
    const T* forget = gates + (forget_second_ ? 1 : 2) * units;
    for (int64_t i = 0; i < units; ++i) {
      out.i[i] = gates[i] + (peephole_ ? old[i] * w.input[i] : T{0});
      out.ci[i] = candidate[i];
      out.f[i] = forget[i] + forget_bias_ + (peephole_ ? old[i] * w.forget[i] : T{0});
    }
    sigmoid_.Apply(out.i, units);
    tanh_.Apply(out.ci, units);
    sigmoid_.Apply(out.f, units);
    for (int64_t i = 0; i < units; ++i) {
      T cell = out.ci[i] * out.i[i] + old[i] * out.f[i];
      if (clip_ > 0) cell = cell > clip_ ? clip_ : cell < -clip_ ? -clip_ : cell;
      out.cs[i] = cell;
      out.o[i] = gates[3 * units + i] + (peephole_ ? cell * w.output[i] : T{0});
    }
    sigmoid_.Apply(out.o, units);
    std::copy_n(out.cs, units, out.co);
    tanh_.Apply(out.co, units);
    for (int64_t i = 0; i < units; ++i) out.h[i] = out.co[i] * out.o[i];
  }

 private:
  int64_t units_;
  T forget_bias_, clip_;
  bool peephole_, forget_second_;
  Gate<T> sigmoid_{"sigmoid", 0}, tanh_{"tanh", 0};
};

}  // namespace rivulet
