// Replaces calls by the bodies of the called functions.
#include <algorithm>
#include <unordered_map>

#include "engine/graph/function_call.h"
#include "engine/passes/pass.h"
#include "engine/program/function_site.h"

namespace rivulet {
namespace {

// Calls are not inlined if the graph would grow beyond this.
constexpr size_t kMostNodes = 50'000;

// The first pass, because all others stop at function borders: a product in a body never meets a bias outside. Loops
// stay, because their bodies are compiled once and run often.
class Inliner {
 public:
  Inliner(GraphEditor& graph, PassContext& context) : graph_(graph), context_(context) {}

  void Run() {
    std::vector<EditNode*> work = graph_.Nodes();
    for (size_t i = 0; i < work.size(); ++i) {
      EditNode& node = *work[i];
      if (node.removed || node.fed || !RunsFunctions(node.type())) continue;
      FunctionCall call = DescribeFunctionCall(node.type(), node.attrs);
      if (call.kind == FunctionCall::Kind::kIf || call.kind == FunctionCall::Kind::kCase) {
        const Tensor* selector = GraphEditor::Constant(node.inputs[0]);
        if (selector == nullptr) continue;
        TakeBranch(node, call, *selector);
        call = DescribeFunctionCall(node.type(), node.attrs);
      }
      // A branch with a known condition has become a call by now, so one path serves both.
      if (call.kind != FunctionCall::Kind::kCall) continue;
      const std::vector<EditNode*> added = Inline(node, call.functions[0]);
      std::ranges::copy_if(added, std::back_inserter(work),
                           [](const EditNode* each) { return RunsFunctions(each->type()); });
    }
  }

 private:
  void TakeBranch(EditNode& node, const FunctionCall& call, const Tensor& selector) {
    const size_t branch = call.kind == FunctionCall::Kind::kIf
                              ? (TruthOf(selector).value_or(false) ? 0 : 1)
                              : BranchOf(selector.flat<int32_t>()[0], call.functions.size());
    AttrMap attrs;
    for (const auto& [name, value] : node.attrs)
      if (name.starts_with('_')) attrs.emplace(name, value);
    attrs["Tin"] = node.attrs.at("Tin");
    attrs["Tout"] = node.attrs.at("Tout");
    attrs["f"] = FunctionRef{call.functions[branch]};
    std::vector<Edge> arguments(node.inputs.begin() + 1, node.inputs.end());
    context_.log.push_back(fmt::format("{}: always {} '{}'", node.name, call.roles[branch], call.functions[branch]));
    graph_.Become(node, node.op->stateful ? "StatefulPartitionedCall" : "PartitionedCall", std::move(arguments),
                  std::move(attrs));
  }

  // Bodies with random draws stay calls: each has its own stream, keyed by the call, and would draw other numbers when
  // inlined. A call that is requested by name and has several outputs stays too, because one Identity cannot replace
  // it.
  bool MayInline(const EditNode& node, const Function* function) const {
    if (function == nullptr || function->noinline) return false;
    if (const bool* stays = node.FindAttr<bool>("_noinline"); stays != nullptr && *stays) return false;
    if (node.pinned && node.outputs.size() > 1) return false;
    for (size_t i = 0; i < function->results.size(); ++i)
      if (function->result_dtype(i) == DType::kResource && PassedArgument(function->results[i]) < 0) return false;
    if (graph_.size() + function->body->nodes().size() > kMostNodes) return false;
    return !EffectsOf(*function).draws;
  }

  // The surrounding graph's edge for a tensor of the body.
  Edge EdgeOf(Output output) {
    if (const Tensor* value = concrete_->constant(concrete_->value(output)); value != nullptr) {
      EditNode*& known = constants_[concrete_->value(output)];
      if (known == nullptr) known = graph_.AddConst(NameOf(*output.node), *value, *call_);
      return {known, 0};
    }
    if (output.node->type() == "_Arg") return call_->inputs[static_cast<size_t>(output.node->attr<int64_t>("index"))];
    return {made_.at(output.node), output.port};
  }
  std::string NameOf(const Node& node) const { return fmt::format("{}/{}", call_->name, node.name()); }

  // Returns the added nodes; none if the call stays.
  std::vector<EditNode*> Inline(EditNode& node, const std::string& name) {
    const Function* function = graph_.FindFunction(name);
    if (!MayInline(node, function)) return {};
    std::vector<KnownArgument> arguments;
    for (const Edge& input : node.inputs) {
      KnownArgument argument{input.spec(), GraphEditor::Constant(input)};
      if (input.dtype() == DType::kResource) {
        const DType* dtype = input.node->FindAttr<DType>(input.node->type() == "_Arg" ? "_handle_dtype" : "dtype");
        if (dtype == nullptr) return {};
        argument.variable = *dtype;
      }
      arguments.push_back(std::move(argument));
    }
    // Errors in a body are reported when the call is compiled. Here an error would name nodes that the user never
    // wrote, in a pass that the user did not request.
    const StatusOr<FunctionSite> site = MakeFunctionSite(*function, arguments);
    if (!site.ok()) return {};
    const CompileOptions options{context_.kernels, context_.options};
    const StatusOr<ConcreteGraph> concrete = ConcreteGraph::Build(site->body, site->signature, options);
    if (!concrete.ok()) return {};
    call_ = &node;
    concrete_ = &*concrete;
    made_.clear();
    constants_.clear();

    std::vector<EditNode*> added, effects;
    for (const Node* each : concrete->schedule()) {
      if (each->type() == "_Arg" || concrete->IsConstant(*each)) continue;
      std::vector<Edge> inputs;
      for (const Output& input : each->inputs()) inputs.push_back(EdgeOf(input));
      std::vector<TensorSpec> outputs;
      for (size_t port = 0; port < each->outputs().size(); ++port)
        outputs.push_back(concrete->spec(concrete->value({const_cast<Node*>(each), static_cast<int>(port)})));
      EditNode* copy =
          graph_.Add(NameOf(*each), each->type(), std::move(inputs), each->attrs(), std::move(outputs), node);
      if (!each->source_line().empty()) copy->source_line = each->source_line();
      if (!each->device().empty()) copy->device = each->device();
      for (const Node* before : each->control_inputs())
        if (const auto found = made_.find(before); found != made_.end()) graph_.AddControlInput(*copy, *found->second);
      // Only nodes with side effects wait for the call's control inputs; pure nodes may run when their inputs are
      // ready, which allows fusion.
      if (each->op().stateful)
        for (EditNode* before : node.control_inputs) graph_.AddControlInput(*copy, *before);
      made_[each] = copy;
      added.push_back(copy);
    }
    for (const std::string& target : site->signature.targets)
      if (const auto found = made_.find(site->body.Find(target)); found != made_.end())
        effects.push_back(found->second);
    std::vector<Edge> results;
    for (const Output& result : function->results) {
      const int passed = PassedArgument(result);
      results.push_back(passed >= 0 ? node.inputs[static_cast<size_t>(passed)]
                                    : EdgeOf({site->body.Find(result.node->name()), result.port}));
    }
    MoveUsers(node, results, effects);
    context_.log.push_back(fmt::format("{}: the {} nodes of '{}' in its place", node.name, added.size(), name));
    return added;
  }

  // A user of a result also waits for the call's side effects, although no data edge requires it: the call was one node
  // that ended after all its work. A NoOp represents that end, so that there is one edge per effect and one per user
  // instead of their product.
  void MoveUsers(EditNode& node, const std::vector<Edge>& results, const std::vector<EditNode*>& effects) {
    // Represents the end of the call for its dependents.
    EditNode* done = nullptr;
    const auto wait = [&](EditNode& user) {
      if (done == nullptr) {
        done = graph_.Add(fmt::format("{}/done", node.name), "NoOp", {}, {}, {}, node);
        for (EditNode* effect : effects) graph_.AddControlInput(*done, *effect);
        for (EditNode* before : node.control_inputs) graph_.AddControlInput(*done, *before);
        if (effects.empty())
          for (const Edge& result : results) graph_.AddControlInput(*done, *result.node);
      }
      graph_.AddControlInput(user, *done);
    };
    std::vector<EditNode*> users = node.users;
    std::ranges::sort(users, {}, &EditNode::index);
    users.erase(std::unique(users.begin(), users.end()), users.end());
    for (EditNode* user : users) {
      if (user->removed) continue;
      bool used = false;
      for (size_t i = 0; i < user->inputs.size(); ++i) {
        if (user->inputs[i].node != &node) continue;
        graph_.SetInput(*user, i, results[static_cast<size_t>(user->inputs[i].port)]);
        used = true;
      }
      const bool waited = std::erase(user->control_inputs, &node) > 0;
      if (waited) --node.control_uses;
      if (waited || (used && (!effects.empty() || !node.control_inputs.empty()))) wait(*user);
    }
    if (!node.pinned) return;
    wait(node);
    if (node.outputs.empty())
      graph_.Become(node, "NoOp", {}, {});
    else
      graph_.Become(node, "Identity", {results[0]}, {{"T", results[0].dtype()}});
  }

  GraphEditor& graph_;
  PassContext& context_;
  EditNode* call_ = nullptr;
  const ConcreteGraph* concrete_ = nullptr;
  std::unordered_map<const Node*, EditNode*> made_;
  std::unordered_map<int, EditNode*> constants_;  // by value number
};

}  // namespace

Status InlineFunctions(GraphEditor& graph, PassContext& context) {
  Inliner(graph, context).Run();
  return absl::OkStatus();
}

}  // namespace rivulet
