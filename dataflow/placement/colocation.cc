#include "dataflow/placement/colocation.h"

#include <algorithm>
#include <deque>
#include <map>

#include "engine/base/join.h"
#include "engine/graph/inference.h"
#include "engine/graph/op.h"

namespace rivulet {
namespace {

// Longer chains are shown only by their ends.
constexpr size_t kShownTies = 12;

// Identity of a handle's resource: "container/name".
std::string ResourceName(const Node& node) {
  if (node.outputs().size() != 1 || node.outputs()[0].dtype != DType::kResource || !node.inputs().empty()) return "";
  const std::string* shared = node.FindAttr<std::string>("shared_name");
  if (shared == nullptr) return "";
  const std::string* container = node.FindAttr<std::string>("container");
  return fmt::format("{}/{}", container == nullptr || container->empty() ? "localhost" : *container,
                     shared->empty() ? node.name() : *shared);
}

}  // namespace

std::vector<std::string> ColocationGroups(const Node& node) {
  std::vector<std::string> groups;
  const auto* classes = node.FindAttr<std::vector<std::string>>(kColocationAttr);
  if (classes == nullptr) return groups;
  for (const std::string& text : *classes)
    if (text.starts_with(kColocationPrefix)) groups.push_back(text.substr(kColocationPrefix.size()));
  return groups;
}

// Union-find with path compression and union by size, so
// that graphs of any size take practically linear time.
int Colocation::Root(int id) const {
  int root = id;
  while (parent_[static_cast<size_t>(root)] != root) root = parent_[static_cast<size_t>(root)];
  while (parent_[static_cast<size_t>(id)] != root) id = std::exchange(parent_[static_cast<size_t>(id)], root);
  return root;
}

std::string Colocation::Show(const Node& node) const {
  const DeviceName& own = own_[static_cast<size_t>(node.id())];
  return own.empty() ? DescribeNode(node) : fmt::format("{}, constrained to '{}',", DescribeNode(node), own.ToString());
}

const Node* Colocation::Constrained(int group, const Node* first) const {
  if (first != nullptr && !own_[static_cast<size_t>(first->id())].empty()) return first;
  for (int id : members(group))
    if (!own_[static_cast<size_t>(id)].empty()) return graph_->nodes()[static_cast<size_t>(id)].get();
  return nullptr;
}

// The ties form a forest, because a tie is added only when two groups are joined. So there is exactly one path between
// two nodes of a group: the reason why they are together. It is computed only for errors and logs.
std::string Colocation::Chain(const Node& from, const Node& to) const {
  if (&from == &to) return "";
  std::vector<int> came(graph_->nodes().size(), -1);
  std::deque<int> queue{from.id()};
  came[static_cast<size_t>(from.id())] = from.id();
  while (!queue.empty() && came[static_cast<size_t>(to.id())] < 0) {
    const int id = queue.front();
    queue.pop_front();
    for (const Tie& tie : ties_[static_cast<size_t>(id)]) {
      if (came[static_cast<size_t>(tie.other)] >= 0) continue;
      came[static_cast<size_t>(tie.other)] = id;
      queue.push_back(tie.other);
    }
  }
  if (came[static_cast<size_t>(to.id())] < 0) return "";
  std::vector<std::string> ties;
  for (int id = to.id(); id != from.id(); id = came[static_cast<size_t>(id)]) {
    const auto& around = ties_[static_cast<size_t>(id)];
    ties.push_back(std::ranges::find(around, came[static_cast<size_t>(id)], &Tie::other)->why);
  }
  std::ranges::reverse(ties);
  if (ties.size() > kShownTies) {
    const std::string last = ties.back();
    const size_t left_out = ties.size() - kShownTies;
    ties.resize(kShownTies - 1);
    ties.push_back(fmt::format("({} more)", left_out));
    ties.push_back(last);
  }
  return rivulet::Join(ties, ", ");
}

Status Colocation::Clash(const Node& a, const Node& b, const Status& how, const std::string& why) const {
  // The clashing nodes may be far from the tie that joins their groups. Within a group, constraints are compatible, so
  // there are few different ones.
  const auto culprits = [&](const Node& near) {
    std::map<std::string, const Node*> nodes;
    for (int id : members(Root(near.id())))
      if (const DeviceName& own = own_[static_cast<size_t>(id)]; !own.empty())
        nodes.emplace(own.ToString(), graph_->nodes()[static_cast<size_t>(id)].get());
    return nodes;
  };
  const Node *first = &a, *second = &b;
  bool found = false;
  for (const auto& [asked, x] : culprits(a)) {
    for (const auto& [other, y] : culprits(b)) {
      if (found || AreCompatible(own_[static_cast<size_t>(x->id())], own_[static_cast<size_t>(y->id())])) continue;
      first = x;
      second = y;
      found = true;
    }
  }
  std::vector<std::string> chain;
  for (std::string part : {Chain(*first, a), why, Chain(b, *second)})
    if (!part.empty()) chain.push_back(std::move(part));
  return InvalidArgument(
      "{} and {} must share a device, but {}: {}; change one constraint, drop the colocation, or allow soft placement",
      Show(*first), Show(*second), Message(how), rivulet::Join(chain, ", "));
}

// A user of a handle yields to the handle, as in TensorFlow: state cannot be on two devices, and a model that puts its
// layers on a device means the computation. Only a single node may yield; a group would move nodes with it that did not
// request that device.
Status Colocation::Join(const Node& a, const Node& b, std::string why, const Node* user) {
  int x = Root(a.id()), y = Root(b.id());
  if (x == y) return absl::OkStatus();
  StatusOr<DeviceName> merged = MergeDevices(constraint(x), constraint(y), options_.soft);
  if (!merged.ok() && user != nullptr && members(Root(user->id())).size() == 1) {
    notes_.push_back(fmt::format("the constraint '{}' of '{}' is left aside: it uses the handle '{}', which is on '{}'",
                                 constraint(Root(user->id())).ToString(), user->name(), (user == &a ? b : a).name(),
                                 constraint(user == &a ? y : x).ToString()));
    own_[static_cast<size_t>(user->id())] = {};
    constraints_[static_cast<size_t>(Root(user->id()))] = {};
    merged = MergeDevices(constraint(x), constraint(y), options_.soft);
  }
  if (!merged.ok()) return Clash(a, b, merged.status(), why);
  if (members(x).size() < members(y).size()) std::swap(x, y);
  parent_[static_cast<size_t>(y)] = x;
  constraints_[static_cast<size_t>(x)] = *std::move(merged);
  auto& into = members_[static_cast<size_t>(x)];
  auto& from = members_[static_cast<size_t>(y)];
  into.insert(into.end(), from.begin(), from.end());
  from = {};
  ties_[static_cast<size_t>(a.id())].push_back({b.id(), why});
  ties_[static_cast<size_t>(b.id())].push_back({a.id(), std::move(why)});
  return absl::OkStatus();
}

StatusOr<Colocation> Colocation::Build(const Graph& graph, const Options& options) {
  Colocation groups(graph, options);
  const size_t count = graph.nodes().size();
  groups.ties_.resize(count);
  for (const auto& node : graph.nodes()) {
    StatusOr<DeviceName> own = ParseDeviceName(node->device());
    if (!own.ok()) return Annotate(own.status(), DescribeNode(*node));
    groups.parent_.push_back(node->id());
    groups.members_.push_back({node->id()});
    groups.constraints_.push_back(*own);
    groups.own_.push_back(*std::move(own));
  }
  // Handles come first, so that their users yield.
  std::map<std::string, const Node*> resources;
  for (const auto& node : graph.nodes()) {
    if (const std::string name = ResourceName(*node); !name.empty()) {
      const auto [first, added] = resources.emplace(name, node.get());
      if (!added)
        RIVULET_RETURN_IF_ERROR(groups.Join(*node, *first->second,
                                            fmt::format("'{}' and '{}' are handles of one resource '{}'", node->name(),
                                                        first->second->name(), name.substr(name.find('/') + 1)),
                                            nullptr));
    }
  }
  for (const auto& node : graph.nodes()) {
    for (const Output& input : node->inputs()) {
      if (input.dtype() == DType::kResource) {
        RIVULET_RETURN_IF_ERROR(groups.Join(*node, *input.node,
                                            fmt::format("'{}' uses the handle '{}'", node->name(), input.node->name()),
                                            node.get()));
      } else if (input.dtype() == DType::kVariant) {
        RIVULET_RETURN_IF_ERROR(groups.Join(
            *node, *input.node,
            fmt::format("'{}' uses the variant '{}', which cannot be sent", node->name(), input.name()), node.get()));
      }
    }
  }
  // A group has the name of a node; if that node is missing, the group joins the nodes that name it. Pruned graphs lack
  // nodes, perhaps the one that names the group.
  std::map<std::string, const Node*> absent;
  for (const auto& node : graph.nodes()) {
    for (const std::string& group : ColocationGroups(*node)) {
      const Node* leader = graph.Find(group);
      if (leader == node.get()) continue;
      if (leader == nullptr) {
        const auto [first, added] = absent.emplace(group, node.get());
        if (added) continue;
        leader = first->second;
        RIVULET_RETURN_IF_ERROR(groups.Join(
            *node, *leader,
            fmt::format("'{}' and '{}' are of one colocation group '{}'", node->name(), leader->name(), group),
            nullptr));
        continue;
      }
      RIVULET_RETURN_IF_ERROR(groups.Join(
          *node, *leader, fmt::format("'{}' is colocated with '{}'", node->name(), leader->name()), nullptr));
    }
  }
  // The order after joins depends on group sizes; errors
  // and placements need the members in order of creation.
  for (auto& members : groups.members_) std::ranges::sort(members);
  return groups;
}

}  // namespace rivulet
