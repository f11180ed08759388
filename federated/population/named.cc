#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "engine/base/error_facts.h"
#include "federated/population/population.h"

namespace rivulet {
namespace {

constexpr int kLengthBits = 8;
constexpr size_t kMaxName = (size_t{1} << kLengthBits) - 1;

// The bytes of all names in one buffer, and a word per name with its offset and length. The words of most names are
// sorted in `main_`; those of recent names, at most a few thousand, are sorted in `late_`, each with the number of
// `main_` words before it. So an insertion moves kilobytes instead of all words, and a rank is found by bisection of
// numbers alone.
class Named : public Population {
 public:
  explicit Named(int64_t most) : most_(most) {}

  int64_t size() const override { return static_cast<int64_t>(main_.size() + late_.size()); }

  std::string NameAt(int64_t rank) const override { return std::string(NameOf(*WordAt(rank))); }

  // In three passes, so that the memory accesses of many names overlap.
  std::vector<std::string> NamesAt(std::span<const int64_t> ranks) const override {
    std::vector<const uint64_t*> words;
    words.reserve(ranks.size());
    for (const int64_t rank : ranks) {
      words.push_back(WordAt(rank));
      __builtin_prefetch(words.back());
    }
    for (const uint64_t* word : words) __builtin_prefetch(NameOf(*word).data());
    std::vector<std::string> names;
    names.reserve(ranks.size());
    for (const uint64_t* word : words) names.emplace_back(NameOf(*word));
    return names;
  }

  std::optional<int64_t> Find(std::string_view name) const override {
    const size_t main = Lower(main_, name), late = Lower(late_, name);
    if ((main == main_.size() || NameOf(main_[main]) != name) &&
        (late == late_.size() || NameOf(late_[late]) != name)) {
      return std::nullopt;
    }
    return static_cast<int64_t>(main + late);
  }

  Status MayInsert(std::string_view name, int64_t others) const override {
    if (Find(name)) return absl::OkStatus();
    if (name.size() > kMaxName) {
      return InvalidArgument("a client name has {} bytes; at most {} are allowed", name.size(), kMaxName);
    }
    if (size() >= most_ - others) {
      return WithFact(FailedPrecondition("the {} clients that this run has room for have joined; '{}' is one too many",
                                         most_, name),
                      kNoPlaceFact, "1");
    }
    return absl::OkStatus();
  }

  StatusOr<bool> Insert(std::string_view name) override {
    RIVULET_RETURN_IF_ERROR(MayInsert(name, 0));
    const size_t main = Lower(main_, name), late = Lower(late_, name);
    if ((main < main_.size() && NameOf(main_[main]) == name) || (late < late_.size() && NameOf(late_[late]) == name)) {
      return false;
    }
    const uint64_t word = uint64_t{bytes_.size()} << kLengthBits | name.size();
    bytes_.append(name);
    if (late_.empty() && main == main_.size()) {  // in order, as from a sorted list
      main_.push_back(word);
      return true;
    }
    late_.insert(late_.begin() + static_cast<std::ptrdiff_t>(late), word);
    before_.insert(before_.begin() + static_cast<std::ptrdiff_t>(late), static_cast<int64_t>(main));
    // Merging costs as much as all names, and an insertion as much as `late_`: about the square root balances both.
    const auto patience = std::max<size_t>(1024, 4 * static_cast<size_t>(std::sqrt(static_cast<double>(main_.size()))));
    if (late_.size() >= patience) Merge();
    return true;
  }

  bool open() const override { return true; }

 private:
  const uint64_t* WordAt(int64_t rank) const {
    // The number of late names before the rank, by bisection.
    size_t low = 0;
    for (size_t left = late_.size(); left > 0;) {
      const size_t half = (left + 1) / 2, last = low + half - 1;  // no branch: ranks are unpredictable
      low += before_[last] + static_cast<int64_t>(last) < rank ? half : 0;
      left -= half;
    }
    if (low < late_.size() && before_[low] + static_cast<int64_t>(low) == rank) return &late_[low];
    return &main_[static_cast<size_t>(rank) - low];
  }
  std::string_view NameOf(uint64_t word) const {
    return std::string_view(bytes_).substr(word >> kLengthBits, word & kMaxName);
  }
  // The number of `words` before `name`.
  size_t Lower(const std::vector<uint64_t>& words, std::string_view name) const {
    return static_cast<size_t>(std::lower_bound(words.begin(), words.end(), name,
                                                [&](uint64_t word, std::string_view n) { return NameOf(word) < n; }) -
                               words.begin());
  }
  // Merges in place, from the end.
  void Merge() {
    size_t read = main_.size(), write = main_.size() + late_.size();
    main_.resize(write);
    for (size_t late = late_.size(); late-- > 0;) {
      while (read > static_cast<size_t>(before_[late])) main_[--write] = main_[--read];
      main_[--write] = late_[late];
    }
    late_.clear();
    before_.clear();
  }

  const int64_t most_;
  std::string bytes_;
  std::vector<uint64_t> main_, late_;
  std::vector<int64_t> before_;  // for each late name: the number of `main_` names before it
};

// A fixed population of names, closed to others.
class Fixed : public Population {
 public:
  explicit Fixed(std::unique_ptr<Population> members) : members_(std::move(members)) {}
  int64_t size() const override { return members_->size(); }
  std::string NameAt(int64_t rank) const override { return members_->NameAt(rank); }
  std::optional<int64_t> Find(std::string_view name) const override { return members_->Find(name); }
  Status MayInsert(std::string_view name, int64_t) const override {
    if (Find(name)) return absl::OkStatus();
    return FailedPrecondition("'{}' is not one of the {} clients that this run expects", name, size());
  }
  StatusOr<bool> Insert(std::string_view name) override {
    RIVULET_RETURN_IF_ERROR(MayInsert(name, 0));
    return false;
  }
  bool open() const override { return false; }

 private:
  const std::unique_ptr<Population> members_;
};

}  // namespace

std::vector<std::string> Population::NamesAt(std::span<const int64_t> ranks) const {
  std::vector<std::string> names;
  names.reserve(ranks.size());
  for (const int64_t rank : ranks) names.push_back(NameAt(rank));
  return names;
}

std::unique_ptr<Population> OpenPopulation(int64_t most) { return std::make_unique<Named>(most); }

StatusOr<std::unique_ptr<Population>> FixedPopulation(std::span<const std::string> names) {
  std::vector<std::string_view> sorted(names.begin(), names.end());
  std::sort(sorted.begin(), sorted.end());
  auto members = std::make_unique<Named>(static_cast<int64_t>(names.size()));
  for (const std::string_view name : sorted) {
    RIVULET_ASSIGN_OR_RETURN(const bool added, members->Insert(name));
    if (!added) return InvalidArgument("the client '{}' is listed twice", name);
  }
  return std::make_unique<Fixed>(std::move(members));
}

}  // namespace rivulet
