#include "engine/variables/variables.h"

#include <algorithm>
#include <vector>

#include "engine/base/join.h"
#include "engine/base/nearest.h"
#include "engine/graph/inference.h"
#include "engine/graph/op.h"
#include "engine/graph/variable_name.h"

namespace rivulet {
namespace {

constexpr std::string_view kSegments[] = {"trainable", "shared", "local", "frozen"};

// A variable that is shared must be asked for as it is. Taking the first shape in silence would train one layer with
// the weights of another and fail somewhere else, or nowhere.
Status CheckSame(const Node& handle, const Shape& shape, const VariableOptions& options) {
  const std::string* segment = handle.FindAttr<std::string>(kSegmentAttr);
  const std::string_view existing = segment == nullptr ? kSegments[0] : std::string_view(*segment);
  if (VariableDType(handle) == options.dtype && handle.outputs()[0].shape == shape && existing == options.segment)
    return absl::OkStatus();
  return InvalidArgument("the variable '{}' is {}{} ({}) and cannot be shared as {}{} ({})", VariableName(handle),
                         Name(VariableDType(handle)), handle.outputs()[0].shape.ToString(), existing,
                         Name(options.dtype), shape.ToString(), options.segment);
}

// Each assignment becomes a control input of the single node `init` when its variable is created. A session sets all
// variables by running this node, whatever their origin and order.
Output Create(const Scope& scope, const std::string& name, const Shape& shape, const Initializer& initializer,
              const VariableOptions& options) {
  if (std::ranges::find(kSegments, options.segment) == std::end(kSegments)) {
    scope.Fail(InvalidArgument("the variable '{}' has the segment '{}'; segments are {}", name, options.segment,
                               Join(kSegments, ", ")));
    return {};
  }
  const Scope root = Scope(scope.graph());
  AttrMap attrs = options.more;
  attrs["dtype"] = options.dtype;
  attrs["shape"] = shape;
  attrs["shared_name"] = name;
  attrs[kSegmentAttr] = options.segment;
  Node* handle = scope.AddNode("VarHandleOp", {}, std::move(attrs), name.substr(scope.prefix().size()));
  if (handle == nullptr) return {};
  const Scope inner = scope.SubScope(name.substr(scope.prefix().size()));
  const Output value = initializer(inner, options.dtype, shape);
  Node* assign = inner.AddNode("AssignVariableOp", {handle->output(), value}, {}, "Assign");
  if (assign == nullptr) return {};
  Node* init = scope.graph().Find(kInitTarget);
  if (init == nullptr) init = root.AddNode("NoOp", {}, {}, kInitTarget);
  if (!root.status().ok()) scope.Fail(root.status());
  if (init != nullptr)
    if (Status status = scope.graph().AddControlInput(init, assign); !status.ok()) scope.Fail(std::move(status));
  return handle->output();
}

}  // namespace

Output Variable(const Scope& caller, std::string_view name, const Shape& shape, const Initializer& initializer,
                const VariableOptions& options, std::source_location where) {
  const Scope scope = caller.At(where);
  const std::string full = scope.prefix() + std::string(name);
  if (!scope.status().ok()) return {};
  Node* const existing = FindHandle(scope.graph(), full);
  using Sharing = VariableOptions::Sharing;
  Output handle;
  if (existing != nullptr) {
    handle = existing->output();
    if (options.sharing == Sharing::kCreate) {
      scope.Fail(AlreadyExists("the variable '{}' exists already; share it with VariableOptions::sharing", full));
    } else if (Status same = CheckSame(*handle.node, shape, options); !same.ok()) {
      scope.Fail(std::move(same));
    }
  } else if (options.sharing == Sharing::kReuse) {
    scope.Fail(FindVariable(scope.graph(), full).status());
  } else if (scope.graph().Find(full) != nullptr) {
    scope.Fail(AlreadyExists("'{}' cannot be a variable: the graph has a node of this name", full));
  } else {
    handle = Create(scope, full, shape, initializer, options);
  }
  if (!scope.status().ok()) return {};
  return scope.Op("ReadVariableOp", {handle}, {{"dtype", options.dtype}}, std::string(name) + "/Read");
}

StatusOr<Output> FindVariable(const Graph& graph, std::string_view name) {
  if (Node* const handle = FindHandle(graph, name); handle != nullptr) return handle->output();
  std::vector<std::string> names;
  for (const auto& node : graph.nodes())
    if (node->type() == "VarHandleOp") names.emplace_back(VariableName(*node));
  return NotFound("the graph has no variable '{}'.{}", name, DidYouMean(name, names));
}

}  // namespace rivulet
