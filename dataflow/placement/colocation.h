// Groups of nodes that must share a device, by union-find. A group joins nodes with an explicit constraint (_class),
// handles with all their users, and tensors that are valid only where they were made. For errors it records why any two
// nodes are together.
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

// The names of a node's groups (the text after "loc:@" in its attribute _class).
std::vector<std::string> ColocationGroups(const Node& node);

class Colocation {
 public:
  struct Options {
    bool soft = false;  // if constraints of one group differ in type or number, ignore these
  };
  // INVALID_ARGUMENT: a node's device is not a device name; or two colocated nodes have clashing constraints (the
  // message has the chain of nodes that joins them). As in TensorFlow, a user of a handle goes to the handle's device;
  // a different constraint of the user is ignored and reported in `notes`.
  static StatusOr<Colocation> Build(const Graph& graph, const Options& options);

  int Group(const Node& node) const { return Root(node.id()); }  // the id of the node that represents the group
  const DeviceName& constraint(int group) const { return constraints_[static_cast<size_t>(group)]; }
  // Members by id, in order of creation.
  const std::vector<int>& members(int group) const { return members_[static_cast<size_t>(group)]; }
  // "'c' is colocated with 'b' (_class), 'b' uses the handle 'a'"; "" if both are one node.
  std::string Chain(const Node& from, const Node& to) const;
  // Returns true if the node has its own constraint, and it was not ignored.
  bool Constrained(const Node& node) const { return !own_[static_cast<size_t>(node.id())].empty(); }
  // A node of the group with a constraint, preferably `first`; nullptr if there is none.
  const Node* Constrained(int group, const Node* first = nullptr) const;
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  struct Tie {  // reason why two nodes are together
    int other = 0;
    std::string why;  // "{} is colocated with {} (_class)"
  };
  explicit Colocation(const Graph& graph, const Options& options) : graph_(&graph), options_(options) {}
  int Root(int id) const;
  // `user` is the node that may yield; null: none.
  Status Join(const Node& a, const Node& b, std::string why, const Node* user);
  Status Clash(const Node& a, const Node& b, const Status& how, const std::string& why) const;
  std::string Show(const Node& node) const;

  const Graph* graph_;
  Options options_;
  mutable std::vector<int> parent_;
  std::vector<DeviceName> constraints_;  // by root
  std::vector<DeviceName> own_;          // by node: its own constraint, unless ignored
  std::vector<std::vector<int>> members_;
  std::vector<std::vector<Tie>> ties_;  // a forest
  std::vector<std::string> notes_;
};

}  // namespace rivulet
