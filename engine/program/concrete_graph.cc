#include "engine/program/concrete_graph.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <queue>

#include "engine/base/nearest.h"
#include "engine/graph/function_call.h"
#include "engine/graph/inference.h"
#include "engine/graph/list_shape.h"
#include "engine/graph/node_error.h"
#include "engine/graph/op.h"
#include "engine/program/function_site.h"
#include "engine/program/structural_ops.h"
#include "engine/program/via_float32.h"
#include "engine/tensor/spec_bytes.h"

namespace rivulet {
namespace {

// Limit of scratch memory for folding a value: an
// untrusted graph could request more than the machine has.
constexpr size_t kFoldingScratchBytes = size_t{1} << 28;

class ConcreteInference final : public InferenceContext {
 public:
  ConcreteInference(const Graph& graph, const Node& node, std::vector<const TensorSpec*> inputs,
                    std::vector<const Tensor*> constants)
      : graph_(graph),
        node_(node),
        inputs_(std::move(inputs)),
        constants_(std::move(constants)),
        outputs_(node.outputs().size()) {
    for (size_t port = 0; port < outputs_.size(); ++port) outputs_[port] = Shape::UnknownRank();
  }
  std::string_view node_name() const override { return node_.name(); }
  int num_inputs() const override { return static_cast<int>(inputs_.size()); }
  const Shape& input(int i) const override { return inputs_[static_cast<size_t>(i)]->shape; }
  DType input_dtype(int i) const override { return inputs_[static_cast<size_t>(i)]->dtype; }
  const Tensor* input_value(int i) const override { return constants_[static_cast<size_t>(i)]; }
  const AttrMap& attrs() const override { return node_.attrs(); }
  const Function* FindFunction(std::string_view name) const override { return graph_.FindFunction(name); }
  void set_output(int i, Shape shape) override {
    if (static_cast<size_t>(i) < outputs_.size()) outputs_[static_cast<size_t>(i)] = std::move(shape);
  }
  const Shape& output(int i) const { return outputs_[static_cast<size_t>(i)]; }

 private:
  const Graph& graph_;
  const Node& node_;
  std::vector<const TensorSpec*> inputs_;
  std::vector<const Tensor*> constants_;
  std::vector<Shape> outputs_;
};

std::vector<std::string> NodeNames(const Graph& graph) {
  std::vector<std::string> names;
  for (const auto& node : graph.nodes()) names.push_back(node->name());
  return names;
}

template <typename T>
Tensor IntegerTensor(const Shape& shape, const std::vector<int64_t>& values) {
  Tensor tensor(kDTypeOf<T>, shape);
  for (size_t i = 0; i < values.size(); ++i) tensor.flat<T>()[i] = static_cast<T>(values[i]);
  return tensor;
}

// Values that depend on shapes alone.
Tensor ShapeFact(std::string_view op, DType dtype, const Shape& shape) {
  Shape shape_of_result;
  std::vector<int64_t> values;
  if (op == "TensorListLength")
    return ListLength(shape) < 0 ? Tensor() : IntegerTensor<int32_t>({}, {ListLength(shape)});
  if (op == "TensorListElementShape") {
    const Shape element = ListElement(shape);
    if (!element.IsFullyKnown()) return {};
    return ShapeFact("Shape", dtype, element);
  }
  if (op == "Shape") {
    values.assign(shape.dims().begin(), shape.dims().end());
    shape_of_result = Shape({shape.rank()});
  } else if (op == "Size") {
    values = {shape.elements()};
  } else if (op == "Rank") {
    values = {shape.rank()};
  } else {
    return {};
  }
  if (dtype == DType::kInt32) return IntegerTensor<int32_t>(shape_of_result, values);
  if (dtype == DType::kInt64) return IntegerTensor<int64_t>(shape_of_result, values);
  return {};
}

}  // namespace

bool DrawsRandomNumbers(const OpDef& op) { return DrawsFromStream(op); }

Status CheckConcrete(const Shape& shape, std::string_view what) {
  if (!shape.IsFullyKnown())
    return InvalidArgument(
        "{} has shape {}, which does not follow from the feeds. Where a size depends on values, a session can run the "
        "graph, and training cannot",
        what, shape.ToString());
  const StatusOr<int64_t> elements = shape.CheckedElements();
  if (elements.ok()) return {};
  const bool negative = std::any_of(shape.dims().begin(), shape.dims().end(), [](int64_t dim) { return dim < 0; });
  if (negative) return InvalidArgument("{}: {}", what, Message(elements.status()));
  return ResourceExhausted("{}: {}", what, Message(elements.status()));
}

bool ConcreteGraph::IsConstant(const Node& node) const {
  if (node.outputs().empty()) return false;
  const int first = first_value_[static_cast<size_t>(node.id())];
  for (size_t port = 0; port < node.outputs().size(); ++port) {
    if (constant(first + static_cast<int>(port)) == nullptr) return false;
  }
  return true;
}

bool ConcreteGraph::IsFed(const Node& node) const {
  if (node.outputs().empty()) return false;
  const int first = first_value_[static_cast<size_t>(node.id())];
  for (size_t port = 0; port < node.outputs().size(); ++port) {
    if (feed(first + static_cast<int>(port)) < 0) return false;
  }
  return true;
}

// Shapes are inferred again instead of taken from the graph, because it was built with an unknown batch size: gradients
// used Shape, BroadcastGradientArgs and Reshape because sizes were unknown. With the feeds' shapes these fold, often
// into a reduction over no axes, and kernels are prepared for exact sizes.
StatusOr<ConcreteGraph> ConcreteGraph::Build(const Graph& graph, const Signature& signature,
                                             const CompileOptions& options) {
  ConcreteGraph concrete;
  concrete.graph_ = &graph;
  concrete.signature_ = &signature;
  concrete.options_ = &options;
  RIVULET_RETURN_IF_ERROR(concrete.ResolveSignature(graph, signature));
  RIVULET_RETURN_IF_ERROR(concrete.Schedule(concrete.roots_, /*skip_constants=*/false));
  for (const Node* node : concrete.schedule_) {
    RIVULET_RETURN_IF_ERROR(concrete.InferAndFold(*node, signature, options));
  }
  // Removes nodes that only folded nodes needed. This needs two schedules, because folding requires an order and makes
  // part of it unnecessary.
  RIVULET_RETURN_IF_ERROR(concrete.Schedule(concrete.roots_, /*skip_constants=*/true));
  return concrete;
}

Status ConcreteGraph::ResolveSignature(const Graph& graph, const Signature& signature) {
  int values = 0;
  for (const auto& node : graph.nodes()) {
    first_value_.push_back(values);
    values += static_cast<int>(node->outputs().size());
  }
  random_index_ = RandomIndices(graph);
  values_.resize(static_cast<size_t>(values));
  // Values are numbered densely by (node, port), so that facts about a value are array accesses. Compiling a large
  // graph would otherwise spend its time in maps.
  for (const auto& node : graph.nodes()) {
    for (size_t port = 0; port < node->outputs().size(); ++port) {
      values_[static_cast<size_t>(value({node.get(), static_cast<int>(port)}))].spec = node->outputs()[port];
    }
  }
  for (size_t i = 0; i < signature.feeds.size(); ++i) {
    const FeedSpec& feed = signature.feeds[i];
    const StatusOr<Output> output = graph.FindOutput(feed.tensor);
    if (!output.ok()) return NotFound("feed '{}': {}", feed.tensor, Message(output.status()));
    Value& fed = values_[static_cast<size_t>(value(*output))];
    if (fed.feed >= 0) return InvalidArgument("tensor '{}' is fed twice", feed.tensor);
    if (feed.spec.dtype != fed.spec.dtype || feed.spec.dtype == DType::kResource) {
      return InvalidArgument("feed '{}' is {}, the tensor it replaces is {}", feed.tensor, Name(feed.spec.dtype),
                             Name(fed.spec.dtype));
    }
    if (feed.spec.dtype != DType::kVariant && !Shape::Compatible(feed.spec.shape, fed.spec.shape)) {
      return InvalidArgument("feed '{}' has shape {}, the tensor it replaces has {}", feed.tensor,
                             feed.spec.shape.ToString(), fed.spec.shape.ToString());
    }
    if (feed.spec.dtype != DType::kVariant)
      RIVULET_RETURN_IF_ERROR(CheckConcrete(feed.spec.shape, fmt::format("feed '{}'", feed.tensor)));
    fed.spec = feed.spec;
    fed.feed = static_cast<int>(i);
    fed_outputs_.push_back(*output);
  }
  for (const std::string& name : signature.fetches) {
    const StatusOr<Output> output = graph.FindOutput(name);
    if (!output.ok()) return NotFound("fetch '{}': {}", name, Message(output.status()));
    if (output->dtype() == DType::kResource)
      return InvalidArgument("fetch '{}' is a variable's handle; fetch its ReadVariableOp instead", name);
    fetches_.push_back(*output);
    // A tensor that is fed and fetched does not need its producers in the graph.
    if (feed(value(*output)) < 0) roots_.push_back(output->node);
  }
  for (const std::string& name : signature.targets) {
    const Node* node = graph.Find(name);
    if (node == nullptr)
      return NotFound("the graph has no target node '{}'.{}", name, DidYouMean(name, NodeNames(graph)));
    roots_.push_back(node);
  }
  for (size_t i = 0; i < signature.variables.size(); ++i) {
    const VariableBinding& variable = signature.variables[i];
    if (!bound_.emplace(variable.name, i).second) return InvalidArgument("variable '{}' is bound twice", variable.name);
    if (variable.buffer < 0)
      return InvalidArgument("variable '{}' is bound to buffer {}", variable.name, variable.buffer);
    if (variable.offset % 64 != 0) {
      return InvalidArgument("variable '{}' is bound to offset {}, which is no multiple of 64", variable.name,
                             variable.offset);
    }
    // A string's number is meaningful only in this process, but variables are not limited to it.
    if (SizeOf(variable.spec.dtype) == 0 || variable.spec.dtype == DType::kString) {
      return InvalidArgument("variable '{}' cannot hold {}", variable.name, Name(variable.spec.dtype));
    }
    RIVULET_RETURN_IF_ERROR(CheckConcrete(variable.spec.shape, fmt::format("variable '{}'", variable.name)));
  }
  return {};
}

Status ConcreteGraph::Schedule(std::span<const Node* const> roots, bool skip_constants) {
  const size_t count = graph_->nodes().size();
  std::vector<uint8_t> needed(count, 0);
  std::vector<std::vector<const Node*>> after(count);  // edges, producer to consumer
  std::vector<int> waits(count, 0);
  std::vector<const Node*> stack;
  size_t total = 0;
  const auto need = [&](const Node* node) {
    uint8_t& seen = needed[static_cast<size_t>(node->id())];
    if (seen) return;
    seen = 1;
    ++total;
    stack.push_back(node);
  };
  for (const Node* root : roots) need(root);
  while (!stack.empty()) {
    const Node* node = stack.back();
    stack.pop_back();
    const auto follow = [&](const Node* before) {
      need(before);
      after[static_cast<size_t>(before->id())].push_back(node);
      ++waits[static_cast<size_t>(node->id())];
    };
    for (const Node* before : node->control_inputs()) follow(before);
    if (skip_constants && IsConstant(*node)) continue;
    for (const Output& input : node->inputs()) {
      if (feed(value(input)) < 0) follow(input.node);
    }
  }
  // Among ready nodes, the oldest comes first. Any topological order would compute the same
  // values, but the order also decides in which sequence variables are read and written
  // where no edge does, and which lifetimes overlap. The order of creation is what a reader
  // of the graph expects, and depends neither on hash tables nor on the order of roots.
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (size_t id = 0; id < count; ++id) {
    if (needed[id] && waits[id] == 0) ready.push(static_cast<int>(id));
  }
  schedule_.clear();
  while (!ready.empty()) {
    const size_t id = static_cast<size_t>(ready.top());
    ready.pop();
    schedule_.push_back(graph_->nodes()[id].get());
    for (const Node* next : after[id]) {
      if (--waits[static_cast<size_t>(next->id())] == 0) ready.push(next->id());
    }
  }
  if (schedule_.size() == total) return {};
  for (size_t id = 0; id < count; ++id) {
    if (needed[id] && waits[id] > 0) {
      return InvalidArgument("the graph has a cycle through node '{}'", graph_->nodes()[id]->name());
    }
  }
  return {};
}

Status ConcreteGraph::InferAndFold(const Node& node, const Signature& signature, const CompileOptions& options) {
  if (IsFed(node)) return {};
  switch (StructuralKind(node.type())) {
    case StructuralOp::kConst: {
      Value& result = values_[static_cast<size_t>(value({const_cast<Node*>(&node), 0}))];
      if (result.feed >= 0) return {};
      const Tensor& tensor = node.attr<Tensor>("value");
      if (tensor.empty() || tensor.dtype() != result.spec.dtype) {
        return InvalidArgument("Const '{}' holds no {} value", node.name(), Name(result.spec.dtype));
      }
      result.constant = tensor;
      result.spec.shape = tensor.shape();
      return {};
    }
    case StructuralOp::kPlaceholder:
      if (node.type() == "_Arg" && node.outputs()[0].dtype == DType::kResource)
        return BindVariable(node, ArgumentVariable(node), signature);
      return NotFound("placeholder '{}' is needed and not fed", node.name());
    case StructuralOp::kVariable:
      return ResolveVariable(node, signature);
    case StructuralOp::kView:
      if (const int handle = variable(value(node.input(0))); handle >= 0) {
        Value& result = values_[static_cast<size_t>(first_value_[static_cast<size_t>(node.id())])];
        result.variable = handle;
        result.spec.shape = spec(value(node.input(0))).shape;
        return {};
      }
      break;
    default:
      break;
  }
  for (const Output& input : node.inputs()) {
    if (input.dtype() == DType::kResource && variable(value(input)) < 0) {
      return Unimplemented("{} '{}' takes a handle from {} '{}', which is not a variable", node.type(), node.name(),
                           input.node->type(), input.node->name());
    }
  }
  // Nodes that run functions are inferred from their bodies and never folded: a body may loop for long, and its limits
  // are those of a run.
  if (RunsFunctions(node.type())) return InferCall(node);
  RIVULET_RETURN_IF_ERROR(CheckHandles(node));
  RIVULET_RETURN_IF_ERROR(InferShapes(node));
  Fold(node, options);
  return {};
}

Status ConcreteGraph::ResolveVariable(const Node& node, const Signature& signature) {
  std::string name = node.attr<std::string>("shared_name");
  if (name.empty()) name = node.name();
  return BindVariable(node, name, signature);
}

Status ConcreteGraph::BindVariable(const Node& node, const std::string& name, const Signature& signature) {
  const auto found = bound_.find(name);
  if (found == bound_.end()) {
    std::vector<std::string> known;
    for (const VariableBinding& binding : signature.variables) known.push_back(binding.name);
    return NotFound("the signature binds no variable '{}', which node '{}' needs.{}", name, node.name(),
                    DidYouMean(name, known));
  }
  const VariableBinding& binding = signature.variables[found->second];
  const DType dtype = node.type() == "VarHandleOp" ? node.attr<DType>("dtype") : binding.spec.dtype;
  const Shape& shape = node.attr<Shape>("shape");
  if (dtype != binding.spec.dtype || !Shape::Compatible(shape, binding.spec.shape)) {
    return InvalidArgument("variable '{}' is {}{} in the graph and bound as {}{}", name, Name(dtype), shape.ToString(),
                           Name(binding.spec.dtype), binding.spec.shape.ToString());
  }
  Value& handle = values_[static_cast<size_t>(first_value_[static_cast<size_t>(node.id())])];
  handle.variable = static_cast<int>(found->second);
  // For shape functions, a handle has the shape of its variable.
  handle.spec.shape = binding.spec.shape;
  return {};
}

// A function's handle argument may refer to any variable: checks that its type matches the op's.
Status ConcreteGraph::CheckHandles(const Node& node) const {
  for (const Output& input : node.inputs()) {
    if (variable(value(input)) < 0) continue;
    const VariableBinding& bound = binding(value(input));
    const DType* dtype = node.FindAttr<DType>("dtype");
    if (dtype == nullptr) dtype = node.FindAttr<DType>("T");
    if (dtype != nullptr && *dtype != bound.spec.dtype && *dtype != DType::kResource)
      return InvalidArgument("{} '{}' takes variable '{}' for {}, but it is {}", node.type(), node.name(), bound.name,
                             Name(*dtype), Name(bound.spec.dtype));
  }
  return {};
}

Status ConcreteGraph::InferCall(const Node& node) {
  std::vector<KnownArgument> inputs;
  for (const Output& input : node.inputs()) {
    const int v = value(input);
    KnownArgument known{spec(v), constant(v)};
    if (variable(v) >= 0) known.variable = binding(v).spec.dtype;
    inputs.push_back(std::move(known));
  }
  const std::string where = DescribeNode(node);
  const StatusOr<std::vector<TensorSpec>> outputs = ConcreteOutputs(node, *graph_, inputs, *options_);
  if (!outputs.ok()) return Annotate(outputs.status(), where);
  for (size_t port = 0; port < node.outputs().size(); ++port) {
    Value& result = values_[static_cast<size_t>(first_value_[static_cast<size_t>(node.id())]) + port];
    if (result.spec.dtype != DType::kResource) {
      RIVULET_RETURN_IF_ERROR(SetShape(node, static_cast<int>(port), (*outputs)[port].shape));
      continue;
    }
    const int passed = PassedInput(node, *graph_, static_cast<int>(port));
    if (passed < 0)
      return Unimplemented(
          "{}: output {} is a handle, but not always that of one input; a program must know which variable it is",
          where, port);
    result.variable = variable(value(node.input(passed)));
    result.spec.shape = spec(value(node.input(passed))).shape;
  }
  return {};
}

Status ConcreteGraph::InferShapes(const Node& node) {
  // A read has the bound variable's shape; a PlaceholderWithDefault without feed has its default's shape.
  if (StructuralKind(node.type()) == StructuralOp::kRead || node.type() == "PlaceholderWithDefault") {
    return SetShape(node, 0, spec(value(node.input(0))).shape);
  }
  std::vector<const TensorSpec*> inputs;
  std::vector<const Tensor*> constants;
  for (const Output& input : node.inputs()) {
    // Constants are passed too: the shape from a Reshape or a Fill is the value of an input, which may be known here
    // although it was unknown when the graph was built.
    inputs.push_back(&spec(value(input)));
    constants.push_back(constant(value(input)));
  }
  ConcreteInference inference(*graph_, node, std::move(inputs), std::move(constants));
  if (node.op().shape) {
    const Status inferred = node.op().shape(inference);
    if (!inferred.ok()) {
      const std::string where = DescribeNode(node);
      return ExplainShapeError(
          {node.op(), node.name(), where, node.attrs(), node.inputs(), graph_},
          [this](Output input) -> const Shape& { return spec(value(input)).shape; }, inference, inferred);
    }
  }
  for (size_t port = 0; port < node.outputs().size(); ++port) {
    RIVULET_RETURN_IF_ERROR(SetShape(node, static_cast<int>(port), inference.output(static_cast<int>(port))));
  }
  return {};
}

Status ConcreteGraph::SetShape(const Node& node, int port, const Shape& inferred) {
  Value& result = values_[static_cast<size_t>(first_value_[static_cast<size_t>(node.id())] + port)];
  if (result.feed >= 0) return {};
  if (result.spec.dtype == DType::kVariant) {  // unknown facts about a list are checked when it is read
    result.spec.shape = inferred;
    return {};
  }
  // The shape in the graph is a promise that is merged, never replaced: a feed that contradicts a declared shape causes
  // an error here, not in a kernel.
  const std::string what = fmt::format("output {} of {} '{}'", port, node.type(), node.name());
  const StatusOr<Shape> merged = Shape::Merge(result.spec.shape, inferred);
  if (!merged.ok()) {
    return InvalidArgument("{} is {} with these feeds, but {} in the graph", what, inferred.ToString(),
                           result.spec.shape.ToString());
  }
  RIVULET_RETURN_IF_ERROR(CheckConcrete(*merged, what));
  if (SizeOf(result.spec.dtype) == 0)
    return Unimplemented("{} is {}, which a program cannot hold", what, Name(result.spec.dtype));
  result.spec.shape = *merged;
  return {};
}

NodeView ConcreteGraph::View(const Node& node, ViewStorage& storage) const {
  storage = {};
  for (const Output& input : node.inputs()) {
    const int v = value(input);
    if (variable(v) >= 0) {
      storage.variables.push_back(signature_->variables[static_cast<size_t>(variable(v))].spec);
    } else {
      storage.inputs.push_back(spec(v));
      storage.constants.push_back(constant(v));
    }
  }
  const int first = first_value_[static_cast<size_t>(node.id())];
  for (size_t port = 0; port < node.outputs().size(); ++port)
    storage.outputs.push_back(spec(first + static_cast<int>(port)));
  return {node,   storage.inputs,   storage.outputs, storage.variables, storage.constants, random_index(node),
          graph_, &options_->passes};
}

// Folding runs the op's own kernel instead of a separate evaluator, so that a folded value has the bits that the run
// would have computed. It is limited in all respects (results, scratch, no state, no variables), because an untrusted
// graph must not make the compiler work or allocate without end; other nodes are computed in the run.
void ConcreteGraph::Fold(const Node& node, const CompileOptions& options) {
  if (node.op().stateful || node.outputs().empty()) return;
  const int first = first_value_[static_cast<size_t>(node.id())];
  for (size_t port = 0; port < node.outputs().size(); ++port) {
    if (feed(first + static_cast<int>(port)) >= 0) return;
  }
  if (node.type() == "ShapeN") {
    for (size_t port = 0; port < node.outputs().size(); ++port) {
      const size_t result = static_cast<size_t>(first) + port;
      values_[result].constant =
          ShapeFact("Shape", values_[result].spec.dtype, spec(value(node.input(static_cast<int>(port)))).shape);
    }
    return;
  }
  if (!node.inputs().empty() && variable(value(node.input(0))) < 0) {
    Tensor fact = ShapeFact(node.type(), spec(first).dtype, spec(value(node.input(0))).shape);
    if (!fact.empty()) {
      values_[static_cast<size_t>(first)].constant = std::move(fact);
      return;
    }
  }
  for (size_t port = 0; port < node.outputs().size(); ++port)
    if (node.outputs()[port].dtype == DType::kVariant) return;  // handles have no meaning outside of a run
  size_t input_bytes = 0, output_bytes = 0;
  for (const Output& input : node.inputs()) {
    const Tensor* known = constant(value(input));
    if (known == nullptr) return;
    input_bytes += known->bytes();
  }
  // Without the pass, folds only values that kernels and shapes need at compile time: small integers.
  const auto is_small = [](const TensorSpec& spec) {
    return (spec.dtype == DType::kInt32 || spec.dtype == DType::kInt64) && spec.shape.elements() <= 256;
  };
  if (!options.passes.Runs("fold_constants") && !is_small(spec(first))) return;
  std::vector<Tensor> outputs;
  for (size_t port = 0; port < node.outputs().size(); ++port) {
    const TensorSpec& output = spec(first + static_cast<int>(port));
    output_bytes += TensorBytes(output);
  }
  // A small constant must not become a large one in every copy of the program; results that are not larger than their
  // inputs may always fold.
  if (output_bytes > std::max(options.passes.max_folded_bytes, input_bytes)) return;
  for (size_t port = 0; port < node.outputs().size(); ++port) {
    const TensorSpec& output = spec(first + static_cast<int>(port));
    outputs.emplace_back(output.dtype, output.shape);
  }
  if (StructuralKind(node.type()) == StructuralOp::kView) {
    const Tensor& source = *constant(value(node.input(0)));
    if (source.bytes() != outputs[0].bytes()) return;
    if (source.bytes() > 0) std::memcpy(outputs[0].data(), source.data(), source.bytes());
  } else {
    // A missing or failing kernel is reported when the program binds or runs it. Values known before a run are computed
    // on the host, whatever device the program is for.
    KernelPolicy on_host = options.kernels;
    on_host.device = Device::kCpu;
    ViewStorage storage;
    const auto prepared = PrepareKernel(View(node, storage), on_host);
    if (!prepared.ok() || prepared->scratch_bytes > kFoldingScratchBytes) return;
    std::vector<std::byte*> in, out;
    for (const Output& input : node.inputs()) in.push_back(constant(value(input))->view().data);
    for (Tensor& output : outputs) out.push_back(output.data());
    AlignedBuffer scratch(prepared->scratch_bytes);
    const std::unique_ptr<KernelState> state = prepared->kernel->NewState();
    KernelContext context;
    context.inputs = in;
    context.outputs = out;
    context.scratch = scratch.data();
    context.state = state.get();
    if (!prepared->kernel->Run(context).ok()) return;
  }
  for (size_t port = 0; port < outputs.size(); ++port)
    values_[static_cast<size_t>(first) + port].constant = std::move(outputs[port]);
}

}  // namespace rivulet
