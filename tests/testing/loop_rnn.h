// Recurrent layers twice: written as a While over lists, and as the fused op.
#pragma once

#include <span>
#include <vector>

#include "engine/graph/function_builder.h"
#include "engine/layers/recurrent.h"

namespace rivulet::testing {

inline Output ScalarInt(const Scope& s, int32_t value) { return s.Const(Tensor::Scalar(value)); }

enum class RnnLayer { kSimpleRnn, kGru, kLstm };

struct RnnInputs {
  Output x, kernel, recurrent, bias, lengths;
};

// One column block of a [batch, gates · units] tensor.
inline Output Gate(const Scope& s, Output all, int32_t gate, int32_t units) {
  const auto pair = [&](int32_t a, int32_t b) { return s.Const(Tensor::Of<int32_t>({2}, {a, b})); };
  return s.Op("Slice", {all, pair(0, gate * units), pair(-1, units)});
}

// The layer as tf.while_loop with TensorArrays would have it; x is [time, batch, features].
inline Output LoopLayer(const Scope& scope, RnnLayer layer, const RnnInputs& in, int32_t time, int64_t batch,
                        int32_t units) {
  const AttrMap floats = {{"element_dtype", DType::kFloat32}};
  const Output any = ScalarInt(scope, -1), steps = ScalarInt(scope, time);
  const Output list = scope.Op("TensorListFromTensor", {in.x, any});
  const Output out = scope.Op("TensorListReserve", {any, steps}, floats);
  const Output zero = scope.Const(Tensor(DType::kFloat32, Shape({batch, units})));
  const std::vector<Output> loop = WhileLoop(
      scope,
      [&](const Scope& s, std::span<const Output> v) {
        return s.Op("Less", {v[0], steps});
      },
      [&](const Scope& s, std::span<const Output> v) -> std::vector<Output> {
        const Output h = v[1], c = v[2];
        const Output x = s.Op("TensorListGetItem", {list, v[0], any}, floats);
        const Output projected = s.Op("AddV2", {s.Op("MatMul", {x, in.kernel}), in.bias});
        const Output recurrent = s.Op("MatMul", {h, in.recurrent});
        const auto part = [&](Output all, int32_t gate) { return Gate(s, all, gate, units); };
        Output new_h, new_c = c;
        if (layer == RnnLayer::kSimpleRnn) {
          new_h = s.Op("Tanh", {s.Op("AddV2", {projected, recurrent})});
        } else if (layer == RnnLayer::kLstm) {
          const Output all = s.Op("AddV2", {projected, recurrent});
          const Output i = s.Op("Sigmoid", {part(all, 0)}), f = s.Op("Sigmoid", {part(all, 1)}),
                       o = s.Op("Sigmoid", {part(all, 3)});
          new_c = s.Op("AddV2", {s.Op("Mul", {f, c}), s.Op("Mul", {i, s.Op("Tanh", {part(all, 2)})})});
          new_h = s.Op("Mul", {o, s.Op("Tanh", {new_c})});
        } else {
          const Output z = s.Op("Sigmoid", {s.Op("AddV2", {part(projected, 0), part(recurrent, 0)})});
          const Output r = s.Op("Sigmoid", {s.Op("AddV2", {part(projected, 1), part(recurrent, 1)})});
          const Output n = s.Op("Tanh", {s.Op("AddV2", {part(projected, 2), s.Op("Mul", {r, part(recurrent, 2)})})});
          const Output one = s.Const(Tensor::Scalar(1.0f));
          new_h = s.Op("AddV2", {s.Op("Mul", {z, h}), s.Op("Mul", {s.Op("Sub", {one, z}), n})});
        }
        // Beyond a sequence's length the state holds, and the output is zero.
        const Output runs = s.Op("ExpandDims", {s.Op("Less", {v[0], in.lengths}), ScalarInt(s, 1)});
        const Output written = s.Op("SelectV2", {runs, new_h, zero});
        return {s.Op("AddV2", {v[0], ScalarInt(s, 1)}), s.Op("SelectV2", {runs, new_h, h}),
                s.Op("SelectV2", {runs, new_c, c}), s.Op("TensorListSetItem", {v[3], v[0], written})};
      },
      {ScalarInt(scope, 0), zero, zero, out});
  AttrMap stack = floats;
  stack["num_elements"] = int64_t{time};
  // The final state joins the loss as one more row.
  const Output rows = scope.Op("TensorListStack", {loop[3], any}, stack);
  return scope.Op("ConcatV2", {rows, scope.Op("ExpandDims", {loop[1], ScalarInt(scope, 0)}), ScalarInt(scope, 0)});
}

// The same by one op.
inline Output FusedLayer(const Scope& scope, RnnLayer layer, const RnnInputs& in) {
  RecurrentInputs inputs;
  inputs.x = in.x;
  inputs.kernel = in.kernel;
  inputs.recurrent_kernel = in.recurrent;
  inputs.bias = in.bias;
  inputs.sequence_lengths = in.lengths;
  RecurrentOptions options;
  options.time_major = true;
  const RecurrentOutputs outputs = layer == RnnLayer::kLstm  ? BuildLstm(scope, inputs, options)
                                   : layer == RnnLayer::kGru ? BuildGru(scope, inputs, options)
                                                             : BuildSimpleRnn(scope, inputs, options);
  return scope.Op("ConcatV2", {outputs.output, scope.Op("ExpandDims", {outputs.final_h, ScalarInt(scope, 0)}),
                               ScalarInt(scope, 0)});
}

}  // namespace rivulet::testing
