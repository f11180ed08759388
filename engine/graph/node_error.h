// Explanation of errors in building a node. After the sentence come lines with the expression, the shape of every
// operand under it, marks under the conflicting parts, and the origin of the conflicting operands:
//
//   MatMul 'logits' (mlp.cc:14): columns of a [?,784] and rows of b [512,10] differ: 784 vs 512 (inputs: …)
//       MatMul(flat,    kernel)
//              [?,784]  [512,10]
//                 ^^^    ^^^
//       flat = Reshape(pool: [?,28,28], [-1,784])  (mlp.cc:12)
//       kernel = variable  (mlp.cc:13)
//
// The conflict is found by running the op's checks again with each dimension, shape, type or value changed: a part
// without which there is no error is marked. So it works for every op, including those of user libraries, and costs
// time only after an error.
#pragma once

#include <span>
#include <string_view>

#include "engine/base/status.h"
#include "engine/graph/inference.h"

namespace rivulet {

// The error of the op's shape function with node, operands and drawing. `context` is the function's argument. An error
// that already has a drawing (of a node inside a called function) gets no second one: its sentence is prefixed by this
// node.
Status ExplainShapeError(const InferenceNode& node, const ShapeLookup& shape_of, InferenceContext& context,
                         const Status& error);

// The error of ResolveAttributes for these inputs; `attrs` are the attributes before that call. An error that does not
// depend on the inputs is returned unchanged.
Status ExplainTypeError(const OpDef& op, std::string_view where, const AttrMap& attrs, std::span<const Output> inputs,
                        const Status& error);

}  // namespace rivulet
