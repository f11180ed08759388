#include "federated/records/merkle_tree.h"

#include <utility>

#include "engine/base/check.h"

namespace rivulet::records {
namespace {

constexpr uint8_t kLeaf = 0, kNode = 1;

Digest NodeOf(const Digest& left, const Digest& right) {
  Sha256 hash;
  hash.UpdateU8(kNode).Update(left.AsBytes()).Update(right.AsBytes());
  return std::move(hash).Finish();
}

}  // namespace

Digest LeafOf(const TaskId& task, const std::optional<Digest>& identity) {
  Sha256 hash;
  hash.UpdateU8(kLeaf).UpdateU32(static_cast<uint32_t>(task.size())).Update(task);
  if (identity) hash.Update(identity->AsBytes());
  return std::move(hash).Finish();
}

Digest LeafOf(const Digest& record) {
  Sha256 hash;
  hash.UpdateU8(kLeaf).Update(record.AsBytes());
  return std::move(hash).Finish();
}

// As a counter adds one: a carry joins two subtrees of one width.
void GrowingTree::Add(const Digest& leaf) {
  Digest node = leaf;
  for (int64_t bits = size_; bits % 2 == 1; bits /= 2) {
    node = NodeOf(whole_.back(), node);
    whole_.pop_back();
  }
  whole_.push_back(node);
  ++size_;
}

Digest GrowingTree::root() const {
  if (whole_.empty()) return Sha256Of("");
  Digest node = whole_.back();
  for (size_t i = whole_.size() - 1; i > 0; --i) node = NodeOf(whole_[i - 1], node);
  return node;
}

// Level by level, where a last one without a neighbour goes up as it is: the same tree as by division, since what
// stands left of any node is a whole number of its level's widths.
MerkleTree::MerkleTree(std::vector<Digest> leaves) {
  if (leaves.empty()) return;
  levels_.push_back(std::move(leaves));
  while (levels_.back().size() > 1) {
    const std::vector<Digest>& below = levels_.back();
    std::vector<Digest> level;
    level.reserve((below.size() + 1) / 2);
    for (size_t i = 0; i < below.size(); i += 2) {
      level.push_back(i + 1 < below.size() ? NodeOf(below[i], below[i + 1]) : below[i]);
    }
    levels_.push_back(std::move(level));
  }
}

int64_t MerkleTree::size() const { return levels_.empty() ? 0 : std::ssize(levels_.front()); }

Digest MerkleTree::root() const { return levels_.empty() ? Sha256Of("") : levels_.back().front(); }

MerklePath MerkleTree::PathOf(int64_t index) const {
  RIVULET_CHECK(index >= 0 && index < size(), "a tree of {} leaves has none at {}", size(), index);
  MerklePath path = {.index = index, .size = size()};
  auto at = static_cast<size_t>(index);
  for (const std::vector<Digest>& level : levels_) {
    if (const size_t sibling = at ^ 1; sibling < level.size()) path.siblings.push_back(level[sibling]);
    at /= 2;
  }
  return path;
}

StatusOr<Digest> RootOf(const Digest& leaf, const MerklePath& path) {
  const auto wrong = [&] {
    return InvalidArgument("a path of {} digests leads to no leaf {} of a tree of {}", path.siblings.size(), path.index,
                           path.size);
  };
  if (path.index < 0 || path.index >= path.size) return wrong();
  int64_t at = path.index, last = path.size - 1;
  Digest root = leaf;
  for (const Digest& sibling : path.siblings) {
    if (last == 0) return wrong();
    if (at % 2 == 1 || at == last) {
      root = NodeOf(sibling, root);
      while (at % 2 == 0 && at != 0) at /= 2, last /= 2;
    } else {
      root = NodeOf(root, sibling);
    }
    at /= 2, last /= 2;
  }
  if (last != 0) return wrong();
  return root;
}

}  // namespace rivulet::records
