#include "federated/plan/flat_scope.h"

#include <utility>

#include "federated/plan/flat_names.h"
#include "federated/plan/number.h"

namespace rivulet {

FlatScope::FlatScope(const ModelLayout& layout) : layout_(layout), scope_(graph_) {}

// Uses the name alone: a plan's slots and scalars are known only with its last graph. Plan::Open checks them.
Output FlatScope::Handle(std::string_view flat) {
  const auto known = handles_.find(flat);
  if (known != handles_.end()) return known->second;
  const bool scalar = IsScalar(flat);
  const bool shared = flat == "shared" || flat == "base_shared";
  const size_t bytes = shared ? layout_.segment_bytes(Segment::kShared) : layout_.trained_bytes();
  const auto elements = static_cast<int64_t>(bytes / sizeof(float));
  const DType dtype = scalar ? DType::kFloat64 : DType::kFloat32;
  const Shape shape = scalar ? Shape{} : Shape{elements};
  std::string name(flat);
  const Output handle = scope_.Op("VarHandleOp", {}, {{"dtype", dtype}, {"shape", shape}, {"shared_name", name}}, name);
  handles_.emplace(std::move(name), handle);
  return handle;
}

Output FlatScope::Read(std::string_view flat) {
  const Output handle = Handle(flat);
  return scope_.Op("ReadVariableOp", {handle}, {{"dtype", IsScalar(flat) ? DType::kFloat64 : DType::kFloat32}});
}

void FlatScope::Assign(std::string_view flat, Output value) {
  if (!value) return;  // the scope has the error
  Effect(scope_.AddNode("AssignVariableOp", {Handle(flat), value}, {{"dtype", value.dtype()}}));
}

void FlatScope::Effect(Node* node) { before_.push_back(node); }

Output FlatScope::Scale(double factor, Output vector) const {
  return scope_.Op("Mul", {vector, scope_.Const(static_cast<float>(factor), "factor")});
}

Output FlatScope::Scale(Output factor, Output vector) const {
  return scope_.Op("Mul", {vector, scope_.Op("Cast", {factor}, {{"DstT", DType::kFloat32}})});
}

Output FlatScope::Over(Output vector, Output divisor) const {
  return Scale(scope_.Op("RealDiv", {Number(scope_, 1), divisor}), vector);
}

Output FlatScope::Times(double factor, Output scalar) const {
  return scope_.Op("Mul", {scalar, Number(scope_, factor)});
}

StatusOr<Graph> FlatScope::Finish() && {
  RIVULET_RETURN_IF_ERROR(scope_.status());
  scope_.WithControl(before_).AddNode("NoOp", {}, {}, kRunTarget);
  RIVULET_RETURN_IF_ERROR(scope_.status());
  return std::move(graph_);
}

}  // namespace rivulet
