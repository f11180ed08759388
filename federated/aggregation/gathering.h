// Base of all rules: checks updates, keeps them by base version, counts each once and sums scalars. Its state can be
// saved, transferred and merged. A rule defines only the handling of parts.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "federated/aggregation/aggregation.h"
#include "federated/aggregation/fixed_point.h"
#include "federated/codecs/codec.h"

namespace rivulet {

// Tolerance for norms above spec().most_norm: each value of a clipped update was rounded once, by at most 2^-24 of
// itself.
inline constexpr double kNormRounding = 0x1p-20;

using PartCodecs = std::vector<std::unique_ptr<const Codec>>;
// Codecs of a spec's parts, in the spec's order. NOT_FOUND names the nearest codec.
StatusOr<PartCodecs> CodecsOf(const AggregationSpec& spec);

// Returns true if a version without updates is defined, with a mean of 0 in every part: plain sums over constants. A
// private version divides by the planned number of updates, so an empty cohort releases only noise.
bool IsDefinedWithoutUpdates(const AggregationSpec& spec);

class Gathering : public Aggregation {
 public:
  Status Check(const UpdateView& update, const Weights& weights) const override;
  StatusOr<Taken> Take(const UpdateView& update, const Weights& weights) override;
  std::vector<StatusOr<Taken>> TakeTogether(std::span<const UpdateView> updates,
                                            std::span<const Weights> weights) override;
  Status Check(const Partial& partial) const override;
  using Aggregation::Merge;
  Status Merge(Partial&& partial) override;
  std::vector<Partial> Save() const override;
  Partial Extract(int64_t base_version) override;
  using Aggregation::Finish;
  StatusOr<ServerInput> Finish(const Staleness& staleness) && override;
  StatusOr<ServerInput> FinishUndivided(const Staleness& staleness) && override;

 protected:
  // One base version's sums of a part, and its staleness factor; 1 without staleness.
  struct Share {
    PartSums* sums = nullptr;
    int64_t factor = 1;
    int64_t base_version = 0;
  };

  // Allocates sums only when there is something to add: a process that only moves in one partial sum needs none.
  Gathering(const AggregationSpec& spec, PartCodecs codecs);

  // Adds part `p` of an update that passed CheckForm, measures it, and counts its values. INVALID_ARGUMENT: BadValue.
  // RESOURCE_EXHAUSTED: no room. After an error, nothing of the part remains in the sums.
  virtual Status AddPart(const UpdateView& update, const PartView& part, size_t p, int64_t weight, PartSums& into,
                         FoldState& state) = 0;
  // One update's part among several that are added together. If `status` is or becomes an error, the part is skipped.
  struct Adding {
    const UpdateView* update = nullptr;
    const PartView* part = nullptr;
    int64_t weight = 0;
    FoldState* state = nullptr;
    Status* status = nullptr;
  };
  // Does AddPart for each update. Rules that gain nothing by adding several at once keep this default.
  virtual void AddParts(std::span<const Adding> updates, size_t p, PartSums& into);
  // Returns true if AddPart, AddParts and RemovePart accept parts on a device. EachRun does not.
  virtual bool TakesDeviceParts() const { return false; }
  // Subtracts the part that was added last, exactly.
  virtual void RemovePart(const PartView& part, size_t p, int64_t weight, PartSums& from) = 0;
  // Checks that the sums of a part are possible for its counts, which are possible themselves.
  virtual Status CheckSums(const PartSpec& part, const PartSums& sums) const = 0;
  virtual void MergeSums(PartSums& into, PartSums&& more) = 0;
  // Computes the part's mean, or its undivided mean, from at least one update. `shares`: of all base versions; their
  // sums may be consumed. `made` already has its name and lost fraction; `input` has the number of updates and the
  // scalars.
  virtual Status FinishPart(size_t p, std::span<const Share> shares, const ServerInput& input,
                            ServerInput::Part& made) const = 0;

  // Calls body(run, index of its first value) for the values of a part in wire order, until it returns false. Encoded
  // parts are decoded in blocks that stay in the fastest cache until they are used: no temporary has the part's size,
  // and one pass checks, measures and adds the values of every codec.
  template <class Body>
  void EachRun(const PartView& part, size_t p, const Body& body) const {
    int64_t first = 0;
    for (size_t block = 0; part.made != nullptr && block < part.made->blocks(); ++block) {
      const FloatRun run = part.made->Make(block);
      if (!body(run, first)) return;
      first += run.count;
    }
    if (part.made != nullptr) return;
    if (!part.runs.empty()) {
      for (const FloatRun& run : part.runs) {
        if (!body(run, first)) return;
        first += run.count;
      }
      return;
    }
    const int64_t elements = spec().parts[p].elements;
    if (codecs_[p]->transparent()) {
      body(FloatRun{reinterpret_cast<const float*>(part.data.data()), nullptr, elements}, first);
      return;
    }
    std::array<float, 4096> block;
    for (; first < elements; first += std::ssize(block)) {
      const int64_t count = std::min(std::ssize(block), elements - first);
      codecs_[p]->Decode(part.data, first, std::span(block).first(static_cast<size_t>(count)));
      if (!body(FloatRun{block.data(), nullptr, count}, first)) return;
    }
  }

  // The values that a sparse codec sent for a part; nullopt for other codecs, whose values EachRun gives.
  std::optional<SparseRun> SparseOf(const PartView& part, size_t p) const {
    return part.runs.empty() && part.made == nullptr && part.device_part == nullptr ? codecs_[p]->Sparse(part.data)
                                                                                    : std::nullopt;
  }

  // The error for a value that is NaN, infinite or beyond the bound.
  Status BadValue(const UpdateView& update, size_t p, int64_t index, float value) const;

 private:
  bool Folded(const TaskId& task) const;
  // Checks an update without reading its values. Returns its parts in the spec's order; null: an optional part is
  // absent.
  StatusOr<std::vector<const PartView*>> CheckForm(const UpdateView& update, const Weights& weights) const;
  // Checks that an update has the part if and only if it declares the scalar that only_where requires.
  static Status CheckOnlyWhere(const UpdateView& update, const PartSpec& part, bool there);
  Status CheckSize(const UpdateView& update, const PartView& part, size_t p) const;
  // Counts an update whose parts were all added.
  Taken Count(const UpdateView& update, const Weights& weights, std::span<const PartView* const> parts,
              std::span<const FoldState> folds, Partial& into) const;
  Status CheckWeight(const UpdateView& update, int64_t weight, int64_t bound) const;
  Status CheckCounts(const PartSpec& part, const PartSums& sums, int64_t tasks) const;
  Status CheckBase(int64_t base_version) const;
  Status CheckNorm(const UpdateView& update, std::span<const FoldState> folds) const;
  Status CheckRoom(size_t more) const;

  // The partial sum of that version, created with zeros if needed. Errors as SumFiles::Take.
  StatusOr<Partial*> GatheredFrom(int64_t base_version);

  const Digest digest_;
  const PartCodecs codecs_;
  std::map<int64_t, Partial> gathered_;  // by base version
};

}  // namespace rivulet
