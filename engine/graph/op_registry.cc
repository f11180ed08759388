#include <algorithm>

#include "engine/base/check.h"
#include "engine/base/nearest.h"
#include "engine/graph/collected_ops.h"
#include "engine/graph/op.h"

namespace rivulet {

const AttrDef* OpDef::FindAttr(std::string_view attr_name) const {
  for (const AttrDef& attr : attrs)
    if (attr.name == attr_name) return &attr;
  return nullptr;
}

StatusOr<Shape> InferenceContext::WithRank(int i, int rank) const {
  const Shape& shape = input(i);
  if (!shape.known_rank()) return Shape(std::vector<int64_t>(static_cast<size_t>(rank), kUnknownDim));
  if (shape.rank() != rank)
    return InvalidArgument("input {} must have rank {}, but has shape {}", i, rank, shape.ToString());
  return shape;
}

std::vector<OpDef>*& internal::CollectedOps() {
  thread_local std::vector<OpDef>* collected = nullptr;
  return collected;
}

OpRegistry& OpRegistry::Global() {
  static OpRegistry registry;
  return registry;
}

void OpRegistry::Register(OpDef def) {
  if (std::vector<OpDef>* collected = internal::CollectedOps()) {
    collected->push_back(std::move(def));
    return;
  }
  const OpDef* earlier = Find(def.name);
  RIVULET_CHECK(earlier == nullptr, "Op '{}' is registered twice, at {} and at {}", def.name, earlier->registered_at,
                def.registered_at);
  ops_.push_back(std::make_unique<OpDef>(std::move(def)));
  by_name_.emplace(ops_.back()->name, ops_.back().get());
}

const OpDef* OpRegistry::Find(std::string_view name) const {
  const auto found = by_name_.find(std::string(name));
  return found == by_name_.end() ? nullptr : found->second;
}

StatusOr<const OpDef*> OpRegistry::Get(std::string_view name) const {
  if (const OpDef* op = Find(name)) return op;
  std::vector<std::string> names;
  for (const OpDef* op : All()) names.push_back(op->name);
  return NotFound("there is no op '{}'.{}", name, DidYouMean(name, names));
}

std::vector<const OpDef*> OpRegistry::All() const {
  std::vector<const OpDef*> all;
  for (const auto& op : ops_) all.push_back(op.get());
  std::sort(all.begin(), all.end(), [](const OpDef* a, const OpDef* b) { return a->name < b->name; });
  return all;
}

}  // namespace rivulet
