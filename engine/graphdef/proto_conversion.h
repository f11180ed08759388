// Conversion of tensors, shapes and attributes to and from their messages. For files that already include the generated
// headers; others use engine/graphdef/graph_def.h.
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
// Reads every encoding that TensorFlow writes: tensor_content, or typed fields whose last value fills the rest.
// `fill_budget` is the number of bytes that repeated values may still take; this tensor's share is subtracted.
// INVALID_ARGUMENT: dtype and contents contradict, too many values, invalid shapes, missing bytes. UNIMPLEMENTED: a
// string tensor.
StatusOr<Tensor> TensorFromProto(const proto::TensorProto& proto, size_t& fill_budget);
// `def` determines the attribute's kind; without it (attributes "_…") the message does. INVALID_ARGUMENT: a different
// kind, or no value.
StatusOr<AttrValue> AttrFromProto(const proto::AttrValue& proto, const AttrDef* def, size_t& fill_budget);
// A reference type is converted to its base type.
StatusOr<DType> DTypeFromProto(int number);

}  // namespace rivulet
