#include "federated/aggregation/word_sums.h"

#include <map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/base/check.h"
#include "federated/aggregation/sum_words.h"

namespace rivulet {
namespace {

class WordSums final : public Aggregation {
 public:
  WordSums(std::unique_ptr<Aggregation> total, std::unique_ptr<Aggregation> one)
      : Aggregation(total->spec()), words_(spec()), total_(std::move(total)), one_(std::move(one)) {}

  Status Check(const UpdateView& update, const Weights& weights) const override {
    if (Folded(update.task)) return absl::OkStatus();
    RIVULET_RETURN_IF_ERROR(CheckJoins(update));
    return one_->Check(update, weights);
  }

  // Computes the client's words: a sum of this update alone.
  StatusOr<Taken> Take(const UpdateView& update, const Weights& weights) override {
    if (Folded(update.task)) return Taken{};
    RIVULET_RETURN_IF_ERROR(CheckJoins(update));
    RIVULET_ASSIGN_OR_RETURN(const Taken taken, one_->Take(update, weights));
    Gathered& into = gathered_[update.base_version];
    into.words.resize(words_.bytes());
    words_.Add(one_->Extract(update.base_version), into.words);
    into.tasks.insert(update.task);
    tasks_[update.base_version].insert(update.task);
    return taken;
  }

  Status Check(const Partial& partial) const override { return total_->Check(partial); }

  Status Merge(Partial&& partial) override {
    ReadWords();
    const std::unordered_set<TaskId> tasks = partial.tasks;
    const int64_t base_version = partial.base_version;
    RIVULET_RETURN_IF_ERROR(total_->Merge(std::move(partial)));
    tasks_[base_version].insert(tasks.begin(), tasks.end());
    return absl::OkStatus();
  }

  std::vector<Partial> Save() const override {
    ReadWords();
    return total_->Save();
  }

  Partial Extract(int64_t base_version) override {
    ReadWords();
    tasks_.erase(base_version);
    return total_->Extract(base_version);
  }

  StatusOr<ServerInput> Finish(const Staleness& staleness) && override {
    ReadWords();
    return std::move(*total_).Finish(staleness);
  }
  StatusOr<ServerInput> FinishUndivided(const Staleness& staleness) && override {
    ReadWords();
    return std::move(*total_).FinishUndivided(staleness);
  }

 private:
  struct Gathered {
    std::vector<std::byte> words;
    std::unordered_set<TaskId> tasks;
  };

  bool Folded(const TaskId& task) const {
    for (const auto& [base, tasks] : tasks_) {
      if (tasks.contains(task)) return true;
    }
    return false;
  }

  // Checks an update against the tasks that were added here; `one_` sees each update alone.
  Status CheckJoins(const UpdateView& update) const {
    size_t folded = 0;
    for (const auto& [base, tasks] : tasks_) {
      folded += tasks.size();
      if (base == update.base_version) continue;
      return InvalidArgument(
          "an update from version {} cannot join those from version {}: the plan takes none that are stale",
          update.base_version, base);
    }
    if (folded < static_cast<size_t>(spec().updates_per_version)) return absl::OkStatus();
    return ResourceExhausted("{} updates were folded, and a version has no more than {}", folded,
                             spec().updates_per_version);
  }

  // Merges the words into `total_`. Each update passed its own check, so their sum passes too.
  void ReadWords() const {
    for (auto& [base, gathered] : std::exchange(gathered_, {})) {
      const Status merged = total_->Merge(words_.PartialOf(gathered.words, std::move(gathered.tasks), base));
      RIVULET_CHECK(merged.ok(), "the words of updates that were checked are no sum: {}", Message(merged));
    }
  }

  const SumWords words_;
  const std::unique_ptr<Aggregation> total_, one_;
  mutable std::map<int64_t, Gathered> gathered_;         // by base version; words not yet in `total_`
  std::map<int64_t, std::unordered_set<TaskId>> tasks_;  // by base version; all tasks that were added here
};

}  // namespace

std::unique_ptr<Aggregation> SumByWords(std::unique_ptr<Aggregation> total, std::unique_ptr<Aggregation> one) {
  return std::make_unique<WordSums>(std::move(total), std::move(one));
}

}  // namespace rivulet
