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
#include "federated/weights/model.h"

namespace rivulet {

// Values by digest; the few last used are kept. Get is single-flight: of several threads that want a value, one makes
// it and the others wait, and when it fails the next one tries. Thread-safe.
template <typename T>
class DigestCache {
 public:
  explicit DigestCache(size_t capacity) : capacity_(capacity) {}
  // Before it is shared.
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
      made_.Wait(mutex_);  // another thread is at it
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

// A plan and what is made from it once.
struct PlanArtifacts {
  using FetchFn = std::function<StatusOr<std::string>()>;

  std::shared_ptr<const Plan> plan;
  std::shared_ptr<PassPrograms> programs;
  std::shared_ptr<const DecodedSets> examples;  // of the data sets that this process has, as the plan is fed with them

  // A vector that the server sends with a version, whose bytes have `digest`, as the plan's model lies; `fetch` brings
  // bytes that have it. INVALID_ARGUMENT: it is not as long as the model.
  StatusOr<std::shared_ptr<const AlignedBuffer>> Broadcast(const Digest& digest, const FetchFn& fetch) const;

 private:
  friend class ArtifactCache;
  // Of two versions all that a task reads, and of four at least one.
  mutable DigestCache<AlignedBuffer> broadcasts_{4};
};

class ArtifactCache {
 public:
  using FetchFn = PlanArtifacts::FetchFn;

  // With `only_kernels` ("native", "portable") plans that ask for others are refused. Decoded examples are kept within
  // `rows`; null: within kDefaultRowBytes. `check` is asked about every plan that was opened, before anything is made
  // of it, and its error is why the plan cannot be used; null: nobody is asked.
  explicit ArtifactCache(std::string only_kernels = "", std::shared_ptr<RowBudget> rows = nullptr,
                         std::function<Status(const rivulet::Plan&)> check = nullptr)
      : only_kernels_(std::move(only_kernels)),
        check_(std::move(check)),
        rows_(rows != nullptr ? std::move(rows) : std::make_shared<RowBudget>(kDefaultRowBytes)) {}
  static constexpr int64_t kDefaultRowBytes = 1'024'000'000;

  // The plan whose bytes have `digest`. `fetch` brings bytes that have it. Errors are fetch's, or say why the plan
  // cannot be used.
  StatusOr<std::shared_ptr<const PlanArtifacts>> Plan(const Digest& digest, const FetchFn& fetch);

  // The model of `model_digest`, in `plan`'s layout; `fetch` brings a safetensors file. DATA_LOSS: the model in it is
  // another.
  StatusOr<std::shared_ptr<const Model>> ModelVersion(const Digest& model_digest, const rivulet::Plan& plan,
                                                      const FetchFn& fetch);

 private:
  // Those of the last plan where it is fed with the same, as plans that differ in a learning rate are.
  StatusOr<std::shared_ptr<const DecodedSets>> ExamplesOf(const rivulet::Plan& plan);

  const std::string only_kernels_;
  const std::function<Status(const rivulet::Plan&)> check_;
  const std::shared_ptr<RowBudget> rows_;
  Mutex mutex_;
  std::vector<FeatureSpec> fed_ GUARDED_BY(mutex_);  // what examples_ are decoded for
  std::shared_ptr<const DecodedSets> examples_ GUARDED_BY(mutex_);
  DigestCache<PlanArtifacts> plans_{4};
  DigestCache<Model> models_{2};
};

}  // namespace rivulet
