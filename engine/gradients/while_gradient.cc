#include "engine/gradients/while_gradient.h"

#include <algorithm>
#include <set>

#include "engine/gradients/function_gradients.h"
#include "engine/graph/function_builder.h"
#include "engine/graph/function_call.h"
#include "engine/graph/op.h"

namespace rivulet {
namespace {

// One loop, differentiated.
class LoopGradient {
 public:
  LoopGradient(GradientContext& g, const Function& condition, const Function& body)
      : g_(g), node_(*g.node()), graph_(g.scope().graph()), condition_(condition), body_(body) {}

  // The backward loop needs, for each iteration, the values that the loop variables had when it began. The forward loop
  // can only save them if it is told to, so it is replaced by one that pushes; the rest of an iteration is computed
  // again from these, as in every function's gradient. That bounds memory by the loop variables and not by what the
  // body makes.
  Status Run() {
    const size_t count = node_.inputs().size();
    for (size_t i = 0; i < count; ++i) passed_.push_back(PassedArgument(body_.results[i]) == static_cast<int>(i));
    FindActive();
    if (inner_.empty()) return PassOn();
    const FunctionEffects effects = EffectsOf(body_);
    draws_ = effects.draws || EffectsOf(condition_).draws;
    if (effects.effects)
      return Unimplemented(
          "the body '{}' has an effect beside its results, and the gradient would repeat it; change variables after "
          "the loop",
          body_.name);
    for (size_t i = 0; i < count; ++i)
      if (passed_[i] && Sums(i) && g_.wants(static_cast<int>(i))) sums_.push_back(static_cast<int>(i));
    std::vector<int> xs = inner_;
    xs.insert(xs.end(), sums_.begin(), sums_.end());
    RIVULET_ASSIGN_OR_RETURN(
        gradient_, GradientFunction(body_, inner_, xs, UniqueFunctionName(g_.scope(), body_.name + "_gradient")));
    for (size_t i = 0; i < count; ++i) {
      if (!IsUsed(gradient_->arguments[i])) continue;
      (passed_[i] || node_.input(static_cast<int>(i)).dtype() == DType::kResource ? read_ : saved_)
          .push_back(static_cast<int>(i));
    }
    RIVULET_RETURN_IF_ERROR(MakeForward());
    RIVULET_RETURN_IF_ERROR(MakeBackward());
    return PassOn();
  }

 private:
  // Loop variables that change and whose gradient is asked for or feeds one that is: what an output with a gradient
  // depends on, over any number of iterations.
  // A gradient can come round by another variable: what feeds y in this iteration fed it through x in the next. Hence
  // the closure over any number of iterations, where one walk through the body would stop too early.
  void FindActive() {
    std::set<int> active;
    std::vector<int> work;
    for (size_t i = 0; i < passed_.size(); ++i) {
      if (!g_.grad(static_cast<int>(i))) continue;
      active_.push_back(static_cast<int>(i));
      if (!passed_[i]) work.push_back(static_cast<int>(i));
    }
    while (!work.empty()) {
      const int result = work.back();
      work.pop_back();
      if (!active.insert(result).second) continue;
      std::set<const Node*> seen;
      std::vector<Output> stack = {body_.results[static_cast<size_t>(result)]};
      while (!stack.empty()) {
        const Output at = stack.back();
        stack.pop_back();
        if (!CarriesGradient(at.dtype()) || !seen.insert(at.node).second) continue;
        if (at.node->type() == "_Arg") {
          const int argument = static_cast<int>(at.node->attr<int64_t>("index"));
          if (!passed_[static_cast<size_t>(argument)]) work.push_back(argument);
        }
        stack.insert(stack.end(), at.node->inputs().begin(), at.node->inputs().end());
      }
    }
    inner_.assign(active.begin(), active.end());
  }

  // Whether an invariant loop variable has a gradient, a sum over iterations.
  bool Sums(size_t i) const {
    const DType dtype = node_.input(static_cast<int>(i)).dtype();
    return dtype == DType::kResource ? IsFloating(HandleDType(*body_.arguments[i])) : CarriesGradient(dtype);
  }

  bool IsUsed(Node* argument) const {
    if (!gradient_->body->Consumers(argument->output()).empty()) return true;
    return std::ranges::any_of(gradient_->results, [&](Output result) { return result.node == argument; });
  }

  // A new argument of a body: its index is the next.
  static Output Argument(const Scope& scope, int64_t index, DType dtype, const Shape& shape, std::string_view name,
                         DType handle = DType::kInvalid) {
    AttrMap attrs = {{"T", dtype}, {"index", index}, {"shape", shape}};
    if (handle != DType::kInvalid) attrs["_handle_dtype"] = handle;
    return scope.Op("_Arg", {}, std::move(attrs), name);
  }
  static Output Int(const Scope& scope, int32_t value) { return scope.Const(Tensor::Scalar(value)); }
  // For ops that ask for an element's shape.
  static Output ElementShape(const Scope& scope, Output element) {
    const Shape& shape = element.shape();
    if (element.dtype() == DType::kVariant || !shape.known_rank()) return Int(scope, -1);
    std::vector<int32_t> dims(shape.dims().begin(), shape.dims().end());
    return scope.Const(Tensor::Of<int32_t>(Shape({shape.rank()}), std::span<const int32_t>(dims)));
  }

  static StatusOr<std::shared_ptr<const Function>> Extended(const Function& function, std::string name, Graph graph,
                                                            std::vector<Output> more) {
    std::vector<Output> results;
    for (const Output& result : function.results) results.push_back({graph.Find(result.node->name()), result.port});
    results.insert(results.end(), more.begin(), more.end());
    std::vector<Node*> controls;
    for (const Node* node : function.control_results) controls.push_back(graph.Find(node->name()));
    return Function::Create(std::move(name), std::move(graph), std::move(results), std::move(controls));
  }

  // A new node beside the old one, since an op cannot get more outputs. Users of the old outputs move over; the old
  // loop has none left, and a program leaves it out. Condition and body are copied under new names, because other loops
  // may run the same functions.
  Status MakeForward() {
    const int64_t count = static_cast<int64_t>(node_.inputs().size());
    Graph body = body_.body->Clone(), condition = condition_.body->Clone();
    std::vector<Output> pushed, inputs(node_.inputs().begin(), node_.inputs().end());
    std::vector<DType> types = node_.attr<std::vector<DType>>("T");
    std::vector<Shape> shapes = node_.attr<std::vector<Shape>>("output_shapes");
    {
      const Scope in_body = Scope(body).SubScope("saved"), in_condition = Scope(condition).SubScope("saved");
      const auto add = [&](DType dtype, const Shape& shape) {
        const int64_t index = count + static_cast<int64_t>(pushed.size());
        Argument(in_condition, index, dtype, shape, "arg");
        if (!shapes.empty()) shapes.push_back(shape);
        types.push_back(dtype);
        return Argument(in_body, index, dtype, shape, "arg");
      };
      for (const int i : saved_) {
        const Output list = add(DType::kVariant, Shape::UnknownRank());
        const Output value = body.Find(body_.arguments[static_cast<size_t>(i)]->name())->output();
        pushed.push_back(in_body.Op("TensorListPushBack", {list, value}));
        const Output initial = node_.input(i);
        // Lists grow by pushing, so that it does not matter whether the number of iterations is known. It is counted
        // beside them.
        inputs.push_back(g_.scope().Op("EmptyTensorList", {ElementShape(g_.scope(), value), Int(g_.scope(), -1)},
                                       {{"element_dtype", initial.dtype()}}, "saved"));
      }
      const Output iterations = add(DType::kInt32, {});
      pushed.push_back(in_body.Op("AddV2", {iterations, Int(in_body, 1)}));
      inputs.push_back(Int(g_.scope(), 0));
      RIVULET_RETURN_IF_ERROR(in_body.status());
      RIVULET_RETURN_IF_ERROR(in_condition.status());
    }
    RIVULET_RETURN_IF_ERROR(g_.scope().status());
    AttrMap attrs = node_.attrs();
    attrs["T"] = types;
    attrs["output_shapes"] = shapes;
    // The new loop and the backward loop repeat the draws of the user's loop, to which they refer.
    if (draws_ && !attrs.contains("_random_of")) attrs["_random_of"] = node_.name();
    RIVULET_ASSIGN_OR_RETURN(attrs["cond"], Add(condition_, "_counted", std::move(condition), {}));
    RIVULET_ASSIGN_OR_RETURN(attrs["body"], Add(body_, "_saving", std::move(body), pushed));
    forward_ = g_.scope().AddNode(node_.type(), inputs, std::move(attrs), "forward");
    RIVULET_RETURN_IF_ERROR(g_.scope().status());
    for (int port = 0; port < static_cast<int>(count); ++port) {
      const Output old = g_.output(port);
      for (Node* user : graph_.Consumers(old))
        for (int i = 0; i < static_cast<int>(user->inputs().size()); ++i)
          if (user->input(i) == old) RIVULET_RETURN_IF_ERROR(graph_.ReplaceInput(user, i, forward_->output(port)));
    }
    return absl::OkStatus();
  }

  StatusOr<AttrValue> Add(const Function& function, std::string_view suffix, Graph graph, std::vector<Output> more) {
    const std::string name = UniqueFunctionName(g_.scope(), function.name + std::string(suffix));
    RIVULET_ASSIGN_OR_RETURN(auto made, Extended(function, name, std::move(graph), std::move(more)));
    RIVULET_RETURN_IF_ERROR(graph_.AddFunction(std::move(made)));
    return AttrValue(FunctionRef{name});
  }

  // Loop variables: the iteration, which counts down to -1; gradients of the active loop variables; the sums; the
  // stacks; and what every iteration reads.
  // Gradients of the loop variables travel from iteration to iteration as loop variables do, in the other direction;
  // the sums collect what is asked of values that no iteration changes.
  Status MakeBackward() {
    const Scope& outer = g_.scope();
    const int count = static_cast<int>(node_.inputs().size());
    std::vector<Output> inputs = {
        outer.Op("Sub", {forward_->output(count + static_cast<int>(saved_.size())), Int(outer, 1)})};
    // Start with the gradients of the loop's results, which are the last iteration's results.
    for (const int i : inner_) inputs.push_back(g_.grad(i) ? g_.grad(i) : outer.Op("ZerosLike", {forward_->output(i)}));
    for (const int i : sums_) {
      Output value = node_.input(i);
      if (value.dtype() == DType::kResource)
        value = outer.Op("ReadVariableOp", {value}, {{"dtype", HandleDType(*body_.arguments[static_cast<size_t>(i)])}});
      inputs.push_back(outer.Op("ZerosLike", {value}));
    }
    for (size_t i = 0; i < saved_.size(); ++i) inputs.push_back(forward_->output(count + static_cast<int>(i)));
    for (const int i : read_) inputs.push_back(node_.input(i));
    RIVULET_RETURN_IF_ERROR(outer.status());

    Graph condition, body;
    std::vector<Output> arguments;
    std::vector<DType> types;
    const Scope in_condition(condition), in_body = Scope(body).SubScope(body_.name + "_backward");
    Output iteration;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const DType dtype = inputs[i].dtype();
      const Shape shape = dtype == DType::kVariant ? Shape::UnknownRank() : inputs[i].shape();
      const size_t first_read = inputs.size() - read_.size();
      const DType handle = dtype == DType::kResource
                               ? HandleDType(*body_.arguments[static_cast<size_t>(read_[i - first_read])])
                               : DType::kInvalid;
      const Output in = Argument(in_condition, static_cast<int64_t>(i), dtype, shape, "arg", handle);
      if (i == 0) iteration = in;
      arguments.push_back(Argument(in_body, static_cast<int64_t>(i), dtype, shape, "arg", handle));
      types.push_back(dtype);
    }
    const Output more = in_condition.Op("GreaterEqual", {iteration, Int(in_condition, 0)});
    RIVULET_RETURN_IF_ERROR(in_condition.status());

    const size_t first_sum = 1 + inner_.size(), first_stack = first_sum + sums_.size(),
                 first_read = first_stack + saved_.size();
    std::vector<Output> given(gradient_->arguments.size());  // the gradient function's arguments
    std::vector<Output> results(arguments.size());
    results[0] = in_body.Op("Sub", {arguments[0], Int(in_body, 1)});
    for (size_t i = 0; i < saved_.size(); ++i) {
      const size_t variable = static_cast<size_t>(saved_[i]);
      const Output value = gradient_->arguments[variable]->output();
      Node* pop = in_body.AddNode("TensorListPopBack", {arguments[first_stack + i], ElementShape(in_body, value)},
                                  {{"element_dtype", value.dtype()}});
      RIVULET_RETURN_IF_ERROR(in_body.status());
      results[first_stack + i] = pop->output(0);
      given[variable] = pop->output(1);
    }
    for (size_t i = 0; i < read_.size(); ++i)
      given[static_cast<size_t>(read_[i])] = results[first_read + i] = arguments[first_read + i];
    for (size_t i = 0; i < inner_.size(); ++i) given[static_cast<size_t>(count) + i] = arguments[1 + i];
    // Inlined and not called, so that the iteration's forward half, computed again, and its gradient are optimised as
    // one.
    RIVULET_ASSIGN_OR_RETURN(const std::vector<Output> gradients, Inline(*gradient_, given, body));
    for (size_t i = 0; i < inner_.size(); ++i) results[1 + i] = gradients[i];
    for (size_t i = 0; i < sums_.size(); ++i)
      results[first_sum + i] = Sum(in_body, arguments[first_sum + i], gradients[inner_.size() + i]);
    RIVULET_RETURN_IF_ERROR(in_body.status());

    const std::string name = body_.name + "_backward";
    const std::string condition_name = UniqueFunctionName(outer, name + "_cond");
    RIVULET_ASSIGN_OR_RETURN(auto condition_function, Function::Create(condition_name, std::move(condition), {more}));
    RIVULET_RETURN_IF_ERROR(graph_.AddFunction(std::move(condition_function)));
    const std::string body_name = UniqueFunctionName(outer, name);
    RIVULET_ASSIGN_OR_RETURN(auto body_function, Function::Create(body_name, std::move(body), results));
    RIVULET_RETURN_IF_ERROR(graph_.AddFunction(std::move(body_function)));
    AttrMap attrs = {{"T", types}, {"cond", FunctionRef{condition_name}}, {"body", FunctionRef{body_name}}};
    // The backward loop counts its iterations from the last to the first; it says so, and each draws as its forward
    // twin did.
    if (draws_) {
      attrs["_random_of"] = node_.name();
      attrs["_iteration_from"] = int64_t{0};
    }
    Node* backward = outer.AddNode(node_.type(), inputs, std::move(attrs), "backward");
    RIVULET_RETURN_IF_ERROR(outer.status());
    for (size_t i = 0; i < inner_.size(); ++i) g_.set_input_grad(inner_[i], backward->output(static_cast<int>(1 + i)));
    for (size_t i = 0; i < sums_.size(); ++i)
      g_.set_input_grad(sums_[i], backward->output(static_cast<int>(first_sum + i)));
    return absl::OkStatus();
  }

  // Copies the body of `function` with `given` as its arguments; returns its results.
  static StatusOr<std::vector<Output>> Inline(const Function& function, std::span<const Output> given, Graph& into) {
    for (const auto& [name, called] : function.body->functions()) RIVULET_RETURN_IF_ERROR(into.AddFunction(called));
    std::vector<Node*> all, copies(function.body->nodes().size());
    for (const auto& node : function.body->nodes()) all.push_back(node.get());
    const auto at = [&](Output output) -> Output {
      if (output.node->type() == "_Arg") return given[static_cast<size_t>(output.node->attr<int64_t>("index"))];
      return {copies[static_cast<size_t>(output.node->id())], output.port};
    };
    for (const Node* node : function.body->TopologicalOrder(all)) {
      if (node->type() == "_Arg") continue;
      NodeSpec spec{node->name(),  std::string(node->type()), {}, {}, node->attrs(), node->source_line(),
                    node->device()};
      for (const Output& input : node->inputs()) spec.inputs.push_back(at(input));
      for (const Node* before : node->control_inputs())
        if (before->type() != "_Arg") spec.control_inputs.push_back(copies[static_cast<size_t>(before->id())]);
      RIVULET_ASSIGN_OR_RETURN(copies[static_cast<size_t>(node->id())], into.AddNode(std::move(spec)));
    }
    std::vector<Output> results;
    for (const Output& result : function.results) results.push_back(at(result));
    return results;
  }

  // A list that every iteration reads one element of gets that element's gradient in its place, rather than the sum of
  // two lists.
  // A loop over a sequence reads element i in iteration i. Adding a whole list of zeros but for one element, each time,
  // would make the gradient quadratic in the sequence's length.
  static Output Sum(const Scope& scope, Output sum, Output gradient) {
    if (gradient.dtype() != DType::kVariant) return scope.Op("AddV2", {sum, gradient});
    const Node& set = *gradient.node;
    if (set.type() != "TensorListSetItem" || set.input(0).node->type() != "TensorListReserve" ||
        !IsFloating(set.input(2).dtype()))
      return scope.Op("AddN", {sum, gradient});
    const Output before = scope.Op("TensorListGetItem", {sum, set.input(1), ElementShape(scope, set.input(2))},
                                   {{"element_dtype", set.input(2).dtype()}});
    return scope.Op("TensorListSetItem", {sum, set.input(1), scope.Op("AddV2", {before, set.input(2)})});
  }

  // Passes on the gradient of values that no iteration changes.
  Status PassOn() {
    for (const int i : active_) {
      if (!passed_[static_cast<size_t>(i)]) continue;
      const Output summed = g_.input_grads()[static_cast<size_t>(i)];
      g_.set_input_grad(i, summed ? g_.scope().Op("AddN", {summed, g_.grad(i)}) : g_.grad(i));
    }
    return g_.scope().status();
  }

  GradientContext& g_;
  const Node& node_;
  Graph& graph_;
  const Function& condition_;
  const Function& body_;
  bool draws_ = false;
  std::vector<bool> passed_;  // by loop variable
  std::vector<int> active_;   // outputs that a gradient reached
  std::vector<int> inner_;    // loop variables that change and have a gradient
  std::vector<int> sums_;     // invariant variables whose gradient is needed
  std::vector<int> saved_;    // that change and are needed again
  std::vector<int> read_;     // that are needed again as they are
  std::shared_ptr<const Function> gradient_;
  Node* forward_ = nullptr;
};

}  // namespace

Status WhileGradient(GradientContext& g) {
  const FunctionCall call = DescribeFunctionCall(g.node()->type(), g.node()->attrs());
  RIVULET_ASSIGN_OR_RETURN(const std::vector<const Function*> functions,
                           FindFunctions(call, FunctionsOf(g.scope().graph())));
  return LoopGradient(g, *functions[0], *functions[1]).Run();
}

}  // namespace rivulet
