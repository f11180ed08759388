#include "engine/graph/function_call.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "engine/graph/op.h"

namespace rivulet {
namespace {

using CallKind = FunctionCall::Kind;

struct CallOp {
  std::string_view op;
  CallKind kind;
};
constexpr std::array<CallOp, 8> kCallOps = {{{"PartitionedCall", CallKind::kCall},
                                             {"StatefulPartitionedCall", CallKind::kCall},
                                             {"If", CallKind::kIf},
                                             {"StatelessIf", CallKind::kIf},
                                             {"Case", CallKind::kCase},
                                             {"StatelessCase", CallKind::kCase},
                                             {"While", CallKind::kWhile},
                                             {"StatelessWhile", CallKind::kWhile}}};

// Shapes are inferred again up to this depth of nested calls; deeper ones keep their bodies' shapes. Otherwise the cost
// could grow exponentially with the depth.
constexpr int kInferredDepth = 4;
thread_local int inference_depth = 0;

bool OnlyReads(std::string_view op) {
  return op == "ReadVariableOp" || op == "ResourceGather" || op == "VariableShape" || op == "VarIsInitializedOp";
}

void SetIf(std::vector<bool>& all, size_t at, bool value) {
  if (at < all.size() && value) all[at] = true;
}

}  // namespace

bool RunsFunctions(std::string_view op) {
  return std::ranges::any_of(kCallOps, [&](const CallOp& each) { return each.op == op; });
}

FunctionCall DescribeFunctionCall(std::string_view op, const AttrMap& attrs) {
  FunctionCall call;
  call.kind = std::ranges::find(kCallOps, op, &CallOp::op)->kind;
  const auto add = [&](const std::string& role) {
    call.roles.push_back(role);
    call.functions.push_back(std::get<FunctionRef>(attrs.at(role)).name);
  };
  switch (call.kind) {
    case CallKind::kCall:
      add("f");
      break;
    case CallKind::kIf:
      call.first_argument = 1;
      add("then_branch");
      add("else_branch");
      break;
    case CallKind::kCase:
      call.first_argument = 1;
      for (const FunctionRef& branch : std::get<std::vector<FunctionRef>>(attrs.at("branches"))) {
        call.roles.push_back(fmt::format("branches[{}]", call.roles.size()));
        call.functions.push_back(branch.name);
      }
      break;
    case CallKind::kWhile:
      add("cond");
      add("body");
      break;
  }
  return call;
}

StatusOr<std::vector<const Function*>> FindFunctions(const FunctionCall& call, const FunctionLookup& find) {
  std::vector<const Function*> functions;
  for (size_t i = 0; i < call.functions.size(); ++i) {
    const Function* function = find(call.functions[i]);
    if (function == nullptr)
      return NotFound("{} is the function '{}', which the graph does not have", call.roles[i], call.functions[i]);
    functions.push_back(function);
  }
  return functions;
}

FunctionLookup FunctionsOf(const Graph& graph) {
  return [&graph](std::string_view name) { return graph.FindFunction(name); };
}

std::optional<bool> TruthOf(DType dtype, const Shape& shape, const std::byte* data) {
  if (SizeOf(dtype) == 0 || dtype == DType::kVariant) return std::nullopt;
  if (shape.rank() != 0) return shape.elements() > 0;
  const auto is = [&]<typename T>(T zero) {
    T value;
    std::memcpy(&value, data, sizeof value);
    return value != zero;
  };
  switch (dtype) {
    case DType::kFloat32:
      return is(0.0f);
    case DType::kFloat64:
      return is(0.0);
    case DType::kFloat16:
    case DType::kBFloat16: {
      uint16_t bits;
      std::memcpy(&bits, data, sizeof bits);
      return (bits & 0x7fff) != 0;  // minus zero is zero
    }
    default:
      break;
  }
  for (size_t i = 0; i < SizeOf(dtype); ++i)
    if (data[i] != std::byte{0}) return true;
  return false;
}

// Looks through Identity, by which the form that frameworks write passes arguments on.
int PassedArgument(Output result) {
  while (result.node->type() == "Identity") result = result.node->input(0);
  return result.node->type() == "_Arg" ? static_cast<int>(result.node->attr<int64_t>("index")) : -1;
}

// Handles are passed on only by Identity; if other ops could make one, the variable that an op accesses would be
// unknown, and so would be the order of reads and writes.
const Node* HandleOf(Output resource) {
  while (resource.node->type() == "Identity") resource = resource.node->input(0);
  if (resource.dtype() != DType::kResource) return nullptr;
  return resource.node->type() == "VarHandleOp" || resource.node->type() == "_Arg" ? resource.node : nullptr;
}

DType HandleDType(const Node& handle) {
  const DType* dtype = handle.FindAttr<DType>(handle.type() == "_Arg" ? "_handle_dtype" : "dtype");
  return dtype == nullptr ? DType::kInvalid : *dtype;
}

// Decides by attributes instead of a list of names: a library's op with seeds draws like built-in ones.
bool DrawsFromStream(const OpDef& op) {
  return op.stateful && op.FindAttr("seed") != nullptr && op.FindAttr("seed2") != nullptr;
}

// Random ops are numbered by their position in the graph, not as they run. So the draws of one do not depend on the
// other ops of a run, on threads or on the order of execution. Calls are numbered separately, because each keys a
// stream for its body. A rewritten graph states the numbers of its original.
std::vector<int> RandomIndices(const Graph& graph) {
  std::vector<int> indices;
  int random_ops = 0, calls = 0;
  for (const auto& node : graph.nodes()) {
    const bool runs_functions = RunsFunctions(node->type());
    int index = -1;
    if (runs_functions || DrawsFromStream(node->op())) {
      index = (runs_functions ? calls : random_ops)++;
      const int64_t* stated = node->FindAttr<int64_t>("_random_index");
      if (stated != nullptr && *stated >= 0 && *stated < (int64_t{1} << 24)) index = static_cast<int>(*stated);
      if (const std::string* of = node->FindAttr<std::string>("_random_of"); stated == nullptr && of != nullptr)
        if (const Node* first = graph.Find(*of); first != nullptr && first->id() < node->id())
          index = indices[static_cast<size_t>(first->id())];
    }
    indices.push_back(index);
  }
  return indices;
}

bool HasNoEffect(const OpDef& op) {
  return !op.stateful || op.name == "VarHandleOp" || OnlyReads(op.name) || DrawsFromStream(op);
}

// Computed from a body's nodes each time: bodies are small, and a cached result would have to be right for every graph
// made from them.
FunctionEffects EffectsOf(const Function& function) {
  FunctionEffects all;
  all.reads.resize(function.arguments.size());
  all.writes.resize(function.arguments.size());
  for (const auto& node : function.body->nodes()) {
    const OpDef& op = node->op();
    FunctionEffects own;
    if (RunsFunctions(op.name)) {
      own = EffectsOfCall(op.name, node->attrs(), node->inputs().size(), FunctionsOf(*function.body));
    } else {
      own.draws = DrawsFromStream(op);
      own.effects = !HasNoEffect(op);
      const bool handles = op.name != "Identity";
      own.reads.resize(node->inputs().size(), handles);
      own.writes.resize(node->inputs().size(), handles && own.effects);
    }
    all.draws = all.draws || own.draws;
    all.effects = all.effects || own.effects;
    for (size_t i = 0; i < node->inputs().size(); ++i) {
      if (node->inputs()[i].dtype() != DType::kResource) continue;
      const Node* handle = HandleOf(node->inputs()[i]);
      if (handle == nullptr || handle->type() != "_Arg") continue;
      const size_t argument = static_cast<size_t>(handle->attr<int64_t>("index"));
      SetIf(all.reads, argument, own.reads[i]);
      SetIf(all.writes, argument, own.writes[i]);
    }
  }
  return all;
}

FunctionEffects EffectsOfCall(std::string_view op, const AttrMap& attrs, size_t inputs, const FunctionLookup& find) {
  FunctionEffects all;
  all.reads.resize(inputs);
  all.writes.resize(inputs);
  const FunctionCall call = DescribeFunctionCall(op, attrs);
  for (const std::string& name : call.functions) {
    const Function* function = find(name);
    if (function == nullptr) continue;
    const FunctionEffects own = EffectsOf(*function);
    all.draws = all.draws || own.draws;
    all.effects = all.effects || own.effects;
    for (size_t i = 0; i < own.reads.size(); ++i) {
      SetIf(all.reads, call.first_argument + i, own.reads[i]);
      SetIf(all.writes, call.first_argument + i, own.writes[i]);
    }
  }
  return all;
}

// Rebuilds the body with the known facts, so that AddNode infers everything again. A known value becomes a Const in
// place of the argument, with its name, so constant folding needs no knowledge of arguments.
StatusOr<Graph> SpecializeBody(const Function& function, std::span<const KnownArgument> arguments) {
  if (arguments.size() != function.arguments.size())
    return InvalidArgument("function '{}' takes {} arguments, not {}", function.name, function.arguments.size(),
                           arguments.size());
  const Graph& body = *function.body;
  Graph copy;
  for (const auto& [name, called] : body.functions()) RIVULET_RETURN_IF_ERROR(copy.AddFunction(called));
  std::vector<Node*> all, copies(body.nodes().size());
  for (const auto& node : body.nodes()) all.push_back(node.get());
  for (const Node* node : body.TopologicalOrder(all)) {
    NodeSpec spec{node->name(), std::string(node->type()), {}, {}, node->attrs(), node->source_line(), node->device()};
    for (const Output& input : node->inputs())
      spec.inputs.push_back({copies[static_cast<size_t>(input.node->id())], input.port});
    for (const Node* before : node->control_inputs())
      spec.control_inputs.push_back(copies[static_cast<size_t>(before->id())]);
    if (node->type() == "_Arg") {
      const size_t index = static_cast<size_t>(node->attr<int64_t>("index"));
      const KnownArgument& known = arguments[index];
      const TensorSpec& declared = node->outputs()[0];
      const bool list = known.spec.dtype == DType::kVariant;  // only the facts known here matter
      if (known.spec.dtype != declared.dtype || (!list && !Shape::Compatible(known.spec.shape, declared.shape)))
        return InvalidArgument("function '{}' takes {}{} as argument {} ('{}'), not {}{}", function.name,
                               Name(declared.dtype), declared.shape.ToString(), index, node->name(),
                               Name(known.spec.dtype), known.spec.shape.ToString());
      if (known.value != nullptr) {
        spec.op = "Const";
        spec.attrs = {{"value", *known.value}, {"dtype", known.value->dtype()}};
      } else {
        Shape merged = known.spec.shape;
        if (!list) {
          RIVULET_ASSIGN_OR_RETURN(merged, Shape::Merge(known.spec.shape, declared.shape));
        }
        spec.attrs["shape"] = std::move(merged);
        if (known.variable != DType::kInvalid) spec.attrs["_handle_dtype"] = known.variable;
      }
    }
    StatusOr<Node*> added = copy.AddNode(std::move(spec));
    if (!added.ok()) return Annotate(added.status(), fmt::format("function '{}'", function.name));
    copies[static_cast<size_t>(node->id())] = *added;
  }
  return copy;
}

// While a graph is built, every call infers its body again, including nested ones. Below a few levels the bodies' own
// shapes are good enough; compiling a program infers all of them.
StatusOr<std::vector<Shape>> InferFunction(const Function& function, std::span<const KnownArgument> arguments) {
  std::vector<Shape> shapes;
  for (const Output& result : function.results) shapes.push_back(result.shape());
  if (inference_depth >= kInferredDepth && arguments.size() == function.arguments.size()) return shapes;
  ++inference_depth;
  const StatusOr<Graph> body = SpecializeBody(function, arguments);
  --inference_depth;
  RIVULET_RETURN_IF_ERROR(body.status());
  for (size_t i = 0; i < shapes.size(); ++i) {
    RIVULET_ASSIGN_OR_RETURN(const Output result, body->FindOutput(function.results[i].name()));
    shapes[i] = result.shape();
  }
  return shapes;
}

}  // namespace rivulet
