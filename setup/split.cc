#include "setup/split.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "federated/random/streams.h"

namespace rivulet {
namespace {

constexpr uint32_t kSplitExamples = 0;  // the only draw under a client's own key for this purpose

}  // namespace

StatusOr<std::vector<Shares>> SplitEach(const Shares& shares, std::span<const int64_t> percents, uint64_t seed) {
  int64_t sum = 0;
  for (const int64_t percent : percents) {
    if (percent < 1 || percent > 100) return InvalidArgument("a part of {} percent; give 1 to 100", percent);
    sum += percent;
  }
  if (sum != 100) return InvalidArgument("the parts add up to {} percent; give parts of 100", sum);
  std::vector<std::vector<uint64_t>> ends(percents.size());
  std::vector<std::vector<uint32_t>> examples(percents.size());
  for (int64_t client = 0; client < shares.size(); ++client) {
    const std::span<const uint32_t> mine = shares.ExamplesOf(client);
    Draws draws(StreamFor(seed, shares.NameAt(client), Purpose::kPartition), kSplitExamples);
    const std::vector<uint32_t> order = Permutation(draws, static_cast<uint32_t>(mine.size()));
    uint64_t begin = 0, percent = 0;
    for (size_t part = 0; part < percents.size(); ++part) {
      percent += static_cast<uint64_t>(percents[part]);
      uint64_t end = (mine.size() * percent + 50) / 100;
      if (part == 0 && end == 0 && !mine.empty()) end = 1;
      end = std::max(begin, end);
      for (uint64_t i = begin; i < end; ++i) examples[part].push_back(mine[order[i]]);
      ends[part].push_back(examples[part].size());
      begin = end;
    }
  }
  std::vector<std::string> names;
  if (!shares.numbered())
    for (int64_t client = 0; client < shares.size(); ++client) names.push_back(shares.NameAt(client));
  std::vector<Shares> parts;
  for (size_t part = 0; part < percents.size(); ++part) {
    if (shares.numbered()) {
      parts.push_back(Shares::OfNumbered(std::move(ends[part]), std::move(examples[part])));
      continue;
    }
    RIVULET_ASSIGN_OR_RETURN(Shares named, Shares::OfNamed(names, std::move(ends[part]), std::move(examples[part])));
    parts.push_back(std::move(named));
  }
  return parts;
}

}  // namespace rivulet
