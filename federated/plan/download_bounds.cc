#include "federated/plan/download_bounds.h"

#include <algorithm>

#include "engine/tensor/spec_bytes.h"

namespace rivulet {
namespace {

// Metadata of a file: the plan's name, digests, and per variable its shape and several copies of its name, escaped.
constexpr int64_t kFileBytes = 1 << 20, kVariableBytes = 1024, kNameRepeats = 32;
// Untrusted plans may declare layouts of any size; sums of a few such sizes must not overflow.
constexpr int64_t kLargest = int64_t{1} << 56;

int64_t Bounded(size_t bytes) { return static_cast<int64_t>(std::min<size_t>(bytes, kLargest)); }

}  // namespace

int64_t MaxModelBytes(const ModelLayout& layout) {
  const int64_t values = Bounded(layout.arena_bytes());
  int64_t bytes = kFileBytes + values + values / 8;  // a codec may add a scale to each block
  for (const Slice& slice : layout.slices()) bytes += kVariableBytes + kNameRepeats * std::ssize(slice.name);
  return bytes;
}

int64_t MaxBaseBytes(const ModelLayout& layout) {
  int64_t bytes = MaxModelBytes(layout);
  for (const VariableSpec& variable : layout.base_variables()) {
    bytes = std::min(bytes + Bounded(TensorBytes(variable.spec)), kLargest);
    bytes += kVariableBytes + kNameRepeats * std::ssize(variable.name);
  }
  return bytes;
}

int64_t MaxBroadcastBytes(const ModelLayout& layout) {
  return std::min(layout.parameters(), kLargest) * static_cast<int64_t>(sizeof(float));
}

// Each vector is at most as long as the arena. Besides the vectors in the plan, there are the model's local variables
// and the codecs' error feedback for each part.
int64_t MaxStateBytes(const Plan& plan) {
  const auto vectors = static_cast<int64_t>(plan.flat_names().state.size() + plan.aggregation().parts.size() + 1);
  const int64_t each = std::max<int64_t>(Bounded(plan.layout()->arena_bytes()), 1);
  int64_t bytes = kFileBytes + (vectors > kLargest / each ? kLargest : vectors * each);
  for (const Slice& slice : plan.layout()->slices()) bytes += kVariableBytes + std::ssize(slice.name);
  return bytes;
}

}  // namespace rivulet
