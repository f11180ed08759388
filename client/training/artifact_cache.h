// Cache of plans, models and broadcast vectors by digest, and of decoded examples, shared by all clients of a process.
// A plan is compiled once, a model parsed once and an example decoded once.
#pragma once

#include <algorithm>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "client/training/trainer.h"
#include "engine/base/mutex.h"
#include "federated/plan/decoded_examples.h"
#include "federated/plan/plan.h"
#include "federated/weights/base_store.h"
#include "federated/weights/model.h"

namespace rivulet {

// Least-recently-used cache of values by digest. Get is single-flight: one thread makes a value and the others wait for
// it; if it fails, the next one tries. Thread-safe.
template <typename T>
class DigestCache {
 public:
  explicit DigestCache(size_t capacity) : capacity_(capacity) {}
  // Raises the capacity; call it before the cache is shared.
  void Widen(size_t capacity) { capacity_ = std::max(capacity_, capacity); }

  StatusOr<std::shared_ptr<const T>> Get(const Digest& digest,
                                         const std::function<StatusOr<std::shared_ptr<const T>>()>& make) {
    MutexLock lock(mutex_);
    for (;;) {
      auto entry = entries_.begin();
      while (entry != entries_.end() && entry->digest != digest) ++entry;
      if (entry == entries_.end()) break;
      if (entry->value != nullptr) {
        entries_.splice(entries_.begin(), entries_, entry);
        return entry->value;
      }
      made_.Wait(mutex_);  // another thread makes it
    }
    entries_.push_front({digest, nullptr});
    mutex_.Unlock();
    StatusOr<std::shared_ptr<const T>> made = make();
    mutex_.Lock();
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
      if (entry->digest != digest) continue;
      if (made.ok()) {
        entry->value = *made;
      } else {
        entries_.erase(entry);
      }
      break;
    }
    // Oldest first, but never one that is being made.
    for (auto entry = entries_.end(); entries_.size() > capacity_ && entry != entries_.begin();) {
      --entry;
      if (entry->value != nullptr && entry->digest != digest) entry = entries_.erase(entry);
    }
    made_.NotifyAll();
    return made;
  }

  // Removes values that are used nowhere else.
  void ForgetUnused() {
    MutexLock lock(mutex_);
    entries_.remove_if([](const Entry& entry) { return entry.value != nullptr && entry.value.use_count() == 1; });
  }

 private:
  struct Entry {
    Digest digest;
    std::shared_ptr<const T> value;  // null while it is being made
  };
  size_t capacity_;
  Mutex mutex_;
  CondVar made_;
  std::list<Entry> entries_;  // last used first
};

// A plan and the objects made from it once.
struct PlanArtifacts {
  using FetchFn = std::function<StatusOr<std::string>()>;

  std::shared_ptr<const Plan> plan;
  std::shared_ptr<PassPrograms> programs;
  std::shared_ptr<const DecodedSets> examples;  // of this process's data sets, decoded for the plan's features
  // Whether training a task again gives the same update: no mechanism draws from the system.
  bool repeatable = true;

  // The broadcast vector with this digest, in the layout of the plan's model; `fetch` returns its bytes.
  // INVALID_ARGUMENT: its length is not the model's.
  StatusOr<std::shared_ptr<const AlignedBuffer>> Broadcast(const Digest& digest, const FetchFn& fetch) const;

 private:
  friend class ArtifactCache;
  // Enough for all vectors of two versions, and for one of each of four.
  mutable DigestCache<AlignedBuffer> broadcasts_{4};
};

class ArtifactCache {
 public:
  using FetchFn = PlanArtifacts::FetchFn;

  // `only_kernels` ("native", "portable"): plans that ask for others are refused. `rows`: budget of decoded
  // examples; null: kDefaultRowBytes. `check`: called for every opened plan before it is used; its error refuses the
  // plan.
  explicit ArtifactCache(std::string only_kernels = "", std::shared_ptr<RowBudget> rows = nullptr,
                         std::function<Status(const rivulet::Plan&)> check = nullptr)
      : only_kernels_(std::move(only_kernels)),
        check_(std::move(check)),
        rows_(rows != nullptr ? std::move(rows) : std::make_shared<RowBudget>(kDefaultRowBytes)) {}
  static constexpr int64_t kDefaultRowBytes = 1'024'000'000;

  // Sets the source of bases, before the cache is shared. Without a store, plans with a base model are refused.
  void UseBases(std::shared_ptr<BaseStore> bases) { bases_ = std::move(bases); }
  const std::shared_ptr<BaseStore>& bases() const { return bases_; }

  // The plan with this digest; `fetch` returns its bytes, and `download` those of its base, to which the plan is bound.
  // Errors are theirs and the store's, or give the reason why the plan cannot be used.
  StatusOr<std::shared_ptr<const PlanArtifacts>> Plan(const Digest& digest, const FetchFn& fetch,
                                                      const BaseStore::Download& download = {});

  // The model of `model_digest`, in `plan`'s layout; `fetch` returns a safetensors file. DATA_LOSS: it contains another
  // model. Models of kLargeModel bytes or more are not kept beside the fetched one, unless a task uses them.
  static constexpr size_t kLargeModel = size_t{64} << 20;
  StatusOr<std::shared_ptr<const Model>> ModelVersion(const Digest& model_digest, const rivulet::Plan& plan,
                                                      const FetchFn& fetch);

 private:
  // The last plan's examples if both plans have the same features, as plans that differ in a learning rate do.
  StatusOr<std::shared_ptr<const DecodedSets>> ExamplesOf(const rivulet::Plan& plan);

  const std::string only_kernels_;
  const std::function<Status(const rivulet::Plan&)> check_;
  const std::shared_ptr<RowBudget> rows_;
  std::shared_ptr<BaseStore> bases_;
  Mutex mutex_;
  std::vector<FeatureSpec> fed_ GUARDED_BY(mutex_);  // the features of examples_
  std::shared_ptr<const DecodedSets> examples_ GUARDED_BY(mutex_);
  DigestCache<PlanArtifacts> plans_{4};
  DigestCache<Model> models_{2};
};

}  // namespace rivulet
