#include "engine/gradients/gradients.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "engine/gradients/indexed_slices.h"
#include "engine/graph/function_call.h"
#include "engine/graph/inference.h"
#include "engine/graph/op.h"
#include "engine/graph/variable_name.h"

namespace rivulet {

// A list may hold floating elements; the ops on it know.
bool CarriesGradient(DType dtype) { return IsFloating(dtype) || dtype == DType::kVariant; }

namespace {

struct OutputHash {
  size_t operator()(const Output& output) const {
    return std::hash<const void*>()(output.node) * 31 + static_cast<size_t>(output.port);
  }
};

// One call of ComputeGradients.
// Reverse mode: one traversal of the forward nodes in reverse topological order. When it reaches a node, all users of
// its outputs were visited. So the sums of its outputs' gradients are final, and each node's gradient function is
// called once. The gradient is built as a graph and not computed, so the compiler can fuse across forward and backward,
// and a gradient has a gradient.
//
// A node's gradient is placed on the node's device. Otherwise a model that is split over tasks would run its whole
// backward pass on the first of them, and would send all saved forward values there.
class Backward {
 public:
  Backward(const Scope& scope, std::span<const Output> ys, std::span<const Output> xs)
      : graph_(scope.graph()), scope_(scope.SubScope("gradients")), ys_(ys), xs_(xs) {}

  // Without `y_gradients` the one y is a scalar loss.
  StatusOr<std::vector<Output>> Run(std::span<const Output> y_gradients) {
    RIVULET_RETURN_IF_ERROR(CheckArguments(y_gradients));
    std::vector<Node*> targets;
    for (const Output& y : ys_) targets.push_back(y.node);
    // By the graph alone: the order of addends in an AddN decides bits, so it may depend on nothing else.
    const std::vector<Node*> order = graph_.TopologicalOrder(targets);
    MarkPath(order);
    // Nodes are added from here on; `order` holds the forward ones.
    for (size_t i = 0; i < ys_.size(); ++i)
      if (on_path_.contains(ys_[i]))
        gradients_[ys_[i]].push_back(y_gradients.empty() ? Ones(ys_[i].dtype()) : y_gradients[i]);
    for (auto node = order.rbegin(); node != order.rend(); ++node) RIVULET_RETURN_IF_ERROR(Visit(*node));
    std::vector<Output> results;
    for (const Output& x : xs_) results.push_back(GradientOf(x));
    RIVULET_RETURN_IF_ERROR(scope_.status());
    return results;
  }

 private:
  Status CheckArguments(std::span<const Output> y_gradients) const {
    for (const Output& y : ys_)
      if (!y) return InvalidArgument("gradients need a loss; the one given is empty");
    if (y_gradients.empty() &&
        (!IsFloating(ys_[0].dtype()) || !ys_[0].shape().known_rank() || ys_[0].shape().rank() != 0))
      return InvalidArgument("the loss '{}' must be a floating scalar, but is {}{}; reduce it with Mean or Sum",
                             ys_[0].name(), Name(ys_[0].dtype()), ys_[0].shape().ToString());
    for (size_t i = 0; i < y_gradients.size(); ++i)
      if (!y_gradients[i] || y_gradients[i].dtype() != ys_[i].dtype() ||
          (ys_[i].dtype() != DType::kVariant && !Shape::Compatible(y_gradients[i].shape(), ys_[i].shape())))
        return InvalidArgument("the gradient given of '{}' is not of its type and shape, {}{}", ys_[i].name(),
                               Name(ys_[i].dtype()), ys_[i].shape().ToString());
    for (size_t i = 0; i < xs_.size(); ++i) {
      if (!xs_[i]) return InvalidArgument("x {} of the gradient of '{}' is empty", i, Goal());
      const DType dtype = IsHandle(xs_[i]) ? HandleDType(*xs_[i].node) : xs_[i].dtype();
      if (!CarriesGradient(dtype))
        return InvalidArgument("'{}' is {} and has no gradient; only floating tensors have", xs_[i].name(),
                               Name(dtype));
    }
    return absl::OkStatus();
  }

  std::string Goal() const { return ys_.empty() ? "nothing" : ys_[0].name(); }

  static bool IsHandle(Output x) { return x.dtype() == DType::kResource && HandleOf(x) == x.node; }
  // Identifies a handle's variable: by the variable's name or, in a body, the argument's name. Two handles of one
  // variable get the same key. The key is not the node, because each use of a variable may have created a separate
  // handle.
  static std::string HandleKey(const Node& handle) {
    return handle.type() == "_Arg" ? fmt::format("argument {}", handle.name())
                                   : fmt::format("variable {}", VariableName(handle));
  }

  // Marks the tensors through which a gradient with respect to some x must pass. This keeps the backward graph small,
  // and determines the ops that must be differentiable: an op without gradient between data and loss is no error if no
  // variable is behind it.
  void MarkPath(std::span<Node* const> order) {
    for (const Output& x : xs_) {
      if (IsHandle(x)) {
        reads_.try_emplace(HandleKey(*x.node));
      } else {
        on_path_.insert({x, true});
      }
    }
    for (Node* node : order) {
      if (node->type() == "ReadVariableOp" || node->type() == "ResourceGather") {
        const auto found = ReadsOf(node->input(0));
        if (found == reads_.end()) continue;
        found->second.push_back(node->output(0));
        on_path_.insert({node->output(0), true});
        continue;
      }
      if (OnPath(*node))
        for (size_t port = 0; port < node->outputs().size(); ++port)
          if (CarriesGradient(node->outputs()[port].dtype))
            on_path_.insert({node->output(static_cast<int>(port)), true});
    }
  }

  using Reads = std::map<std::string, std::vector<Output>>;
  Reads::iterator ReadsOf(Output input) {
    const Node* handle = input.dtype() == DType::kResource ? HandleOf(input) : nullptr;
    return handle == nullptr ? reads_.end() : reads_.find(HandleKey(*handle));
  }
  // A variable that is asked for and passed to a function is read there.
  bool Wants(const Node& node, const Output& input) {
    return on_path_.contains(input) || (RunsFunctions(node.type()) && ReadsOf(input) != reads_.end());
  }
  bool OnPath(const Node& node) {
    return std::ranges::any_of(node.inputs(), [&](const Output& input) { return Wants(node, input); });
  }

  Scope On(const Node& node) const { return node.device().empty() ? scope_ : scope_.WithDevice(node.device()); }

  // Returns the sum of the gradients of `output`; empty if there are none. Adds one AddN per tensor, which a kernel
  // computes in one pass; the sum then replaces its addends.
  Output Sum(Output output) {
    const auto found = gradients_.find(output);
    if (found == gradients_.end() || found->second.empty()) return {};
    if (found->second.size() > 1) {
      std::vector<Output> addends = std::move(found->second);
      // On the device of all addends, if they share one: then one tensor travels, and not each of them.
      const Node& first = *addends.front().node;
      const bool together =
          std::ranges::all_of(addends, [&](const Output& one) { return one.node->device() == first.device(); });
      found->second = {
          On(together ? first : *output.node).Op("AddN", std::move(addends), {}, output.node->name() + "_sum")};
    }
    return found->second.front();
  }

  Status Visit(Node* node) {
    if (!OnPath(*node)) return absl::OkStatus();
    std::vector<Output> reached;
    bool any = false;
    for (size_t port = 0; port < node->outputs().size(); ++port) {
      const Output gradient = Sum(node->output(static_cast<int>(port)));
      any |= static_cast<bool>(gradient);
      reached.push_back(gradient);
    }
    // No gradient arrived, as behind StopGradient or an unused output: it is zero, and zeros are not propagated as
    // tensors.
    if (!any) return absl::OkStatus();
    const OpDef& op = node->op();
    if (!op.gradient)
      return Unimplemented(
          "{} has no gradient{}, but the gradient of '{}' passes through it; StopGradient before it holds it back",
          DescribeNode(*node), op.not_differentiable.empty() ? "" : fmt::format(" ({})", op.not_differentiable),
          Goal());
    std::vector<bool> wanted;
    // A gradient function can ask which inputs need a gradient: the gradient of a first convolution by its images would
    // cost as much as the forward pass and be unused.
    for (const Output& input : node->inputs()) wanted.push_back(Wants(*node, input));
    GradientContext context(On(*node).SubScope(node->name() + "_grad"), node, reached, wanted);
    RIVULET_RETURN_IF_ERROR(Annotate(op.gradient(context), fmt::format("gradient of {}", DescribeNode(*node))));
    RIVULET_RETURN_IF_ERROR(Annotate(scope_.status(), fmt::format("gradient of {}", DescribeNode(*node))));
    for (size_t i = 0; i < node->inputs().size(); ++i) {
      const Output input = node->inputs()[i];
      const Output gradient = context.input_grads()[i];
      if (!gradient || !wanted[i]) continue;
      if (input.dtype() == DType::kResource) {
        handle_gradients_[ReadsOf(input)->first].push_back(gradient);
        continue;
      }
      // An op's gradient with a wrong type or shape is detected at the op, not several nodes later.
      if (gradient.dtype() != input.dtype() ||
          (input.dtype() != DType::kVariant && !Shape::Compatible(gradient.shape(), input.shape())))
        return Internal("gradient of {}: input {} is {}{}, but its gradient is {}{}", DescribeNode(*node), i,
                        Name(input.dtype()), input.shape().ToString(), Name(gradient.dtype()),
                        gradient.shape().ToString());
      gradients_[input].push_back(gradient);
    }
    return absl::OkStatus();
  }

  // A variable's gradient is the sum over all of its reads, whichever way they went: read whole, by rows, or inside a
  // function. An x that nothing reached has zeros, so that callers need not know.
  Output GradientOf(Output x) {
    const Scope here = On(*x.node);
    if (!IsHandle(x)) {
      const Output sum = Sum(x);
      return sum ? sum : here.Op("ZerosLike", {x});
    }
    std::vector<Output> addends;
    std::vector<IndexedSlices> rows;  // of gathers
    const std::string key = HandleKey(*x.node);
    for (const Output& read : reads_.find(key)->second) {
      const Output sum = Sum(read);
      if (!sum) continue;
      if (read.node->type() == "ResourceGather")
        rows.push_back({sum, read.node->input(1)});
      else
        addends.push_back(sum);
    }
    if (!rows.empty()) addends.push_back(RowsOf(x, std::move(rows)));
    if (const auto passed = handle_gradients_.find(key); passed != handle_gradients_.end())
      addends.insert(addends.end(), passed->second.begin(), passed->second.end());
    if (addends.size() > 1) return here.Op("AddN", std::move(addends), {}, x.node->name() + "_sum");
    if (addends.size() == 1) return addends.front();
    return here.Op("ZerosLike", {here.Op("ReadVariableOp", {x}, {{"dtype", HandleDType(*x.node)}})});
  }

  static Output Ints(const Scope& scope, std::initializer_list<int32_t> values) {
    return scope.Const(Tensor::Of<int32_t>(Shape({static_cast<int64_t>(values.size())}), values));
  }

  // The gradient of a variable of which rows were chosen, once or several times.
  // All gathers of one variable join to one list of (row, values) before they are summed into rows: an optimiser that
  // can take rows then sees one node that says which rows changed, and never a dense sum of a whole embedding.
  Output RowsOf(Output handle, std::vector<IndexedSlices> rows) {
    const Scope here = On(*handle.node);
    const Output value = here.Op("ReadVariableOp", {handle}, {{"dtype", HandleDType(*handle.node)}});
    const Output shape = here.Op("Shape", {value});
    const auto slice = [&](int32_t begin, int32_t end, AttrMap masks) {
      return here.Op("StridedSlice", {shape, Ints(here, {begin}), Ints(here, {end}), Ints(here, {1})},
                     std::move(masks));
    };
    const Output count = slice(0, 1, {{"shrink_axis_mask", int64_t{1}}});
    if (rows.size() == 1) return here.Op("UnsortedSegmentSum", {rows[0].values, rows[0].indices, count});
    std::vector<Output> values, indices;
    const Output row = here.Op("ConcatV2", {Ints(here, {-1}), slice(1, 0, {{"end_mask", int64_t{1}}}),
                                            here.Const(Tensor::Scalar<int32_t>(0))});
    for (const IndexedSlices& slices : rows) {
      values.push_back(here.Op("Reshape", {slices.values, row}));
      const Output flat = here.Op("Reshape", {slices.indices, Ints(here, {-1})});
      indices.push_back(flat.dtype() == DType::kInt64 ? flat : here.Op("Cast", {flat}, {{"DstT", DType::kInt64}}));
    }
    for (auto* joined : {&values, &indices}) {
      joined->push_back(here.Const(Tensor::Scalar<int32_t>(0)));
      *joined = {here.Op("ConcatV2", *joined)};
    }
    return here.Op("UnsortedSegmentSum", {values[0], indices[0], count});
  }

  Output Ones(DType dtype) {
    if (dtype == DType::kFloat64) return scope_.Const(Tensor::Scalar(1.0), "ones");
    const Output one = scope_.Const(1.0f, "ones");
    return dtype == DType::kFloat32 ? one : scope_.Op("Cast", {one}, {{"DstT", dtype}});
  }

  Graph& graph_;
  Scope scope_;
  std::span<const Output> ys_, xs_;
  std::unordered_map<Output, bool, OutputHash> on_path_;
  std::unordered_map<Output, std::vector<Output>, OutputHash> gradients_;
  Reads reads_;                                                  // variable → its reads on the path
  std::map<std::string, std::vector<Output>> handle_gradients_;  // variable → gradients from functions that read it
};

}  // namespace

GradientContext::GradientContext(Scope scope, Node* node, std::span<const Output> output_gradients,
                                 std::vector<bool> wanted)
    : scope_(std::move(scope)),
      node_(node),
      output_gradients_(output_gradients.begin(), output_gradients.end()),
      input_gradients_(node->inputs().size()),
      wanted_(std::move(wanted)) {}

void GradientContext::set_input_grad(int i, Output gradient) { input_gradients_[static_cast<size_t>(i)] = gradient; }

StatusOr<std::vector<Output>> ComputeGradients(Graph& graph, Output loss, std::span<const Output> xs) {
  return Backward(Scope(graph), {&loss, 1}, xs).Run({});
}

StatusOr<std::vector<Output>> ComputeGradients(const Scope& scope, std::span<const Output> ys,
                                               std::span<const Output> y_gradients, std::span<const Output> xs) {
  if (ys.size() != y_gradients.size())
    return InvalidArgument("gradients of {} tensors are asked for, but the own gradients of {} are given", ys.size(),
                           y_gradients.size());
  if (ys.empty()) {
    std::vector<Output> zeros;
    for (const Output& x : xs) zeros.push_back(scope.Op("ZerosLike", {x}));
    RIVULET_RETURN_IF_ERROR(scope.status());
    return zeros;
  }
  return Backward(scope, ys, xs).Run(y_gradients);
}

}  // namespace rivulet
