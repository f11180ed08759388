#include "engine/models/lora.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "engine/base/join.h"
#include "engine/base/nearest.h"
#include "engine/base/wildcard.h"
#include "engine/graph/scope.h"
#include "engine/graph/variable_name.h"
#include "engine/graphdef/graph_def.h"
#include "engine/layers/dropout.h"
#include "engine/models/lora_attributes.h"
#include "engine/models/weight_uses.h"
#include "engine/variables/variables.h"
#include "proto/graph/graph.pb.h"

namespace rivulet {
namespace {

using LoraDims = std::vector<int64_t>;

// The names of variables that a pattern matches. NOT_FOUND: none.
StatusOr<std::vector<std::string>> NamesLike(const ModelDef& model, const std::string& pattern) {
  std::vector<std::string> all, matching;
  for (const ModelVariable& variable : model.variables) {
    all.push_back(variable.name);
    if (MatchesWildcard(pattern, variable.name)) matching.push_back(variable.name);
  }
  if (matching.empty())
    return NotFound("no variable matches '{}'.{} Variables are {}", pattern, DidYouMean(pattern, all), Join(all, ", "));
  return matching;
}

// A variable that gets an adapter, and its products.
struct AdaptedWeight {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<WeightUse> uses;
};

// Of a variable without products `uses` is empty.
StatusOr<AdaptedWeight> Adapt(const Graph& graph, const std::string& name) {
  AdaptedWeight weight{.name = name};
  Node* const handle = FindHandle(graph, name);
  if (handle == nullptr) return Internal("the graph has no variable '{}'", name);
  weight.dtype = VariableDType(*handle);
  if (handle->outputs()[0].shape.rank() < 2 || !IsFloating(weight.dtype)) return weight;
  WeightUses uses = WeightUsesOf(graph, handle);
  if (uses.recurrent != nullptr)
    return InvalidArgument(
        "'{}' is a weight of the recurrent cell '{}' ({}), which has no adapter; name the other layers", name,
        uses.recurrent->name(), uses.recurrent->type());
  const bool convolves = uses.unfollowed != nullptr && uses.why.find("convolution") != std::string_view::npos;
  if (uses.unfollowed != nullptr && (convolves || !uses.products.empty()))
    return InvalidArgument("'{}' has no adapter: '{}' ({}) {}; leave it out of the targets", name,
                           uses.unfollowed->name(), uses.unfollowed->type(), uses.why);
  weight.uses = std::move(uses.products);
  return weight;
}

StatusOr<std::vector<AdaptedWeight>> FindTargets(const ModelDef& model, const std::vector<std::string>& patterns) {
  std::map<std::string, AdaptedWeight> found;
  std::map<const Node*, std::string> taken;  // products, and the weight of each
  for (const std::string& pattern : patterns) {
    RIVULET_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesLike(model, pattern));
    bool any = false;
    for (const std::string& name : names) {
      if (!found.contains(name)) {
        RIVULET_ASSIGN_OR_RETURN(AdaptedWeight weight, Adapt(model.graph, name));
        if (weight.uses.empty()) continue;
        for (const WeightUse& use : weight.uses) {
          const auto [other, added] = taken.emplace(use.product, name);
          if (!added)
            return InvalidArgument(
                "'{}' multiplies the variables '{}' and '{}', and only one of them can have an "
                "adapter; name one of them",
                use.product->name(), other->second, name);
        }
        found.emplace(name, std::move(weight));
      }
      any = true;
    }
    if (!any)
      return InvalidArgument("'{}' matches {}, and no product has one of them as its weight", pattern,
                             Join(names, ", "));
  }
  std::vector<AdaptedWeight> weights;  // as variables are declared
  for (const ModelVariable& variable : model.variables)
    if (const auto weight = found.find(variable.name); weight != found.end())
      weights.push_back(std::move(weight->second));
  return weights;
}

std::set<const Node*> Below(const Graph& graph, std::vector<Node*> roots) {
  const std::vector<Node*> order = graph.TopologicalOrder(roots);
  return {order.begin(), order.end()};
}

// The nodes that evaluation runs.
StatusOr<std::set<const Node*>> EvaluationNodes(const ModelDef& model) {
  std::vector<Node*> roots;
  std::vector<std::string> tensors = {model.eval_loss};
  for (const auto& [name, tensor] : model.metrics) tensors.push_back(tensor);
  for (const std::string& tensor : tensors) {
    RIVULET_ASSIGN_OR_RETURN(const Output output, model.graph.FindOutput(tensor));
    roots.push_back(output.node);
  }
  for (const char* scores : {"logits", "prediction"})
    if (Node* node = model.graph.Find(scores); node != nullptr) roots.push_back(node);
  return Below(model.graph, std::move(roots));
}

// Copies the nodes that training and evaluation share after the products, so that adapters can differ there.
Status SeparateTraining(ModelDef& model, const std::set<const Node*>& products) {
  Graph& graph = model.graph;
  RIVULET_ASSIGN_OR_RETURN(const std::set<const Node*> evaluation, EvaluationNodes(model));
  RIVULET_ASSIGN_OR_RETURN(const Output loss, graph.FindOutput(model.train_loss));
  std::map<const Node*, Node*> copies;
  Node* root = loss.node;
  for (Node* node : graph.TopologicalOrder({&root, 1})) {
    std::vector<Output> inputs(node->inputs().begin(), node->inputs().end());
    bool behind = false;
    for (Output& input : inputs) {
      behind = behind || products.contains(input.node);
      const auto copy = copies.find(input.node);
      if (copy != copies.end()) input.node = copy->second;
      behind = behind || copy != copies.end();
    }
    if (!behind) continue;
    if (!evaluation.contains(node)) {
      for (size_t i = 0; i < inputs.size(); ++i)
        if (inputs[i] != node->inputs()[i])
          RIVULET_RETURN_IF_ERROR(graph.ReplaceInput(node, static_cast<int>(i), inputs[i]));
      continue;
    }
    NodeSpec spec{.name = fmt::format("lora_training/{}", node->name()), .op = std::string(node->type())};
    spec.inputs = std::move(inputs);
    spec.control_inputs.assign(node->control_inputs().begin(), node->control_inputs().end());
    spec.attrs = node->attrs();
    spec.source_line = node->source_line();
    spec.device = node->device();
    RIVULET_ASSIGN_OR_RETURN(copies[node], graph.AddNode(std::move(spec)));
  }
  const auto rename = [&](std::string& tensor) {
    const StatusOr<Output> output = graph.FindOutput(tensor);
    if (!output.ok()) return;
    if (const auto copy = copies.find(output->node); copy != copies.end())
      tensor = copy->second->output(output->port).name();
  };
  rename(model.train_loss);
  for (auto& [name, tensor] : model.outputs) rename(tensor);
  return absl::OkStatus();
}

// Builds the adapters of one weight.
class AdapterBuilder {
 public:
  AdapterBuilder(ModelDef& model, const LoraOptions& options, const std::set<const Node*>& training)
      : model_(model), options_(options), training_(training) {
    const auto rank = static_cast<double>(options.rank);
    scale_ = options.alpha / (options.rslora ? std::sqrt(rank) : rank);
  }

  Status Build(const AdaptedWeight& weight) {
    const WeightUse& first = weight.uses.front();
    const Scope scope = Scope(model_.graph);
    const LoraDims batch = DimsOf(first, first.batch), in = DimsOf(first, first.in), out = DimsOf(first, first.out);
    const LoraDims rank = {options_.rank};
    // A table's row is one term of its product with a one-hot token.
    const double summed = first.kind == ProductKind::kRows ? 1 : static_cast<double>(first.Elements(first.in));
    const double bound = 1 / std::sqrt(std::max(1.0, summed));
    VariableOptions of_a{.more = LoraAttributes(weight.name, first, options_.rank, scale_, options_.dropout)};
    if (options_.freeze_a) of_a.segment = "frozen";
    const std::string name_a = weight.name + "/lora_A", name_b = weight.name + "/lora_B";
    const Output a = Variable(scope, name_a, Joined({batch, in, rank}), RandomUniform(-bound, bound), of_a);
    const Output b = Variable(scope, name_b, Joined({batch, rank, out}), Zeros());
    RIVULET_RETURN_IF_ERROR(scope.status());
    RIVULET_RETURN_IF_ERROR(Initialise({name_a, name_b}));
    for (const WeightUse& use : weight.uses) {
      const bool same = use.layout == first.layout && use.kind == first.kind && use.in == first.in;
      if (!same && !(IsPlainMatrix(use) && IsPlainMatrix(first)))
        return InvalidArgument(
            "'{}' feeds '{}' and '{}' in layouts that one adapter cannot serve; leave it out of the "
            "targets",
            weight.name, first.product->name(), use.product->name());
      const bool turned = !same && AxisSummed(use) != AxisSummed(first);
      RIVULET_RETURN_IF_ERROR(Attach(weight.name, use, a, b, turned));
    }
    return absl::OkStatus();
  }

 private:
  static LoraDims DimsOf(const WeightUse& use, const LoraDims& axes) {
    LoraDims dims;
    for (const int64_t axis : axes) dims.push_back(use.layout.after.dim(static_cast<int>(axis)));
    return dims;
  }

  static Shape Joined(std::initializer_list<LoraDims> parts) {
    LoraDims dims;
    for (const LoraDims& part : parts) dims.insert(dims.end(), part.begin(), part.end());
    return Shape(std::move(dims));
  }

  // Whether it sees the variable as the matrix that it is, perhaps transposed.
  static bool IsPlainMatrix(const WeightUse& use) {
    return use.layout.before.rank() == 2 && use.layout.after == use.layout.transposed() &&
           (use.kind == ProductKind::kMatrix || use.kind == ProductKind::kRows);
  }
  // Of a plain matrix: the axis of the variable that is summed over.
  static int64_t AxisSummed(const WeightUse& use) { return use.layout.perm[static_cast<size_t>(use.in[0])]; }

  // The model may name another target than the one that Variable adds to.
  Status Initialise(const std::vector<std::string>& variables) {
    if (model_.init_target == kInitTarget) return absl::OkStatus();
    Node* const init = model_.graph.Find(model_.init_target);
    if (init == nullptr)
      return NotFound("the graph has no node '{}' that gives variables their first values", model_.init_target);
    for (const std::string& variable : variables)
      for (Node* node : model_.graph.Consumers(FindHandle(model_.graph, variable)->output()))
        if (node->type() == "AssignVariableOp") RIVULET_RETURN_IF_ERROR(model_.graph.AddControlInput(init, node));
    return absl::OkStatus();
  }

  // Consumers of the product read the sum instead. With dropout, those in training read a separate sum.
  Status Attach(const std::string& name, const WeightUse& use, Output a, Output b, bool turned) {
    const Output product = use.product->output();
    const std::vector<Node*> consumers = model_.graph.Consumers(product);
    const bool whole = training_.contains(use.product);
    std::vector<Node*> plain, dropped;
    for (Node* consumer : consumers)
      (options_.dropout > 0 && (whole || training_.contains(consumer)) ? dropped : plain).push_back(consumer);
    const Scope scope = Scope(model_.graph).SubScope(name + "/lora");
    if (turned) {
      const Output swapped = Ints(scope, {1, 0}, "swapped");
      const Output back = scope.Op("Transpose", {a, swapped}, {}, "A/turned");
      a = scope.Op("Transpose", {b, swapped}, {}, "B/turned");
      b = back;
    }
    if (product.dtype() != a.dtype()) {
      a = scope.Op("Cast", {a}, {{"DstT", product.dtype()}}, "A/cast");
      b = scope.Op("Cast", {b}, {{"DstT", product.dtype()}}, "B/cast");
    }
    if (!plain.empty()) {
      RIVULET_RETURN_IF_ERROR(Replace(product, Sum(scope, use, a, b, 0), plain, scope));
    }
    if (!dropped.empty()) {
      const Scope training = scope.SubScope("training");
      const auto rate = static_cast<float>(options_.dropout);
      RIVULET_RETURN_IF_ERROR(Replace(product, Sum(training, use, a, b, rate), dropped, training));
    }
    if (plain.empty() && dropped.empty()) Fetched(product, Sum(scope, use, a, b, 0));
    return scope.status();
  }

  Status Replace(Output product, Output sum, const std::vector<Node*>& consumers, const Scope& scope) {
    RIVULET_RETURN_IF_ERROR(scope.status());
    for (Node* consumer : consumers)
      for (size_t i = 0; i < consumer->inputs().size(); ++i)
        if (consumer->inputs()[i] == product)
          RIVULET_RETURN_IF_ERROR(model_.graph.ReplaceInput(consumer, static_cast<int>(i), sum));
    Fetched(product, sum);
    return absl::OkStatus();
  }

  // Tensors that are known by name.
  void Fetched(Output product, Output sum) {
    if (!sum) return;
    for (auto* named : {&model_.outputs, &model_.metrics})
      for (auto& [name, tensor] : *named)
        if (tensor == product.name()) tensor = sum.name();
  }

  // product + x · A · B · s, computed as product − (x · A · −s) · B. While B is zero, the subtracted product is +0,
  // which leaves every number unchanged, also −0. The factor is applied to the narrow tensor.
  Output Sum(const Scope& scope, const WeightUse& use, Output a, Output b, float dropout) const {
    const Output product = use.product->output();
    Output x = use.product->input(use.kind == ProductKind::kRows || use.input == 0 ? 1 : 0);
    if (dropout > 0 && use.kind != ProductKind::kRows) x = Dropout(scope, x, dropout);
    Output factor = scope.Const(static_cast<float>(-scale_), "factor");
    if (product.dtype() != DType::kFloat32) factor = scope.Op("Cast", {factor}, {{"DstT", product.dtype()}}, "scale");
    const auto scaled = [&](Output narrow) { return scope.Op("Mul", {narrow, factor}, {}, "scaled"); };
    return scope.Op("Sub", {product, Branch(scope, use, x, a, b, scaled)}, {}, "sum");
  }

  template <typename Scaled>
  Output Branch(const Scope& scope, const WeightUse& use, Output x, Output a, Output b, const Scaled& scaled) const {
    const Node& product = *use.product;
    const std::string op(product.type());
    switch (use.kind) {
      case ProductKind::kMatrix: {
        const bool plain = op == "MatMul";
        const std::string left = plain ? "transpose_a" : "adj_x", right = plain ? "transpose_b" : "adj_y";
        if (use.input == 1) {
          const Output narrow = scope.Op(op, {x, a}, {{left, product.attr<bool>(left)}, {right, false}}, "narrow");
          return scope.Op(op, {scaled(narrow), b}, {}, "product");
        }
        const Output narrow = scope.Op(op, {a, x}, {{left, true}, {right, product.attr<bool>(right)}}, "narrow");
        return scope.Op(op, {b, scaled(narrow)}, {{left, true}}, "product");
      }
      case ProductKind::kEinsum:
        return EinsumBranch(scope, use, x, a, b, scaled);
      case ProductKind::kRows: {
        // ResourceGather reads rows through a handle; here the value was already read.
        const Output axis = scope.Const(Tensor::Scalar<int32_t>(0), "axis");
        const Output narrow = scope.Op("GatherV2", {a, x, axis}, {}, "narrow");
        return scope.Op(narrow.shape().known_rank() && narrow.shape().rank() == 2 ? "MatMul" : "BatchMatMulV2",
                        {scaled(narrow), b}, {}, "product");
      }
      case ProductKind::kConvolution: {
        const int axes = use.layout.after.rank() - 2;
        const Output narrow = scope.Op(op, {x, a}, product.attrs(), "narrow");
        AttrMap attrs = product.attrs();
        const auto rank = static_cast<size_t>(axes + 2);
        attrs["strides"] = LoraDims(rank, 1);
        attrs["dilations"] = LoraDims(rank, 1);
        attrs["padding"] = std::string("VALID");
        attrs.erase("explicit_paddings");
        std::vector<int32_t> filter(static_cast<size_t>(axes), 1);
        filter.push_back(static_cast<int32_t>(options_.rank));
        filter.push_back(static_cast<int32_t>(use.layout.after.dim(axes + 1)));
        const Output point = scope.Op("Reshape", {b, Ints(scope, std::move(filter), "B/shape")}, {}, "B/filter");
        return scope.Op(op, {scaled(narrow), point}, std::move(attrs), "product");
      }
    }
    return {};
  }

  // "abc,cde->abde" of a weight cde: "abc,cz->abz" and "abz,zde->abde".
  template <typename Scaled>
  static Output EinsumBranch(const Scope& scope, const WeightUse& use, Output x, Output a, Output b,
                             const Scaled& scaled) {
    std::string equation = use.product->attr<std::string>("equation");
    std::erase(equation, ' ');
    const size_t comma = equation.find(','), arrow = equation.find("->");
    const std::string left = equation.substr(0, comma), right = equation.substr(comma + 1, arrow - comma - 1);
    const std::string result = equation.substr(arrow + 2);
    const std::string &weight = use.input == 0 ? left : right, &other = use.input == 0 ? right : left;
    char rank = 'a';
    while (equation.find(rank) != std::string::npos) ++rank;
    const auto labels = [&](const LoraDims& axes) {
      std::string text;
      for (const int64_t axis : axes) text += weight[static_cast<size_t>(axis)];
      return text;
    };
    const std::string batch = labels(use.batch), in = labels(use.in), out = labels(use.out);
    std::string kept;  // of x
    for (const char label : other)
      if (in.find(label) == std::string::npos) kept += label;
    const Output narrow = scope.Op(
        "Einsum", {x, a}, {{"equation", fmt::format("{},{}{}{}->{}{}", other, batch, in, rank, kept, rank)}}, "narrow");
    return scope.Op("Einsum", {scaled(narrow), b},
                    {{"equation", fmt::format("{}{},{}{}{}->{}", kept, rank, batch, rank, out, result)}}, "product");
  }

  static Output Ints(const Scope& scope, std::vector<int32_t> values, std::string_view name) {
    const auto size = static_cast<int64_t>(values.size());
    return scope.Const(Tensor::Of<int32_t>(Shape{size}, std::span<const int32_t>(values)), name);
  }

  ModelDef& model_;
  const LoraOptions& options_;
  const std::set<const Node*>& training_;
  double scale_ = 1;
};

// Freezes the variables of these names, and gives "logits" and "prediction", by which scores are known, to the sum
// where they were products. Attributes and names of a node do not change, so the graph is made anew.
Status FreezeBase(ModelDef& model, const std::set<std::string>& base, const std::map<std::string, std::string>& sums) {
  proto::GraphDef graph;
  if (!graph.ParseFromString(SerializeGraph(model.graph))) return Internal("the model's own graph cannot be read back");
  std::map<std::string, std::string, std::less<>> swapped;
  for (const auto& [product, sum] : sums) {
    swapped.emplace(product, sum);
    swapped.emplace(sum, product);
  }
  const auto swap = [&](std::string& reference) {
    const size_t begin = reference.starts_with('^') ? 1 : 0;
    const size_t end = std::min(reference.find(':'), reference.size());
    const auto other = swapped.find(std::string_view(reference).substr(begin, end - begin));
    if (other != swapped.end()) reference.replace(begin, end - begin, other->second);
  };
  for (auto& node : *graph.mutable_node()) {
    if (!swapped.empty()) {
      swap(*node.mutable_name());
      for (std::string& input : *node.mutable_input()) swap(input);
    }
    if (node.op() != "VarHandleOp") continue;
    const auto shared = node.attr().find("shared_name");
    const std::string& name =
        shared == node.attr().end() || shared->second.s().empty() ? node.name() : shared->second.s();
    if (base.contains(name)) (*node.mutable_attr())[kSegmentAttr].set_s("frozen");
  }
  RIVULET_ASSIGN_OR_RETURN(model.graph, ParseGraph(graph.SerializeAsString()));
  RIVULET_ASSIGN_OR_RETURN(model.variables, VariablesOf(model.graph));
  for (auto* named : {&model.outputs, &model.metrics})
    for (auto& [name, tensor] : *named) swap(tensor);
  std::erase_if(model.train_updates, [&](const std::string& update) {
    const Node* node = model.graph.Find(update);
    return node != nullptr && !node->inputs().empty() && node->input(0).node->type() == "VarHandleOp" &&
           base.contains(std::string(VariableName(*node->input(0).node)));
  });
  return absl::OkStatus();
}

}  // namespace

Status AddLora(ModelDef& model, const LoraOptions& options) {
  if (!model.has_graph()) return InvalidArgument("the model has no graph to put adapters into");
  if (options.rank < 1) return InvalidArgument("a rank of {}; it must be at least 1", options.rank);
  std::set<std::string> base;
  for (const ModelVariable& variable : model.variables)
    if (variable.segment != "local") base.insert(variable.name);
  for (const std::string& pattern : options.modules_to_save) {
    const auto names = NamesLike(model, pattern);
    if (!names.ok()) return Annotate(names.status(), "modules_to_save");
    for (const std::string& name : *names) base.erase(name);
  }
  RIVULET_ASSIGN_OR_RETURN(std::vector<AdaptedWeight> weights, FindTargets(model, options.targets));
  for (const AdaptedWeight& weight : weights)
    if (!base.contains(weight.name))
      return InvalidArgument("'{}' is to be trained as a whole, and to have an adapter; keep one", weight.name);

  std::set<const Node*> training;
  if (options.dropout > 0) {
    std::set<const Node*> products;
    for (const AdaptedWeight& weight : weights)
      for (const WeightUse& use : weight.uses) products.insert(use.product);
    RIVULET_RETURN_IF_ERROR(SeparateTraining(model, products));
    for (AdaptedWeight& weight : weights) {
      RIVULET_ASSIGN_OR_RETURN(weight, Adapt(model.graph, weight.name));
    }
    RIVULET_ASSIGN_OR_RETURN(const Output loss, model.graph.FindOutput(model.train_loss));
    training = Below(model.graph, {loss.node});
    RIVULET_ASSIGN_OR_RETURN(const std::set<const Node*> evaluation, EvaluationNodes(model));
    for (const Node* node : evaluation) training.erase(node);
  }
  AdapterBuilder builder(model, options, training);
  std::map<std::string, std::string> sums;
  for (const AdaptedWeight& weight : weights) {
    RIVULET_RETURN_IF_ERROR(builder.Build(weight));
    for (const WeightUse& use : weight.uses) {
      const std::string& name = use.product->name();
      if (name != "logits" && name != "prediction") continue;
      for (Node* consumer : model.graph.Consumers(use.product->output()))
        if (consumer->type() == "Sub" && !training.contains(consumer)) sums.emplace(name, consumer->name());
    }
  }
  return FreezeBase(model, base, sums);
}

}  // namespace rivulet
