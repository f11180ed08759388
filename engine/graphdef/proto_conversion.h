// Conversion of tensors, shapes and attributes to and from their messages. For files that include the generated headers
// anyway; others use engine/graphdef/graph_def.h.
#pragma once

#include <string_view>

#include "engine/base/status.h"
#include "engine/graph/attr.h"
#include "engine/graph/op.h"
#include "proto/graph/attr_value.pb.h"
#include "proto/graph/tensor.pb.h"
#include "proto/graph/tensor_shape.pb.h"

namespace rivulet {

void ToProto(const Shape& shape, proto::TensorShapeProto* out);
void ToProto(const Tensor& tensor, proto::TensorProto* out);
void ToProto(const AttrValue& value, proto::AttrValue* out);

// INVALID_ARGUMENT: more than 254 dimensions, a size below -1, a product beyond 2^40.
StatusOr<Shape> ShapeFromProto(const proto::TensorShapeProto& proto);
// Every encoding that TensorFlow writes is read: tensor_content, or typed fields whose last value fills the rest.
// `fill_budget`: bytes that may still be made by repeating a value; what this tensor takes is subtracted.
// INVALID_ARGUMENT: dtype and contents that disagree, too many values, absurd shapes, bytes that are missing.
// UNIMPLEMENTED: a string tensor.
StatusOr<Tensor> TensorFromProto(const proto::TensorProto& proto, size_t& fill_budget);
// `def` tells which kind is wanted; without one (attributes "_…") the message does. INVALID_ARGUMENT: another kind, or
// none.
StatusOr<AttrValue> AttrFromProto(const proto::AttrValue& proto, const AttrDef* def, size_t& fill_budget);
// A reference type counts as the type it refers to.
StatusOr<DType> DTypeFromProto(int number);

}  // namespace rivulet
