// Merkle trees: over the updates of one version, and over the records of a run. A root commits to all leaves, and a
// path of log2(n) digests proves that one is among them. The tree is that of RFC 9162 (certificate transparency,
// version 2), section 2.1:
//
//   leaf(bytes)       = SHA-256(0x00 ‖ bytes)
//   node(left, right) = SHA-256(0x01 ‖ left ‖ right)
//
// A tree of n > 1 leaves divides them at the largest power of two below n. The root of no leaves is SHA-256 of nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "federated/tasks/task.h"

namespace rivulet::records {

// Of one folded update: the leaf of u32 length ‖ task ‖ identity. `identity`: of the upload
// (federated/updates/block_crcs.h); nullopt: it was handed over in one process and has none, and no bytes stand for it.
Digest LeafOf(const TaskId& task, const std::optional<Digest>& identity);
// Of one record in the tree over a run's records: the leaf of its digest.
Digest LeafOf(const Digest& record);

struct MerklePath {
  int64_t index = 0;                  // of the leaf
  int64_t size = 0;                   // leaves of the tree
  std::vector<Digest> siblings = {};  // from the leaf upwards
  bool operator==(const MerklePath&) const = default;
};

// Immutable; two digests a leaf.
class MerkleTree {
 public:
  explicit MerkleTree(std::vector<Digest> leaves);
  int64_t size() const;
  Digest root() const;
  MerklePath PathOf(int64_t index) const;  // 0 <= index < size()

 private:
  std::vector<std::vector<Digest>> levels_;  // from the leaves up to the root alone; empty: no leaves
};

// The root of a tree that grows, without its leaves: at most 64 digests.
class GrowingTree {
 public:
  void Add(const Digest& leaf);
  int64_t size() const { return size_; }
  Digest root() const;  // O(log size)

 private:
  int64_t size_ = 0;
  std::vector<Digest> whole_;  // roots of the full subtrees, from the widest: one for each bit of the size
};

// The root of the tree that has `leaf` at the end of `path` (RFC 9162, 2.1.3.2). INVALID_ARGUMENT: no tree of that size
// has such a path.
StatusOr<Digest> RootOf(const Digest& leaf, const MerklePath& path);

}  // namespace rivulet::records
