// Tensor lists: what loops carry from one iteration to another. Values of type variant; what is known of one is its
// shape as one tensor (engine/graph/list_shape.h). Elements of one list have one shape, which a program must know.
#include <algorithm>

#include "engine/graph/list_shape.h"
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

#define RIVULET_ELEMENT                                                                                             \
  "element_dtype: {half, bfloat16, float, double, int8, int16, int32, int64, uint8, uint16, uint32, uint64, bool, " \
  "variant}"

// The shape that input `i`, "element_shape", gives: a scalar says nothing.
StatusOr<Shape> ElementShapeInput(const InferenceContext& c, int i) {
  const Shape& shape = c.input(i);
  if (!shape.known_rank() || shape.rank() == 0) return Shape::UnknownRank();
  return ShapeFromInput(c, i, /*allow_minus_one=*/true);
}

// Each op on a list may know something of its elements, and all of it goes along in the list's shape. That is what lets
// a program size a loop's lists although no single op says what they hold.
StatusOr<Shape> MergeElements(const Shape& a, const Shape& b) {
  StatusOr<Shape> merged = Shape::Merge(a, b);
  if (merged.ok()) return merged;
  return InvalidArgument("elements of a list have one shape, but here are {} and {}", a.ToString(), b.ToString());
}

// The element shape of list input `list` together with what element_shape says (input `i`; a list's says nothing of its
// lists).
StatusOr<Shape> Element(const InferenceContext& c, int list, int i) {
  if (c.attr<DType>("element_dtype") == DType::kVariant) return ListElement(c.input(list));
  RIVULET_ASSIGN_OR_RETURN(const Shape said, ElementShapeInput(c, i));
  return MergeElements(ListElement(c.input(list)), said);
}

Status CheckScalarInput(const InferenceContext& c, int i, std::string_view what) {
  if (c.input(i).known_rank() && c.input(i).rank() != 0)
    return InvalidArgument("{} must be a scalar, but has shape {}", what, c.input(i).ToString());
  return absl::OkStatus();
}

// A variant tensor that is an element: a list of unknown contents has an unknown shape, as everywhere.
Shape Item(const InferenceContext& c, int i) {
  if (c.input_dtype(i) == DType::kVariant && !IsListShape(c.input(i))) return Shape::UnknownRank();
  return c.input(i);
}

Status EmptyShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(CheckScalarInput(c, 1, "max_num_elements"));
  if (c.attr<DType>("element_dtype") == DType::kVariant) {
    c.set_output(0, Shape::UnknownRank());
    return absl::OkStatus();
  }
  RIVULET_ASSIGN_OR_RETURN(const Shape element, ElementShapeInput(c, 0));
  c.set_output(0, ListShape(0, element));
  return absl::OkStatus();
}

Status ReserveShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(CheckScalarInput(c, 1, "num_elements"));
  RIVULET_ASSIGN_OR_RETURN(const auto length, KnownInteger(c, 1));
  if (length && *length < 0) return InvalidArgument("num_elements is {}; a list cannot have fewer than 0", *length);
  if (c.attr<DType>("element_dtype") == DType::kVariant) {
    c.set_output(0, Shape::UnknownRank());
    return absl::OkStatus();
  }
  RIVULET_ASSIGN_OR_RETURN(const Shape element, ElementShapeInput(c, 0));
  c.set_output(0, ListShape(length.value_or(kUnknownDim), element));
  return absl::OkStatus();
}

// The length is counted while it is known; in a loop it becomes unknown at the loop's head, where the lists of before
// and after an iteration meet (program/function_site.cc).
Status PushBackShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(const Shape element, MergeElements(ListElement(c.input(0)), Item(c, 1)));
  const int64_t length = ListLength(c.input(0));
  c.set_output(0, ListShape(length == kUnknownDim ? length : length + 1, element));
  return absl::OkStatus();
}

Status PopBackShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(const Shape element, Element(c, 0, 1));
  const int64_t length = ListLength(c.input(0));
  if (length == 0) return InvalidArgument("the list is empty: there is no last element to take");
  c.set_output(0, ListShape(length == kUnknownDim ? length : length - 1, element));
  c.set_output(1, element);
  return absl::OkStatus();
}

Status GetItemShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(CheckScalarInput(c, 1, "index"));
  RIVULET_ASSIGN_OR_RETURN(Shape element, Element(c, 0, 2));
  c.set_output(0, std::move(element));
  return absl::OkStatus();
}

Status SetItemShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(CheckScalarInput(c, 1, "index"));
  RIVULET_ASSIGN_OR_RETURN(const Shape element, MergeElements(ListElement(c.input(0)), Item(c, 2)));
  const bool resizes = c.attr<bool>("resize_if_index_out_of_bounds");
  c.set_output(0, ListShape(resizes ? kUnknownDim : ListLength(c.input(0)), element));
  return absl::OkStatus();
}

Status ListResizeShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(CheckScalarInput(c, 1, "size"));
  RIVULET_ASSIGN_OR_RETURN(const auto size, KnownInteger(c, 1));
  c.set_output(0, ListShape(size.value_or(kUnknownDim), ListElement(c.input(0))));
  return absl::OkStatus();
}

Status StackShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(const Shape element, Element(c, 0, 1));
  const int64_t said = c.attr<int64_t>("num_elements");
  const int64_t length = ListLength(c.input(0));
  if (said >= 0 && length >= 0 && said != length)
    return InvalidArgument("num_elements is {}, but the list has {} elements", said, length);
  c.set_output(0, ListShape(length >= 0 ? length : said >= 0 ? said : kUnknownDim, element));
  return absl::OkStatus();
}

Status FromTensorShape(InferenceContext& c) {
  const Shape& tensor = c.input(0);
  if (tensor.known_rank() && tensor.rank() == 0)
    return InvalidArgument("the tensor is a scalar; a list is made of the rows of a tensor");
  RIVULET_ASSIGN_OR_RETURN(const Shape said, ElementShapeInput(c, 1));
  RIVULET_ASSIGN_OR_RETURN(const Shape element, MergeElements(ListElement(tensor), said));
  c.set_output(0, ListShape(ListLength(tensor), element));
  return absl::OkStatus();
}

Status ElementShapeShape(InferenceContext& c) {
  const Shape element = ListElement(c.input(0));
  c.set_output(0, Shape({element.known_rank() ? element.rank() : kUnknownDim}));
  return absl::OkStatus();
}

Status CheckIndices(const InferenceContext& c, int i) {
  if (c.input(i).known_rank() && c.input(i).rank() != 1)
    return InvalidArgument("indices must be a vector, but have shape {}", c.input(i).ToString());
  return absl::OkStatus();
}
int64_t CountOf(const Shape& indices) { return indices.known_rank() ? indices.dim(0) : kUnknownDim; }

Status ListGatherShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(CheckIndices(c, 1));
  RIVULET_ASSIGN_OR_RETURN(const Shape element, Element(c, 0, 2));
  c.set_output(0, ListShape(CountOf(c.input(1)), element));
  return absl::OkStatus();
}

// The rows of `tensor` that are scattered, one per index.
StatusOr<Shape> ScatteredRow(const InferenceContext& c, int tensor, int indices) {
  RIVULET_RETURN_IF_ERROR(CheckIndices(c, indices));
  const Shape& rows = c.input(tensor);
  if (rows.known_rank() && rows.rank() == 0) return InvalidArgument("the tensor is a scalar; it has no rows");
  const int64_t count = CountOf(c.input(indices));
  if (rows.known_rank() && count >= 0 && rows.dim(0) >= 0 && rows.dim(0) != count)
    return InvalidArgument("there are {} indices for the {} rows of {}", count, rows.dim(0), rows.ToString());
  return ListElement(rows);
}

// How long a list of `length` is when the elements that input `indices` names are there too; unknown where either is.
int64_t LengthFor(const InferenceContext& c, int indices, int64_t length) {
  const Tensor* known = c.input_value(indices);
  if (known == nullptr || length == kUnknownDim) return kUnknownDim;
  for (const int32_t index : known->flat<int32_t>()) length = std::max<int64_t>(length, int64_t{index} + 1);
  return length;
}

Status ListScatterShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(const Shape row, ScatteredRow(c, 0, 1));
  RIVULET_ASSIGN_OR_RETURN(const Shape said, ElementShapeInput(c, 2));
  RIVULET_ASSIGN_OR_RETURN(const Shape element, MergeElements(row, said));
  int64_t length = kUnknownDim;
  if (c.num_inputs() > 3) {
    RIVULET_RETURN_IF_ERROR(CheckScalarInput(c, 3, "num_elements"));
    RIVULET_ASSIGN_OR_RETURN(const auto known, KnownInteger(c, 3));
    if (known && *known >= 0) length = *known;
  }
  if (length == kUnknownDim) length = LengthFor(c, 1, 0);
  c.set_output(0, ListShape(length, element));
  return absl::OkStatus();
}

Status ScatterIntoShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(const Shape row, ScatteredRow(c, 1, 2));
  RIVULET_ASSIGN_OR_RETURN(const Shape element, MergeElements(ListElement(c.input(0)), row));
  c.set_output(0, ListShape(LengthFor(c, 2, ListLength(c.input(0))), element));
  return absl::OkStatus();
}

Status ListConcatShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(Shape element, Element(c, 0, 1));
  if (element.known_rank() && element.rank() == 0)
    return InvalidArgument("the list holds scalars, which cannot be joined along an axis; TensorListStack can");
  const int64_t length = ListLength(c.input(0));
  c.set_output(1, Shape({length}));
  if (element.known_rank()) {
    RIVULET_ASSIGN_OR_RETURN(const int64_t rows, MultiplyDims(length, element.dim(0)));
    element.set_dim(0, rows);
  }
  c.set_output(0, std::move(element));
  return absl::OkStatus();
}

Status ListSplitShape(InferenceContext& c) {
  const Shape& tensor = c.input(0);
  if (tensor.known_rank() && tensor.rank() == 0) return InvalidArgument("the tensor is a scalar; it cannot be split");
  if (c.input(2).known_rank() && c.input(2).rank() != 1)
    return InvalidArgument("lengths must be a vector, but have shape {}", c.input(2).ToString());
  RIVULET_ASSIGN_OR_RETURN(const auto lengths, KnownIntegers(c, 2));
  if (!tensor.known_rank()) {
    c.set_output(0, Shape::UnknownRank());
    return absl::OkStatus();
  }
  Shape element = tensor;
  element.set_dim(0, kUnknownDim);
  if (lengths && !lengths->empty()) {
    int64_t rows = 0;
    for (const int64_t length : *lengths) {
      if (length != lengths->front() || length < 0)
        return Unimplemented("pieces of {} and {} rows; the elements of a list here have one shape", lengths->front(),
                             length);
      RIVULET_ASSIGN_OR_RETURN(rows, AddDims(rows, length));
    }
    if (tensor.dim(0) != kUnknownDim && tensor.dim(0) != rows)
      return InvalidArgument("lengths add up to {}, but the tensor has {} rows", rows, tensor.dim(0));
    element.set_dim(0, lengths->front());
  } else if (const int64_t pieces = CountOf(c.input(2)); !lengths && pieces > 0 && tensor.dim(0) != kUnknownDim) {
    element.set_dim(0, tensor.dim(0) / pieces);  // all have one length, which the kernel checks
  }
  c.set_output(0, ListShape(CountOf(c.input(2)), element));
  return absl::OkStatus();
}

// Gradients, as in TensorFlow's registry. A list's gradient is a list, and one that nobody set an element of stands for
// zeros.
// So every op that writes has one that reads as its gradient, and the other way round: what was set is taken, what was
// taken is set, and what was not touched stays unset and costs nothing.
DType ElementType(const GradientContext& g) { return g.node()->attr<DType>("element_dtype"); }
AttrMap ElementAttr(const GradientContext& g) { return {{"element_dtype", ElementType(g)}}; }
bool HasGradient(DType dtype) { return IsFloating(dtype) || dtype == DType::kVariant; }

// What is known of an element's shape, for ops that are asked to give one: its sizes where they are not known now are.
Output ElementShape(GradientOps& ops, Output element) {
  if (element.dtype() == DType::kVariant || (!element.shape().known_rank())) return ops.Int(-1);
  return ops.ShapeOf(element);
}
Output SameElements(GradientOps& ops, Output list) {
  const Shape element = ListElement(list.shape());
  if (!element.known_rank()) return ops.Int(-1);
  return ops.Ints({element.dims().begin(), element.dims().end()});
}

Status PushBackGradient(GradientContext& g) {
  if (!g.grad() || !HasGradient(ElementType(g))) return absl::OkStatus();
  GradientOps ops(g);
  Node* pop = ops.AddNode("TensorListPopBack", {g.grad(), ElementShape(ops, g.input(1))}, ElementAttr(g));
  RIVULET_RETURN_IF_ERROR(ops.status());
  g.set_input_grad(0, pop->output(0));
  g.set_input_grad(1, pop->output(1));
  return absl::OkStatus();
}

Status PopBackGradient(GradientContext& g) {
  if (!HasGradient(ElementType(g))) return absl::OkStatus();
  GradientOps ops(g);
  // The list's gradient may not have come, and the element's neither.
  const Output rest = g.grad(0) ? g.grad(0) : ops.ZerosLike(g.output(0));
  const Output element = g.grad(1) ? g.grad(1) : ops.ZerosLike(g.output(1));
  g.set_input_grad(0, ops.Op("TensorListPushBack", {rest, element}, ElementAttr(g)));
  return ops.status();
}

Status GetItemGradient(GradientContext& g) {
  if (!g.grad() || !HasGradient(ElementType(g))) return absl::OkStatus();
  GradientOps ops(g);
  const Output length = ops.Op("TensorListLength", {g.input(0)});
  const Output zeros = ops.Op("TensorListReserve", {SameElements(ops, g.input(0)), length}, ElementAttr(g));
  g.set_input_grad(0, ops.Op("TensorListSetItem", {zeros, g.input(1), g.grad()}, ElementAttr(g)));
  return ops.status();
}

// The old element was replaced, so no gradient reaches it: its place in the list's gradient is set to zeros.
Status SetItemGradient(GradientContext& g) {
  if (!g.grad() || !HasGradient(ElementType(g))) return absl::OkStatus();
  GradientOps ops(g);
  const Output item = g.input(2);
  g.set_input_grad(2, ops.Op("TensorListGetItem", {g.grad(), g.input(1), ElementShape(ops, item)}, ElementAttr(g)));
  const Output replaced = ops.Op("TensorListSetItem", {g.grad(), g.input(1), ops.ZerosLike(item)}, ElementAttr(g));
  if (g.node()->attr<bool>("resize_if_index_out_of_bounds")) {
    g.set_input_grad(0, ops.Op("TensorListResize", {replaced, ops.Op("TensorListLength", {g.input(0)})}));
  } else {
    g.set_input_grad(0, replaced);
  }
  return ops.status();
}

Status ResizeGradient(GradientContext& g) {
  if (!g.grad()) return absl::OkStatus();
  GradientOps ops(g);
  g.set_input_grad(0, ops.Op("TensorListResize", {g.grad(), ops.Op("TensorListLength", {g.input(0)})}));
  return ops.status();
}

Status StackGradient(GradientContext& g) {
  if (!g.grad() || !HasGradient(ElementType(g))) return absl::OkStatus();
  GradientOps ops(g);
  g.set_input_grad(0, ops.Op("TensorListFromTensor", {g.grad(), SameElements(ops, g.input(0))}, ElementAttr(g)));
  return ops.status();
}

Status FromTensorGradient(GradientContext& g) {
  if (!g.grad() || !HasGradient(ElementType(g))) return absl::OkStatus();
  GradientOps ops(g);
  const Output tensor = g.input(0);
  const Output stacked = ops.Op("TensorListStack", {g.grad(), SameElements(ops, tensor)},
                                {{"element_dtype", ElementType(g)}, {"num_elements", ListLength(tensor.shape())}});
  // A list knows the sizes of its elements, but perhaps not how many there are.
  g.set_input_grad(0, ops.ReshapeLike(stacked, tensor));
  return ops.status();
}

Status ListGatherGradient(GradientContext& g) {
  if (!g.grad() || !HasGradient(ElementType(g))) return absl::OkStatus();
  GradientOps ops(g);
  const Output length = ops.Op("TensorListLength", {g.input(0)});
  g.set_input_grad(
      0, ops.Op("TensorListScatterV2", {g.grad(), g.input(1), SameElements(ops, g.input(0)), length}, ElementAttr(g)));
  return ops.status();
}

Status ListScatterGradient(GradientContext& g) {
  if (!g.grad() || !HasGradient(ElementType(g))) return absl::OkStatus();
  GradientOps ops(g);
  g.set_input_grad(0,
                   ops.Op("TensorListGather", {g.grad(), g.input(1), SameElements(ops, g.input(0))}, ElementAttr(g)));
  return ops.status();
}

Status ScatterIntoGradient(GradientContext& g) {
  if (!g.grad() || !HasGradient(ElementType(g))) return absl::OkStatus();
  GradientOps ops(g);
  g.set_input_grad(1,
                   ops.Op("TensorListGather", {g.grad(), g.input(2), SameElements(ops, g.input(1))}, ElementAttr(g)));
  const Output zeros = ops.ZerosLike(g.input(1));
  const Output replaced = ops.Op("TensorListScatterIntoExistingList", {g.grad(), zeros, g.input(2)}, ElementAttr(g));
  g.set_input_grad(0, ops.Op("TensorListResize", {replaced, ops.Op("TensorListLength", {g.input(0)})}));
  return ops.status();
}

Status ListConcatGradient(GradientContext& g) {
  if (!g.grad() || !HasGradient(ElementType(g))) return absl::OkStatus();
  GradientOps ops(g);
  g.set_input_grad(0,
                   ops.Op("TensorListSplit", {g.grad(), SameElements(ops, g.input(0)), g.output(1)}, ElementAttr(g)));
  return ops.status();
}

Status ListSplitGradient(GradientContext& g) {
  if (!g.grad() || !HasGradient(ElementType(g))) return absl::OkStatus();
  GradientOps ops(g);
  Node* joined =
      ops.AddNode("TensorListConcatV2",
                  {g.grad(), ops.Int(-1), ops.Op("Cast", {g.input(2)}, {{"DstT", DType::kInt64}})}, ElementAttr(g));
  RIVULET_RETURN_IF_ERROR(ops.status());
  g.set_input_grad(0, ops.ReshapeLike(joined->output(), g.input(0)));
  return ops.status();
}

RIVULET_OP("EmptyTensorList")
    .Input("element_shape: shape_type")
    .Input("max_num_elements: int32")
    .Output("handle: variant")
    .Attr(RIVULET_ELEMENT)
    .Attr("shape_type: {int32, int64}")
    .Shape(EmptyShape)
    .Gradient(NoGradient)
    .Doc("A list without elements, which may have max_num_elements of them (any number where that is negative).");

RIVULET_OP("TensorListReserve")
    .Input("element_shape: shape_type")
    .Input("num_elements: int32")
    .Output("handle: variant")
    .Attr(RIVULET_ELEMENT)
    .Attr("shape_type: {int32, int64}")
    .Shape(ReserveShape)
    .Gradient(NoGradient)
    .Doc("A list of num_elements elements that are not set yet; one that is read before it is set is zeros.");

RIVULET_OP("TensorListPushBack")
    .Input("input_handle: variant")
    .Input("tensor: element_dtype")
    .Output("output_handle: variant")
    .Attr(RIVULET_ELEMENT)
    .Shape(PushBackShape)
    .Gradient(PushBackGradient)
    .Doc("The list with one more element behind its last.");

RIVULET_OP("TensorListPopBack")
    .Input("input_handle: variant")
    .Input("element_shape: int32")
    .Output("output_handle: variant")
    .Output("tensor: element_dtype")
    .Attr(RIVULET_ELEMENT)
    .Shape(PopBackShape)
    .Gradient(PopBackGradient)
    .Doc("The list without its last element, and that element. An empty list is an error.");

RIVULET_OP("TensorListGetItem")
    .Input("input_handle: variant")
    .Input("index: int32")
    .Input("element_shape: Tshape")
    .Output("item: element_dtype")
    .Attr(RIVULET_ELEMENT)
    .Attr("Tshape: {int32, int64} = DT_INT32")
    .Shape(GetItemShape)
    .Gradient(GetItemGradient)
    .Doc("Element `index` of the list.");

RIVULET_OP("TensorListSetItem")
    .Input("input_handle: variant")
    .Input("index: int32")
    .Input("item: element_dtype")
    .Output("output_handle: variant")
    .Attr(RIVULET_ELEMENT)
    .Attr("resize_if_index_out_of_bounds: bool = false")
    .Shape(SetItemShape)
    .Gradient(SetItemGradient)
    .Doc("The list with `item` as its element `index`.");

RIVULET_OP("TensorListLength")
    .Input("input_handle: variant")
    .Output("length: int32")
    .Shape(ScalarShape)
    .Gradient(NoGradient)
    .Doc("The number of elements.");

RIVULET_OP("TensorListResize")
    .Input("input_handle: variant")
    .Input("size: int32")
    .Output("output_handle: variant")
    .Shape(ListResizeShape)
    .Gradient(ResizeGradient)
    .Doc("The list cut down to `size` elements, or with elements that are not set up to that number.");

RIVULET_OP("TensorListStack")
    .Input("input_handle: variant")
    .Input("element_shape: int32")
    .Output("tensor: element_dtype")
    .Attr(RIVULET_ELEMENT)
    .Attr("num_elements: int = -1")
    .Shape(StackShape)
    .Gradient(StackGradient)
    .Doc("All elements as the rows of one tensor. A program must know how many there are.");

RIVULET_OP("TensorListFromTensor")
    .Input("tensor: element_dtype")
    .Input("element_shape: shape_type")
    .Output("output_handle: variant")
    .Attr(RIVULET_ELEMENT)
    .Attr("shape_type: {int32, int64}")
    .Shape(FromTensorShape)
    .Gradient(FromTensorGradient)
    .Doc("The list of the tensor's rows.");

RIVULET_OP("TensorListElementShape")
    .Input("input_handle: variant")
    .Output("element_shape: shape_type")
    .Attr("shape_type: {int32, int64}")
    .Shape(ElementShapeShape)
    .Gradient(NoGradient)
    .Doc("The shape of the list's elements.");

RIVULET_OP("TensorListGather")
    .Input("input_handle: variant")
    .Input("indices: int32")
    .Input("element_shape: int32")
    .Output("values: element_dtype")
    .Attr(RIVULET_ELEMENT)
    .Shape(ListGatherShape)
    .Gradient(ListGatherGradient)
    .Doc("The elements of these indices as the rows of one tensor.");

RIVULET_OP("TensorListScatter")
    .Input("tensor: element_dtype")
    .Input("indices: int32")
    .Input("element_shape: shape_type")
    .Output("output_handle: variant")
    .Attr(RIVULET_ELEMENT)
    .Attr("shape_type: {int32, int64}")
    .Shape(ListScatterShape)
    .Gradient(ListScatterGradient)
    .Doc("A list whose element indices[i] is row i of the tensor, as long as the largest index wants.");

RIVULET_OP("TensorListScatterV2")
    .Input("tensor: element_dtype")
    .Input("indices: int32")
    .Input("element_shape: shape_type")
    .Input("num_elements: int32")
    .Output("output_handle: variant")
    .Attr(RIVULET_ELEMENT)
    .Attr("shape_type: {int32, int64}")
    .Shape(ListScatterShape)
    .Gradient(ListScatterGradient)
    .Doc(
        "A list of num_elements elements (or, where that is -1, as many as the largest index wants) whose element "
        "indices[i] is row i of the tensor.");

RIVULET_OP("TensorListScatterIntoExistingList")
    .Input("input_handle: variant")
    .Input("tensor: element_dtype")
    .Input("indices: int32")
    .Output("output_handle: variant")
    .Attr(RIVULET_ELEMENT)
    .Shape(ScatterIntoShape)
    .Gradient(ScatterIntoGradient)
    .Doc("The list with row i of the tensor as its element indices[i], longer where an index wants it.");

RIVULET_OP("TensorListConcatV2")
    .Input("input_handle: variant")
    .Input("element_shape: shape_type")
    .Input("leading_dims: int64")
    .Output("tensor: element_dtype")
    .Output("lengths: int64")
    .Attr(RIVULET_ELEMENT)
    .Attr("shape_type: {int32, int64}")
    .Shape(ListConcatShape)
    .Gradient(ListConcatGradient)
    .Doc(
        "The elements joined along their first axis, and the size of each along it. A program must know how many "
        "elements there are.");

RIVULET_OP("TensorListSplit")
    .Input("tensor: element_dtype")
    .Input("element_shape: shape_type")
    .Input("lengths: int64")
    .Output("output_handle: variant")
    .Attr(RIVULET_ELEMENT)
    .Attr("shape_type: {int32, int64}")
    .Shape(ListSplitShape)
    .Gradient(ListSplitGradient)
    .Doc("The list of pieces of the tensor, of lengths[i] rows each: all of one length.");

}  // namespace
}  // namespace rivulet
