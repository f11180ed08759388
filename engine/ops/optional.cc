// Optional values. TensorFlow's gradients of conditions use them for values that only one branch has computed. An
// optional is a tensor list with one element, or an empty one.
#include "engine/graph/list_shape.h"
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

Status CheckOne(size_t components) {
  if (components == 1) return absl::OkStatus();
  return Unimplemented("an optional of {} components; it may have one", components);
}

Status FromValueShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(CheckOne(c.attr<std::vector<DType>>("Toutput_types").size()));
  c.set_output(0, ListShape(1, c.input(0)));
  return absl::OkStatus();
}

Status NoneShape(InferenceContext& c) {
  c.set_output(0, Shape::UnknownRank());
  return absl::OkStatus();
}

Status GetValueShape(InferenceContext& c) {
  const auto& shapes = c.attr<std::vector<Shape>>("output_shapes");
  RIVULET_RETURN_IF_ERROR(CheckOne(c.attr<std::vector<DType>>("output_types").size()));
  Shape element = ListElement(c.input(0));
  if (!shapes.empty()) {
    StatusOr<Shape> merged = Shape::Merge(element, shapes[0]);
    if (!merged.ok())
      return InvalidArgument("output_shapes has {}, but the optional holds {}", shapes[0].ToString(),
                             element.ToString());
    element = *std::move(merged);
  }
  c.set_output(0, std::move(element));
  return absl::OkStatus();
}

#define RIVULET_OPTIONAL_REASON "TensorFlow's gradients of conditions make optionals, and have none themselves"

RIVULET_OP("OptionalFromValue")
    .Input("components: Toutput_types")
    .Output("optional: variant")
    .Attr("Toutput_types: list(type) >= 1")
    .Shape(FromValueShape)
    .NotDifferentiable(RIVULET_OPTIONAL_REASON)
    .Doc("An optional that holds its one input.");

RIVULET_OP("OptionalNone")
    .Output("optional: variant")
    .Shape(NoneShape)
    .NotDifferentiable(RIVULET_OPTIONAL_REASON)
    .Doc("An optional without a value.");

RIVULET_OP("OptionalHasValue")
    .Input("optional: variant")
    .Output("has_value: bool")
    .Shape(ScalarShape)
    .NotDifferentiable("its output is bool")
    .Doc("Whether the optional holds a value.");

RIVULET_OP("OptionalGetValue")
    .Input("optional: variant")
    .Output("components: output_types")
    .Attr("output_types: list(type) >= 1")
    .Attr("output_shapes: list(shape)")
    .Shape(GetValueShape)
    .NotDifferentiable(RIVULET_OPTIONAL_REASON)
    .Doc("The optional's value; an error where it holds none.");

}  // namespace
}  // namespace rivulet
