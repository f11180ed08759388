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

// By how much a norm may be beyond spec().most_norm: each value of a clipped update was rounded once, by 2^-24 of
// itself at most.
inline constexpr double kNormRounding = 0x1p-20;

using PartCodecs = std::vector<std::unique_ptr<const Codec>>;
// Of the parts of a spec, in its order. NOT_FOUND names the nearest codec.
StatusOr<PartCodecs> CodecsOf(const AggregationSpec& spec);

// Whether a version of no updates is defined, with a mean of 0 in every part: plain sums over constants. A private
// version divides by the planned number of updates, so that a cohort of nobody releases noise alone.
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
  // One base version's sums of a part, and its factor for staleness; 1 where there is none.
  struct Share {
    PartSums* sums = nullptr;
    int64_t factor = 1;
    int64_t base_version = 0;
  };

  // Without sums until there is something to sum: who only takes a partial in needs none of its own.
  Gathering(const AggregationSpec& spec, PartCodecs codecs);

  // Adds part `p` of an update of good form, measures it, and counts its values. INVALID_ARGUMENT: BadValue.
  // RESOURCE_EXHAUSTED: no room. After an error nothing of it is left.
  virtual Status AddPart(const UpdateView& update, const PartView& part, size_t p, int64_t weight, PartSums& into,
                         FoldState& state) = 0;
  // One update's part among those that are added together. `status` is not OK: it is left alone, or was refused now.
  struct Adding {
    const UpdateView* update = nullptr;
    const PartView* part = nullptr;
    int64_t weight = 0;
    FoldState* state = nullptr;
    Status* status = nullptr;
  };
  // As AddPart of each: the rule of those that gain nothing by seeing all at once.
  virtual void AddParts(std::span<const Adding> updates, size_t p, PartSums& into);
  // Whether AddPart, AddParts and RemovePart take parts that lie on a device. EachRun does not.
  virtual bool TakesDeviceParts() const { return false; }
  // Takes away the part that was added last, exactly.
  virtual void RemovePart(const PartView& part, size_t p, int64_t weight, PartSums& from) = 0;
  // Whether the sums of a part can be those of its counts, which are possible.
  virtual Status CheckSums(const PartSpec& part, const PartSums& sums) const = 0;
  virtual void MergeSums(PartSums& into, PartSums&& more) = 0;
  // What the part comes to, of one update at least: its mean, or that undivided. `shares`: of all base versions; their
  // sums may be used up. `made`: with its name and its lost fraction; `input`: with the number of updates and the
  // scalars.
  virtual Status FinishPart(size_t p, std::span<const Share> shares, const ServerInput& input,
                            ServerInput::Part& made) const = 0;

  // Calls body(run, index of its first value) for the values of a part in wire order, while it says true. What a codec
  // has made is decoded a block at a time, which stays in the fastest cache until it is used: no temporary has the
  // part's size, and every codec's values are judged, measured and folded by the same pass.
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

  // What its codec sent of a part, where that is some values with their places. Otherwise nothing: EachRun tells all.
  std::optional<SparseRun> SparseOf(const PartView& part, size_t p) const {
    return part.runs.empty() && part.made == nullptr && part.device_part == nullptr ? codecs_[p]->Sparse(part.data)
                                                                                    : std::nullopt;
  }

  // The sentence about a value that is NaN, infinite or beyond the bound.
  Status BadValue(const UpdateView& update, size_t p, int64_t index, float value) const;

 private:
  bool Folded(const TaskId& task) const;
  // What can be told without reading the values. The update's parts in the spec's order; null: an optional one is not
  // there.
  StatusOr<std::vector<const PartView*>> CheckForm(const UpdateView& update, const Weights& weights) const;
  // That an update has the part if it declares what those declare that have it, and only then.
  static Status CheckOnlyWhere(const UpdateView& update, const PartSpec& part, bool there);
  Status CheckSize(const UpdateView& update, const PartView& part, size_t p) const;
  // Its update is in all sums: now it counts.
  Taken Count(const UpdateView& update, const Weights& weights, std::span<const PartView* const> parts,
              std::span<const FoldState> folds, Partial& into) const;
  Status CheckWeight(const UpdateView& update, int64_t weight, int64_t bound) const;
  Status CheckCounts(const PartSpec& part, const PartSums& sums, int64_t tasks) const;
  Status CheckBase(int64_t base_version) const;
  Status CheckNorm(const UpdateView& update, std::span<const FoldState> folds) const;
  Status CheckRoom(size_t more) const;

  // What is gathered from that version, all zeros at first. Errors as SumFiles::Take.
  StatusOr<Partial*> GatheredFrom(int64_t base_version);

  const Digest digest_;
  const PartCodecs codecs_;
  std::map<int64_t, Partial> gathered_;  // by base version
};

}  // namespace rivulet
