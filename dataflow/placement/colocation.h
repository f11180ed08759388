// Groups of nodes that must share a device, by union-find. A group joins nodes with an explicit constraint (_class),
// handles with all their users, and tensors that are meaningful only where they were made. For errors it keeps the
// reason why any two nodes are together.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/device_name.h"
#include "engine/graph/graph.h"

namespace rivulet {

inline constexpr std::string_view kColocationAttr = "_class";
inline constexpr std::string_view kColocationPrefix = "loc:@";

// The names of a node's groups (what follows "loc:@" in its attribute _class).
std::vector<std::string> ColocationGroups(const Node& node);

class Colocation {
 public:
  struct Options {
    bool soft = false;  // constraints of one group that differ in type or number leave it open
  };
  // INVALID_ARGUMENT: a device of a node that is no device name; two colocated nodes whose constraints clash, with the
  // chain of nodes that joins them. Like TensorFlow, a user of a handle goes where the handle is: its own constraint is
  // left aside where it differs (`notes` tells).
  static StatusOr<Colocation> Build(const Graph& graph, const Options& options);

  int Group(const Node& node) const { return Root(node.id()); }  // the id of a node that stands for all
  const DeviceName& constraint(int group) const { return constraints_[static_cast<size_t>(group)]; }
  // Members by id, in order of creation.
  const std::vector<int>& members(int group) const { return members_[static_cast<size_t>(group)]; }
  // "'c' is colocated with 'b' (_class), 'b' uses the handle 'a'"; "" for a node and itself.
  std::string Chain(const Node& from, const Node& to) const;
  // Whether the node has a constraint of its own that counts.
  bool Constrained(const Node& node) const { return !own_[static_cast<size_t>(node.id())].empty(); }
  // A node of the group that has one, preferably `first`; nullptr when none has.
  const Node* Constrained(int group, const Node* first = nullptr) const;
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  struct Tie {  // why two nodes are together
    int other = 0;
    std::string why;  // "{} is colocated with {} (_class)"
  };
  explicit Colocation(const Graph& graph, const Options& options) : graph_(&graph), options_(options) {}
  int Root(int id) const;
  // `user` marks the node whose own constraint gives way.
  Status Join(const Node& a, const Node& b, std::string why, const Node* user);
  Status Clash(const Node& a, const Node& b, const Status& how, const std::string& why) const;
  std::string Show(const Node& node) const;

  const Graph* graph_;
  Options options_;
  mutable std::vector<int> parent_;
  std::vector<DeviceName> constraints_;  // by root
  std::vector<DeviceName> own_;          // by node: what it asked for and still counts
  std::vector<std::vector<int>> members_;
  std::vector<std::vector<Tie>> ties_;  // a forest
  std::vector<std::string> notes_;
};

}  // namespace rivulet
