#include "engine/variables/variable_scope.h"

namespace rivulet {

VariableScope::VariableScope(const Scope& ops, Sharing sharing) : ops_(ops), sharing_(sharing) {}

VariableScope VariableScope::Enter(std::string_view name) const {
  if (name.empty()) ops_.Fail(InvalidArgument("a variable scope within '{}' needs a name", path_));
  VariableScope scope = *this;
  scope.path_ += std::string(name) + "/";
  scope.ops_ = ops_.SubScope(name);
  return scope;
}

VariableScope VariableScope::With(Sharing sharing) const {
  VariableScope scope = *this;
  scope.sharing_ = sharing;
  return scope;
}

VariableScope VariableScope::WithSegment(std::string segment) const {
  VariableScope scope = *this;
  scope.segment_ = std::move(segment);
  return scope;
}

Output VariableScope::Get(std::string_view name, const Shape& shape, const Initializer& initializer, DType dtype,
                          std::source_location where) const {
  if (!ops_.status().ok()) return {};
  // Variables have their full names, independent of the name scope's unique name.
  const Scope root(ops_.graph());
  const Output value = Variable(root, path_ + std::string(name), shape, initializer,
                                {.dtype = dtype, .segment = segment_, .sharing = sharing_}, where);
  if (!root.status().ok()) ops_.Fail(root.status());
  return value;
}

}  // namespace rivulet
