// A graph under edit by the passes: only the part that a signature needs, with all shapes known, consumers indexed, and
// an execution order. It starts as a ConcreteGraph and ends as a Graph.
//
// Invariants that every change keeps:
//   - Feeds, fetches and targets keep their names; such a node is `pinned`, and a replaced one stays as an
//     Identity of its replacement. A fed tensor is a Placeholder here.
//   - A node that waited for a replaced node, by data or by control, waits for its replacement and for the
//     inputs of the replaced node.
//   - Nodes run by `position`, as in the graph before: reads and writes of variables keep their order.
//   - Random ops keep their position among those of the whole graph, so that their draws stay the same.
// Edits cost only the nodes they touch, never a walk over the graph.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/graph/op.h"
#include "engine/program/concrete_graph.h"

namespace rivulet {

struct EditNode;

struct Edge {
  EditNode* node = nullptr;
  int port = 0;
  bool operator==(const Edge&) const = default;
  const TensorSpec& spec() const;
  DType dtype() const { return spec().dtype; }
  const Shape& shape() const { return spec().shape; }
};

struct EditNode {
  std::string name;
  const OpDef* op = nullptr;
  std::vector<Edge> inputs;
  std::vector<EditNode*> control_inputs;
  AttrMap attrs;
  std::vector<TensorSpec> outputs;
  std::string source_line, device;
  int64_t position = 0;  // nodes run in this order, equal ones in order of creation
  bool pinned = false;   // fed, fetched or a target
  bool fed = false;      // pinned, with an external value
  bool removed = false;

  // Maintained by the editor.
  int index = 0;
  std::vector<int> uses;         // data edges from each output
  int control_uses = 0;          // control edges
  std::vector<EditNode*> users;  // all former and current users, possibly repeated

  std::string_view type() const { return op->name; }
  Edge output(int port = 0) { return {this, port}; }
  template <typename T>
  const T* FindAttr(std::string_view attr) const {
    const auto found = attrs.find(std::string(attr));
    return found == attrs.end() ? nullptr : std::get_if<T>(&found->second);
  }
  int all_uses() const;
};
inline const TensorSpec& Edge::spec() const { return node->outputs[static_cast<size_t>(port)]; }

class GraphEditor {
 public:
  static StatusOr<GraphEditor> Create(const ConcreteGraph& graph, const Signature& signature);
  GraphEditor(GraphEditor&&) = default;

  // The remaining nodes, in execution order. A pass iterates over a copy, and skips nodes that were `removed`
  // meanwhile.
  std::vector<EditNode*> Nodes() const;
  size_t size() const { return alive_; }

  // The value of a Const; nullptr for other nodes.
  static const Tensor* Constant(Edge edge);

  // True if the edge's node may be merged or decomposed:
  // it is not pinned, has no side effect, and has one use.
  static bool OnlyUse(Edge edge);

  // Adds a node at the position of `beside`, after its inputs. `op` must be registered (see HasOp).
  EditNode* Add(std::string name, std::string_view op, std::vector<Edge> inputs, AttrMap attrs,
                std::vector<TensorSpec> outputs, const EditNode& beside);
  EditNode* AddConst(std::string name, Tensor value, const EditNode& beside);
  void SetInput(EditNode& node, size_t input, Edge edge);
  // Changes `node` to another op with other inputs; it keeps its name and control inputs.
  void Become(EditNode& node, std::string_view op, std::vector<Edge> inputs, AttrMap attrs);
  // Redirects all users of the single output of `node` to `edge`. Returns false, without changes, if it must stay: it
  // is fed, or keeping the order would need too many edges.
  bool Replace(EditNode& node, Edge edge);
  void AddControlInput(EditNode& node, EditNode& before);
  // Removes unused nodes that are not pinned. Returns their number.
  int Prune();

  // A function of the graph's library.
  const Function* FindFunction(std::string_view name) const;

  static bool HasOp(std::string_view op);
  std::string UniqueName(std::string_view wanted);

  // Errors are bugs of passes: INTERNAL.
  StatusOr<Graph> Finish() const;

 private:
  class Importer;

  GraphEditor() = default;
  EditNode* New(std::string name, std::string_view op, int64_t position);
  std::vector<EditNode*> ByPosition() const;
  void Use(EditNode* user, Edge edge);
  void Release(Edge edge);
  void Remove(EditNode& node);

  std::map<std::string, std::shared_ptr<const Function>> functions_;
  std::vector<std::unique_ptr<EditNode>> nodes_;
  std::unordered_set<std::string> names_;
  size_t alive_ = 0;
};

}  // namespace rivulet
