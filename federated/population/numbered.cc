#include <algorithm>
#include <iterator>

#include "federated/population/population.h"

namespace rivulet {
namespace {

constexpr std::string_view kPrefix = "client-";
constexpr int64_t kPadded = 100'000;  // smaller numbers are padded to five digits

// Names enter the streams of a run's randomness, so making their widths equal would change models. Numbers in
// increasing order are in byte order as long as they have five digits. From 100,000 on, "client-100000" precedes
// "client-10001": each number of five digits is followed by the longer numbers that start with it. So a number's rank
// is a sum over lengths: how many numbers of that length precede it.
class Numbered : public Population {
 public:
  explicit Numbered(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }

  std::string NameAt(int64_t rank) const override { return NumberedName(NumberAt(rank)); }

  std::optional<int64_t> Find(std::string_view name) const override {
    const std::optional<int64_t> number = NumberOf(name);
    if (!number || *number >= size_) return std::nullopt;
    return RankOf(*number);
  }

  Status MayInsert(std::string_view name, int64_t) const override {
    if (Find(name)) return absl::OkStatus();
    return FailedPrecondition("'{}' is not one of the {} clients of this run, which are numbered", name, size_);
  }
  StatusOr<bool> Insert(std::string_view name) override {
    RIVULET_RETURN_IF_ERROR(MayInsert(name, 0));
    return false;
  }
  bool open() const override { return false; }

 private:
  int64_t RankOf(int64_t number) const {
    if (size_ <= kPadded) return number;
    int64_t unit = 1;  // number / unit are the number's first five digits
    while (number / unit >= kPadded) unit *= 10;
    // Five digits: smaller numbers, and the prefix itself if the number is longer.
    int64_t rank = number / unit + (unit > 1 ? 1 : 0);
    // Longer, up to the number's own length: likewise. The first number of a length is a power of ten.
    int64_t least = kPadded;
    for (; unit > 1; least *= 10) {
      unit /= 10;
      rank += number / unit + (unit > 1 ? 1 : 0) - least;
    }
    // Longer than the number: those that start with a smaller prefix.
    for (int64_t bound = number; least < size_; least *= 10) {
      bound *= 10;
      rank += std::max<int64_t>(std::min(bound, size_) - least, 0);
    }
    return rank;
  }

  // Number of names that start with `number`, including itself.
  int64_t SubtreeOf(int64_t number) const {
    int64_t count = 1;
    for (int64_t first = 10 * number, width = 10; first < size_; first *= 10, width *= 10) {
      count += std::min(width, size_ - first);
    }
    return count;
  }

  int64_t NumberAt(int64_t rank) const {
    if (size_ <= kPadded) return rank;
    // Numbers of six digits never start with 0, so the first ten thousand of five have no longer ones behind them.
    if (rank < kPadded / 10) return rank;
    // After these, each number of five digits is followed by all longer ones that start with it. Their count is
    // constant before the prefix at which the longest numbers end, and constant (smaller) after it.
    int64_t longest = kPadded;  // the first of the longest numbers
    while (10 * longest < size_) longest *= 10;
    const int64_t first = kPadded / 10, last = (size_ - 1) / (10 * longest / kPadded);
    int64_t number = first, left = rank - first;
    const int64_t full = SubtreeOf(first), most = SubtreeOf(last);
    if (left < (last - first) * full) {
      number += left / full;
      left %= full;
    } else if (left -= (last - first) * full; left < most) {
      number = last;
    } else {
      const int64_t rest = SubtreeOf(last + 1);
      number = last + 1 + (left - most) / rest;
      left = (left - most) % rest;
    }
    // Descends digit by digit.
    while (left > 0) {
      --left;  // the number itself precedes longer ones
      for (number *= 10; left >= SubtreeOf(number); ++number) left -= SubtreeOf(number);
    }
    return number;
  }

  const int64_t size_;
};

}  // namespace

// Formats by hand for speed: a cohort has a thousand names.
std::string NumberedName(int64_t number) {
  char digits[20];
  char* first = std::end(digits);
  for (; number > 0 || first > std::end(digits) - 5; number /= 10) *--first = static_cast<char>('0' + number % 10);
  std::string name;
  return name.append(kPrefix).append(first, std::end(digits));
}

std::optional<int64_t> NumberOf(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  if (name.size() < 5 || name.size() > 18 || (name.size() > 5 && name.front() == '0')) return std::nullopt;
  int64_t number = 0;
  for (const char digit : name) {
    if (digit < '0' || digit > '9') return std::nullopt;
    number = 10 * number + (digit - '0');
  }
  return number;
}

std::unique_ptr<Population> NumberedPopulation(int64_t size) { return std::make_unique<Numbered>(size); }

}  // namespace rivulet
