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
// without which there is no error is marked. So it works for every op, those of user libraries included, and costs time
// only after an error.
#pragma once

#include <span>
#include <string_view>

#include "engine/base/status.h"
#include "engine/graph/inference.h"

namespace rivulet {

// The error of the op's shape function with node, operands and drawing. `context` is what the function saw. An error
// that is drawn already (of a node inside of a function that this one calls) is not drawn again: its sentence names
// this node before it.
Status ExplainShapeError(const InferenceNode& node, const ShapeLookup& shape_of, InferenceContext& context,
                         const Status& error);

// The error of ResolveAttributes for these inputs; `attrs` are as they were before it. One that has nothing to do with
// the inputs comes back as it is.
Status ExplainTypeError(const OpDef& op, std::string_view where, const AttrMap& attrs, std::span<const Output> inputs,
                        const Status& error);

}  // namespace rivulet
