#include "dataflow/session/run_plan.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>
#include <unordered_map>

#include "dataflow/session/cut_call.h"
#include "dataflow/session/growing_lists.h"
#include "engine/base/nearest.h"
#include "engine/graph/function.h"
#include "engine/graph/function_call.h"
#include "engine/graph/op.h"
#include "engine/graph/variable_name.h"
#include "engine/program/kernel.h"
#include "engine/program/structural_ops.h"

namespace rivulet {
namespace {

// Limit for untrusted graphs: every node has a bit for each asynchronous op, so memory grows with the product of both
// numbers.
constexpr size_t kMaxAsyncOps = 4096;

// The place of a node's computation.
enum class Place {
  kNowhere,   // a handle
  kAnywhere,  // known at compile time: in every part that uses it
  kPart,
  kAsync
};

// A program cannot wait in the middle, but a queue may block forever. So all nodes that depend on an asynchronous op
// must be in a program that starts after it, and independent nodes must not be in that program. The set of asynchronous
// ops that a node depends on decides both: nodes with equal sets can start at the same time and lose nothing by being
// together. A part comes after all parts whose sets it contains, so parts can never wait for each other in a cycle,
// which other rules for cutting would have to check.
class Planner {
 public:
  Planner(std::shared_ptr<const Graph> graph, const RunNames& names) : graph_(std::move(graph)), names_(names) {
    plan_ = std::make_shared<RunPlan>();
    plan_->graph = graph_;
  }

  StatusOr<std::shared_ptr<const RunPlan>> Run() {
    RIVULET_RETURN_IF_ERROR(Resolve());
    FindNeeded();
    if (names_.feeds_come_later || HasAsync() || HasSeveralDevices()) {
      RIVULET_RETURN_IF_ERROR(Cut());
    } else {
      OnePart();
    }
    return std::shared_ptr<const RunPlan>(std::move(plan_));
  }

 private:
  size_t Id(const Node* node) const { return static_cast<size_t>(node->id()); }

  Status Resolve() {
    for (const std::string& name : names_.feeds) {
      RIVULET_ASSIGN_OR_RETURN(const Output output, graph_->FindOutput(name));
      if (FeedOf(output) >= 0) return InvalidArgument("tensor '{}' is fed twice", name);
      if (output.dtype() == DType::kVariant)
        return InvalidArgument("feed '{}' is a variant, which means something within one run only; feed a tensor",
                               name);
      feeds_.push_back(output);
      plan_->feed_specs.push_back({output.dtype(), output.shape()});
    }
    for (const std::string& name : names_.fetches) {
      RIVULET_ASSIGN_OR_RETURN(const Output output, graph_->FindOutput(name));
      if (output.dtype() == DType::kResource)
        return InvalidArgument(
            "fetch '{}' is a handle, which has no value{}", name,
            ResourceHandleOf(output)->type() == "VarHandleOp" ? "; fetch its ReadVariableOp instead" : "");
      if (output.dtype() == DType::kVariant)
        return InvalidArgument(
            "fetch '{}' is a variant, which means something within one run only; fetch a tensor that is made of it (of "
            "a list its TensorListStack)",
            name);
      fetches_.push_back(output);
    }
    for (const std::string& name : names_.targets) {
      Node* node = graph_->Find(name);
      if (node == nullptr) return graph_->FindOutput(name).status();  // the error names the nearest
      targets_.push_back(node);
    }
    if (fetches_.empty() && targets_.empty()) return InvalidArgument("a run needs a fetch or a target");
    return absl::OkStatus();
  }

  // There are few feeds; a search is cheaper than a table of all values.
  int FeedOf(const Output& output) const {
    const auto found = std::find(feeds_.begin(), feeds_.end(), output);
    return found == feeds_.end() ? -1 : static_cast<int>(found - feeds_.begin());
  }

  // Whether all outputs are fed: the node does not run, and its successors depend on its feeds.
  bool IsFed(const Node* node) const {
    for (size_t port = 0; port < node->outputs().size(); ++port)
      if (FeedOf({const_cast<Node*>(node), static_cast<int>(port)}) < 0) return false;
    return !node->outputs().empty();
  }

  // order_: the nodes that the run needs, inputs first.
  void FindNeeded() {
    std::vector<bool> needed(graph_->nodes().size());
    std::vector<Node*> roots;
    for (const Output& fetch : fetches_)
      if (FeedOf(fetch) < 0) roots.push_back(fetch.node);
    // A fed target does not run, so its inputs are not needed for it.
    std::erase_if(targets_, [&](const Node* target) { return IsFed(target); });
    roots.insert(roots.end(), targets_.begin(), targets_.end());
    std::vector<Node*> stack = roots;
    while (!stack.empty()) {
      Node* node = stack.back();
      stack.pop_back();
      if (needed[Id(node)]) continue;
      needed[Id(node)] = true;
      for (const Output& input : node->inputs())
        if (FeedOf(input) < 0) stack.push_back(input.node);
      for (Node* before : node->control_inputs())
        if (!IsFed(before)) stack.push_back(before);
    }
    for (Node* node : graph_->TopologicalOrder(roots))
      if (needed[Id(node)]) order_.push_back(node);
  }

  std::string DeviceOf(const Node* node) const { return names_.placed ? node->device() : std::string(); }

  bool HasSeveralDevices() const {
    return names_.placed && std::any_of(order_.begin(), order_.end(),
                                        [&](const Node* node) { return node->device() != order_[0]->device(); });
  }
  bool HasAsync() const {
    return std::any_of(order_.begin(), order_.end(), [this](const Node* node) {
      return AsyncOpRegistry::Global().Has(node->type()) || DynamicRun(*node) != nullptr || IsCutCall(*node);
    });
  }

  // The function for a node with sizes that depend on values; nullptr if its sizes are known.
  static const AsyncFn* DynamicRun(const Node& node) {
    return HasDynamicSizes(node) ? AsyncOpRegistry::Global().FindDynamic(node.type()) : nullptr;
  }

  bool IsCutCall(const Node& node) const { return RunsFunctions(node.type()) && MustBeCut(*graph_, node); }

  StatusOr<std::shared_ptr<const CutCall>> PlanCall(const Node& node) {
    auto cut = std::make_shared<CutCall>();
    cut->call = DescribeFunctionCall(node.type(), node.attrs());
    cut->index = static_cast<uint32_t>(std::max(0, RandomIndex(&node)));
    for (size_t i = 0; i < cut->call.functions.size(); ++i) {
      RIVULET_ASSIGN_OR_RETURN(CutBody body, BodyOfCut(*graph_, node, cut->call, i));
      cut->functions.push_back(std::move(body.function));
      if (body.fetches.empty() && body.targets.empty()) continue;
      const RunNames names{std::move(body.feeds), std::move(body.fetches), std::move(body.targets)};
      StatusOr<std::shared_ptr<const RunPlan>> plan = PlanRun(std::move(body.graph), names);
      if (!plan.ok()) return Annotate(plan.status(), fmt::format("function '{}'", cut->call.functions[i]));
      for (const PlanAsync& async : (*plan)->asyncs)
        if (AsyncOpRegistry::Global().Has(async.node->type()))
          return Unimplemented("{} '{}' may wait, and a function may not contain it: '{}'", async.node->type(),
                               async.node->name(), cut->call.functions[i]);
      cut->functions.back().plan = *std::move(plan);
    }
    return std::shared_ptr<const CutCall>(std::move(cut));
  }

  std::vector<VariableUse> Uses(const Graph& graph, std::span<Node* const> nodes) const {
    return VariableUses(graph, std::vector<const Node*>(nodes.begin(), nodes.end()));
  }

  // Uses the graph unchanged, so that names in errors and listings are the
  // user's. This is the usual and fast case: no copy, no values between
  // steps, and compiled programs are shared by all runs with the same names.
  void OnePart() {
    plan_->whole = true;
    PlanPart part;
    part.graph = graph_;
    part.feeds = names_.feeds;
    part.fetches = names_.fetches;
    part.targets = names_.targets;
    part.variables = Uses(*graph_, order_);
    if (!order_.empty()) part.device = order_.back()->device();
    for (size_t i = 0; i < feeds_.size(); ++i) {
      part.inputs.push_back(NewValue());
      ++plan_->uses.back();
      plan_->feeds.push_back(part.inputs.back());
    }
    for (size_t i = 0; i < fetches_.size(); ++i) {
      part.outputs.push_back(NewValue());
      ++plan_->uses.back();
      plan_->fetches.push_back(part.outputs.back());
    }
    plan_->parts.push_back(std::move(part));
    plan_->steps.push_back({});
  }

  int NewValue() {
    plan_->uses.push_back(0);
    return plan_->num_values++;
  }

  // ---- several parts

  // Sets of steps to wait for: bits by the index of the asynchronous op or feed.
  // Bits packed in words, because nodes unite the sets of all their inputs: with trees of names this would be the
  // slowest part of planning.
  using Waits = std::vector<uint64_t>;
  static void Unite(Waits& to, const Waits& from) {
    if (to.size() < from.size()) to.resize(from.size());
    for (size_t i = 0; i < from.size(); ++i) to[i] |= from[i];
  }
  static void Insert(Waits& to, size_t bit) {
    if (to.size() <= bit / 64) to.resize(bit / 64 + 1);
    to[bit / 64] |= uint64_t{1} << (bit % 64);
  }

  // Nodes known at compile time are copied to every part that uses them.
  // If one part computed them for others, they would arrive as feeds, and
  // shapes, axes or sizes of tensors in those parts would be unknown.
  Place PlaceOf(const Node& node) const {
    if (node.type() == "VarHandleOp" || AsyncOpRegistry::Global().FindResource(node.type()) != nullptr)
      return Place::kNowhere;
    if (StructuralKind(node.type()) == StructuralOp::kView && node.outputs()[0].dtype == DType::kResource)
      return Place::kNowhere;
    if (AsyncOpRegistry::Global().Find(node.type()) != nullptr || IsCutCall(node)) return Place::kAsync;
    if (node.op().stateful || node.outputs().empty() || !node.control_inputs().empty()) return Place::kPart;
    if (node.type() == "Const" || node.type() == "Shape" || node.type() == "ShapeN" || node.type() == "Size" ||
        node.type() == "Rank")
      return Place::kAnywhere;
    if (node.inputs().empty()) return Place::kPart;
    // A program never can, even with known inputs.
    if (DynamicRun(node) != nullptr && !KernelRegistry::Global().Has(node.type(), Device::kCpu)) return Place::kAsync;
    for (const Output& input : node.inputs())
      if (FeedOf(input) >= 0 || place_[Id(input.node)] != Place::kAnywhere)
        return DynamicRun(node) != nullptr ? Place::kAsync : Place::kPart;
    return Place::kAnywhere;
  }

  Status Cut() {
    place_.resize(graph_->nodes().size(), Place::kNowhere);
    waits_.resize(graph_->nodes().size());
    async_of_.resize(graph_->nodes().size(), -1);
    part_of_.resize(graph_->nodes().size(), -1);
    size_t bits = 0;
    for (size_t i = 0; i < feeds_.size(); ++i) {
      feed_values_.push_back(NewValue());
      plan_->feeds.push_back(feed_values_.back());
    }
    if (names_.feeds_come_later) bits = feeds_.size();
    if (feeds_.size() > kMaxAsyncOps) return ResourceExhausted("a run of {} feeds is too large", feeds_.size());
    for (Node* node : order_) {
      Place& place = place_[Id(node)] = PlaceOf(*node);
      Waits& waits = waits_[Id(node)];
      for (const Output& input : node->inputs()) {
        if (const int feed = FeedOf(input); feed >= 0) {
          if (names_.feeds_come_later) Insert(waits, static_cast<size_t>(feed));
        } else {
          Unite(waits, After(input.node));
        }
      }
      for (Node* before : node->control_inputs()) {
        if (!IsFed(before)) {
          Unite(waits, After(before));
        } else if (names_.feeds_come_later) {
          for (size_t port = 0; port < before->outputs().size(); ++port)
            Insert(waits, static_cast<size_t>(FeedOf(before->output(static_cast<int>(port)))));
        }
      }
      if (place == Place::kAsync || (place == Place::kNowhere && node->type() != "VarHandleOp" && IsTarget(node))) {
        if (plan_->asyncs.size() == kMaxAsyncOps)
          return ResourceExhausted("a run of more than {} asynchronous ops is too large", kMaxAsyncOps);
        async_of_[Id(node)] = static_cast<int>(plan_->asyncs.size());
        async_bit_.push_back(bits++);
        asyncs_.push_back(node);
        const AsyncFn* run = place == Place::kAsync ? AsyncOpRegistry::Global().Find(node->type()) : nullptr;
        if (run == nullptr && place == Place::kAsync) run = DynamicRun(*node);
        plan_->asyncs.push_back({node, run, nullptr, {}, {}, {}});
        if (run == nullptr && place == Place::kAsync) {
          RIVULET_ASSIGN_OR_RETURN(plan_->asyncs.back().call, PlanCall(*node));
        }
      } else if (place == Place::kPart) {
        // The device is part of the key, because a part is compiled for one device; edges between devices are
        // asynchronous ops in any case.
        const auto [known, inserted] =
            part_by_key_.try_emplace(std::pair(DeviceOf(node), waits), static_cast<int>(members_.size()));
        if (inserted) members_.emplace_back();
        part_of_[Id(node)] = known->second;
        members_[static_cast<size_t>(known->second)].push_back(node);
      }
    }
    // Values that are needed outside of all parts: a constant that is fetched or sent. Constants used only by parts
    // have no separate part, but such a constant must be computed in one.
    for (const Output& fetch : fetches_)
      if (FeedOf(fetch) < 0) GiveHome(fetch.node);
    for (Node* target : targets_) GiveHome(target);
    for (Node* node : asyncs_)
      for (const Output& input : node->inputs())
        if (FeedOf(input) < 0) GiveHome(input.node);

    // First builds all parts, with placeholders for their inputs; then it is known which values other parts use.
    plan_->parts.resize(members_.size());
    before_.resize(members_.size() + asyncs_.size() + (names_.feeds_come_later ? feeds_.size() : 0));
    for (size_t part = 0; part < members_.size(); ++part) RIVULET_RETURN_IF_ERROR(BuildPart(part));
    for (size_t async = 0; async < asyncs_.size(); ++async) ConnectAsync(async);
    for (const Output& fetch : fetches_) plan_->fetches.push_back(Use(fetch));
    for (const auto& [output, value] : values_) {
      if (const int async = async_of_[static_cast<size_t>(output.first)]; async >= 0)
        plan_->asyncs[static_cast<size_t>(async)].outputs[static_cast<size_t>(output.second)] = value;
    }
    // Outputs of parts are known now: values that others use.
    for (const auto& [output, value] : values_) {
      const size_t id = static_cast<size_t>(output.first);
      const int part = part_of_[id];
      if (async_of_[id] >= 0 || part < 0) continue;
      PlanPart& made_by = plan_->parts[static_cast<size_t>(part)];
      made_by.outputs.push_back(value);
      made_by.fetches.push_back(graph_->nodes()[id]->output(output.second).name());
    }
    // A part with only NoOps just joins control edges, and a part without outputs and targets made lists that other
    // parts make again. Both remain as steps, because others wait for them, but there is nothing to run.
    for (size_t part = 0; part < members_.size(); ++part) {
      PlanPart& made = plan_->parts[part];
      made.nothing =
          made.fetches.empty() &&
          (made.targets.empty() || std::all_of(members_[part].begin(), members_[part].end(), [](const Node* node) {
             return node->type() == "NoOp" || node->type() == "Const";
           }));
    }
    return Order();
  }

  bool IsTarget(const Node* node) const { return std::find(targets_.begin(), targets_.end(), node) != targets_.end(); }

  // The steps that successors of `node` must wait for.
  Waits After(const Node* node) const {
    Waits waits = waits_[Id(node)];
    if (async_of_[Id(node)] >= 0) Insert(waits, async_bit_[static_cast<size_t>(async_of_[Id(node)])]);
    return waits;
  }

  void GiveHome(Node* node) {
    if (place_[Id(node)] != Place::kAnywhere || part_of_[Id(node)] >= 0) return;
    const auto [known, inserted] =
        part_by_key_.try_emplace(std::pair(DeviceOf(node), waits_[Id(node)]), static_cast<int>(members_.size()));
    if (inserted) members_.emplace_back();
    part_of_[Id(node)] = known->second;
    members_[static_cast<size_t>(known->second)].push_back(node);
  }

  size_t StepOfPart(int part) const { return static_cast<size_t>(part); }
  size_t StepOfAsync(int async) const { return members_.size() + static_cast<size_t>(async); }
  size_t StepOfFeed(int feed) const { return members_.size() + asyncs_.size() + static_cast<size_t>(feed); }

  // The value of a tensor between steps, with its count of uses increased.
  int Use(const Output& output) {
    int value = 0;
    if (const int feed = FeedOf(output); feed >= 0) {
      value = feed_values_[static_cast<size_t>(feed)];
    } else {
      const auto [known, inserted] = values_.try_emplace(std::pair(output.node->id(), output.port), plan_->num_values);
      if (inserted) NewValue();
      value = known->second;
    }
    ++plan_->uses[static_cast<size_t>(value)];
    return value;
  }
  void WaitFor(size_t step, const Output& output) {
    if (const int feed = FeedOf(output); feed >= 0) {
      if (names_.feeds_come_later) before_[step].insert(StepOfFeed(feed));
    } else {
      WaitFor(step, output.node);
    }
  }
  void WaitFor(size_t step, const Node* node) {
    if (IsFed(node)) {
      for (size_t port = 0; port < node->outputs().size(); ++port)
        WaitFor(step, Output{const_cast<Node*>(node), static_cast<int>(port)});
    } else if (async_of_[Id(node)] >= 0) {
      before_[step].insert(StepOfAsync(async_of_[Id(node)]));
    } else if (part_of_[Id(node)] >= 0 && StepOfPart(part_of_[Id(node)]) != step) {
      before_[step].insert(StepOfPart(part_of_[Id(node)]));
    }
  }

  // A part's graph while it is built.
  struct PartBuilder {
    Graph graph;
    PlanPart* part = nullptr;
    size_t index = 0;
    std::map<std::pair<const Node*, int>, Output> inputs;  // output in the whole graph → placeholder
    std::unordered_map<const Node*, Node*> copies;
  };

  Status BuildPart(size_t index) {
    PlanPart& part = plan_->parts[index];
    PartBuilder builder{{}, &part, index, {}, {}};
    for (const auto& [name, function] : graph_->functions())
      RIVULET_RETURN_IF_ERROR(builder.graph.AddFunction(function));
    std::vector<const Node*> order;
    // Members in the order of the whole graph; constants added last in members_ are out of order.
    std::vector<Node*>& members = members_[index];
    std::stable_sort(members.begin(), members.end(), [&](const Node* a, const Node* b) { return Rank(a) < Rank(b); });
    for (Node* node : members) {
      RIVULET_RETURN_IF_ERROR(CopyNode(node, builder).status());
      part.device = node->device();
      if (IsTarget(node) || IsWaitedForElsewhere(node)) part.targets.push_back(node->name());
    }
    part.graph = std::make_shared<const Graph>(std::move(builder.graph));
    for (const auto& node : part.graph->nodes()) order.push_back(node.get());
    part.variables = VariableUses(*part.graph, order);
    return absl::OkStatus();
  }

  // Computed at first use: a run of one part never needs it.
  size_t Rank(const Node* node) {
    if (rank_.empty()) {
      rank_.resize(graph_->nodes().size());
      for (size_t i = 0; i < order_.size(); ++i) rank_[Id(order_[i])] = i;
    }
    return rank_[Id(node)];
  }

  // By a control edge from another step.
  bool IsWaitedForElsewhere(const Node* node) {
    if (waited_for_.empty()) {
      waited_for_.resize(graph_->nodes().size());
      for (const Node* after : order_)
        for (const Node* before : after->control_inputs())
          if (part_of_[Id(before)] < 0 || part_of_[Id(before)] != part_of_[Id(after)]) waited_for_[Id(before)] = true;
    }
    return waited_for_[Id(node)];
  }

  StatusOr<Node*> CopyNode(Node* node, PartBuilder& builder) {
    if (const auto known = builder.copies.find(node); known != builder.copies.end()) return known->second;
    NodeSpec spec{node->name(), std::string(node->type()), {}, {}, node->attrs(), node->source_line(), node->device()};
    for (const Output& input : node->inputs()) {
      RIVULET_ASSIGN_OR_RETURN(const Output copy, CopyInput(node, input, builder));
      spec.inputs.push_back(copy);
    }
    for (Node* before : node->control_inputs()) {
      if (part_of_[Id(before)] == static_cast<int>(builder.index)) {
        spec.control_inputs.push_back(builder.copies.at(before));
      } else {
        WaitFor(builder.index, before);
      }
    }
    // Random ops draw by their index in the whole graph. The part has fewer nodes, so the index is stored as an
    // attribute: a run draws the same whether it is cut or not.
    if (const int index = RandomIndex(node); index >= 0) spec.attrs["_random_index"] = int64_t{index};
    // A handle identified by its node's name keeps that name.
    RIVULET_ASSIGN_OR_RETURN(Node * copy, builder.graph.AddNode(std::move(spec)));
    builder.copies.emplace(node, copy);
    return copy;
  }

  StatusOr<Output> CopyInput(const Node* consumer, const Output& input, PartBuilder& builder) {
    const bool fed = FeedOf(input) >= 0;
    if (!fed) {
      const Place place = place_[Id(input.node)];
      if (place == Place::kNowhere) {
        if (ResourceHandleOf(input)->type() != "VarHandleOp")
          return Unimplemented(
              "{} '{}' runs within a program and cannot take a handle from {} '{}', which is no variable",
              consumer->type(), consumer->name(), ResourceHandleOf(input)->type(), ResourceHandleOf(input)->name());
        RIVULET_ASSIGN_OR_RETURN(Node * copy, CopyNode(input.node, builder));
        return copy->output(input.port);
      }
      if (place == Place::kAsync && input.dtype() == DType::kResource)
        return Unimplemented(
            "{} '{}' takes a handle from {} '{}', in which a size follows from values; take it from the variable "
            "itself",
            consumer->type(), consumer->name(), input.node->type(), input.node->name());
      if (place == Place::kAnywhere || part_of_[Id(input.node)] == static_cast<int>(builder.index)) {
        RIVULET_ASSIGN_OR_RETURN(Node * copy, CopyNode(input.node, builder));
        return copy->output(input.port);
      }
      // A list stays in its program's memory, so another part that needs it must make it again.
      if (place == Place::kPart && input.dtype() == DType::kVariant) {
        if (!CanRunAgain(*input.node))
          return Unimplemented(
              "{} '{}' takes the list '{}' behind an op whose size follows from values, and {} '{}' cannot run again "
              "there: it has an effect, draws random numbers or takes a variable",
              consumer->type(), consumer->name(), input.name(), input.node->type(), input.node->name());
        RIVULET_ASSIGN_OR_RETURN(Node * copy, CopyNode(input.node, builder));
        return copy->output(input.port);
      }
    }
    Output& placeholder = builder.inputs[{input.node, input.port}];
    if (placeholder) return placeholder;
    std::string name = fmt::format("in/{}", input.node->name());
    if (input.port > 0) name += fmt::format("_{}", input.port);
    // Avoids names of the user's graph, not only of the part: an error that names "in/x" must not seem to refer to the
    // user's node.
    while (graph_->Find(name) != nullptr || builder.graph.Find(name) != nullptr) name += "_";
    RIVULET_ASSIGN_OR_RETURN(
        Node * made,
        builder.graph.AddNode({name, "Placeholder", {}, {}, {{"dtype", input.dtype()}, {"shape", input.shape()}}}));
    placeholder = made->output();
    builder.part->feeds.push_back(name);
    builder.part->inputs.push_back(Use(input));
    WaitFor(builder.index, input);
    return placeholder;
  }

  int RandomIndex(const Node* node) {
    if (random_index_.empty()) random_index_ = RandomIndices(*graph_);
    return random_index_[Id(node)];
  }

  void ConnectAsync(size_t index) {
    PlanAsync& async = plan_->asyncs[index];
    const size_t step = StepOfAsync(static_cast<int>(index));
    async.outputs.assign(async.node->outputs().size(), -1);
    for (const Output& input : async.node->inputs()) {
      if (input.dtype() == DType::kResource) {
        // The parts of a cut call look up their variables themselves.
        if (async.call == nullptr) async.handles.push_back(ResourceHandleOf(input));
      } else {
        async.inputs.push_back(Use(input));
        WaitFor(step, input);
      }
    }
    for (Node* before : async.node->control_inputs()) WaitFor(step, before);
  }

  // Sorts steps so that each comes after its dependencies; parts that access one variable, with a write among the
  // accesses, run in that order. Parts that share a variable must run in the order that one program would give them,
  // although no edge requires it: a program orders reads and writes by position, and cutting must not change results.
  // The topological order below follows the ranks of the whole graph, and accesses are chained along it, readers in
  // parallel and writers alone.
  Status Order() {
    const size_t count = before_.size();
    std::vector<std::vector<size_t>> after(count);
    std::vector<size_t> open(count, 0);
    const auto edge = [&](size_t from, size_t to) {
      after[from].push_back(to);
      ++open[to];
    };
    for (size_t step = 0; step < count; ++step)
      for (size_t earlier : before_[step]) edge(earlier, step);
    // A receive comes after its send, although there is no edge.
    // Otherwise the receive could be ordered first by rank, and a
    // part after it be chained before the part that feeds the send.
    std::map<std::string, size_t> sends;
    const auto rendezvous = [](const Node& node) {
      const std::string* name = node.FindAttr<std::string>("tensor_name");
      const std::string* from = node.FindAttr<std::string>("send_device");
      const std::string* to = node.FindAttr<std::string>("recv_device");
      return name == nullptr || from == nullptr || to == nullptr ? std::string()
                                                                 : fmt::format("{};{};{}", *from, *to, *name);
    };
    for (size_t i = 0; i < asyncs_.size(); ++i)
      if (asyncs_[i]->type() == "_Send") sends[rendezvous(*asyncs_[i])] = StepOfAsync(static_cast<int>(i));
    for (size_t i = 0; i < asyncs_.size(); ++i) {
      if (asyncs_[i]->type() != "_Recv") continue;
      if (const auto send = sends.find(rendezvous(*asyncs_[i])); send != sends.end())
        edge(send->second, StepOfAsync(static_cast<int>(i)));
    }
    using Ready = std::pair<size_t, size_t>;  // rank of the first node, step
    std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
    const auto rank = [&](size_t step) {
      if (step < members_.size()) return members_[step].empty() ? size_t{0} : Rank(members_[step].front());
      if (step < members_.size() + asyncs_.size()) return Rank(asyncs_[step - members_.size()]);
      return size_t{0};
    };
    for (size_t step = 0; step < count; ++step)
      if (open[step] == 0) ready.emplace(rank(step), step);
    std::vector<size_t> order;
    while (!ready.empty()) {
      const size_t step = ready.top().second;
      ready.pop();
      order.push_back(step);
      for (size_t next : after[step])
        if (--open[next] == 0) ready.emplace(rank(next), next);
    }
    if (order.size() != count) return InvalidArgument("the sends and receives of the graph wait for each other");

    struct Touched {
      size_t writer = 0;
      bool written = false;
      std::vector<size_t> readers;
    };
    std::map<std::string, Touched> touched;
    for (size_t step : order) {
      std::vector<VariableUse> uses;
      if (step < members_.size()) {
        uses = plan_->parts[step].variables;
      } else if (step < members_.size() + asyncs_.size() && plan_->asyncs[step - members_.size()].call != nullptr) {
        uses = Uses(*graph_, std::span(&asyncs_[step - members_.size()], 1));
      }
      for (const VariableUse& use : uses) {
        Touched& variable = touched[std::string(VariableName(*use.handle))];
        if (variable.written) before_[step].insert(variable.writer);
        if (use.written) {
          for (size_t reader : variable.readers) before_[step].insert(reader);
          variable.readers.clear();
          variable.written = true;
          variable.writer = step;
        } else {
          variable.readers.push_back(step);
        }
      }
    }
    std::vector<int> position(count);
    for (size_t i = 0; i < count; ++i) position[order[i]] = static_cast<int>(i);
    plan_->steps.resize(count);
    for (size_t step = 0; step < count; ++step) {
      PlanStep& made = plan_->steps[static_cast<size_t>(position[step])];
      made.waits = static_cast<int>(before_[step].size());
      if (step < members_.size()) {
        made.kind = PlanStep::Kind::kPart;
        made.index = static_cast<int>(step);
      } else if (step < members_.size() + asyncs_.size()) {
        made.kind = PlanStep::Kind::kAsync;
        made.index = static_cast<int>(step - members_.size());
      } else {
        made.kind = PlanStep::Kind::kFeed;
        made.index = static_cast<int>(step - members_.size() - asyncs_.size());
      }
      for (size_t earlier : before_[step])
        plan_->steps[static_cast<size_t>(position[earlier])].before.push_back(position[step]);
    }
    return absl::OkStatus();
  }

  std::shared_ptr<const Graph> graph_;
  const RunNames& names_;
  std::shared_ptr<RunPlan> plan_;
  std::vector<Output> feeds_, fetches_;
  std::vector<Node*> targets_;
  std::vector<Node*> order_;
  std::vector<size_t> rank_;  // by node id: position in order_

  std::vector<Place> place_;   // by node id
  std::vector<Waits> waits_;   // by node id: steps to wait for before it can run
  std::vector<int> async_of_;  // by node id
  std::vector<int> part_of_;   // by node id
  std::vector<bool> waited_for_;
  std::vector<int> random_index_;
  std::vector<Node*> asyncs_;
  std::vector<size_t> async_bit_;
  std::map<std::pair<std::string, Waits>, int> part_by_key_;
  std::vector<std::vector<Node*>> members_;    // of each part
  std::map<std::pair<int, int>, int> values_;  // by node id and port
  std::vector<int> feed_values_;
  std::vector<std::set<size_t>> before_;  // of each step
};

}  // namespace

StatusOr<std::shared_ptr<const RunPlan>> PlanRun(std::shared_ptr<const Graph> graph, const RunNames& names) {
  RIVULET_ASSIGN_OR_RETURN(GatheredLists lists, GatherGrowingLists(std::move(graph)));
  if (lists.gathered.empty()) return Planner(std::move(lists.graph), names).Run();
  RunNames instead = names;
  for (std::vector<std::string>* const wanted : {&instead.fetches, &instead.targets})
    for (std::string& name : *wanted)
      if (const auto gather = lists.gathered.find(name);
          gather != lists.gathered.end() && std::ranges::find(names.feeds, name) == names.feeds.end())
        name = gather->second;
  return Planner(std::move(lists.graph), instead).Run();
}

}  // namespace rivulet
