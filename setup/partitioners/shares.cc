#include "setup/partitioners/shares.h"

#include <algorithm>
#include <utility>

namespace rivulet {

Shares Shares::OfNumbered(std::vector<uint64_t> ends, std::vector<uint32_t> examples) {
  Shares shares;
  shares.population_ = NumberedPopulation(static_cast<int64_t>(ends.size()));
  shares.ends_ = std::move(ends);
  shares.examples_ = std::move(examples);
  return shares;
}

StatusOr<Shares> Shares::OfNamed(std::vector<std::string> names, std::vector<uint64_t> ends,
                                 std::vector<uint32_t> examples) {
  if (names.size() != ends.size()) {
    return InvalidArgument("{} clients cannot share {} parts of a data set", names.size(), ends.size());
  }
  if (const auto late = std::is_sorted_until(names.begin(), names.end()); late != names.end()) {
    return InvalidArgument("the client '{}' comes after '{}', but shares are in byte order of names", *late, late[-1]);
  }
  Shares shares;
  RIVULET_ASSIGN_OR_RETURN(shares.population_, FixedPopulation(names));
  shares.numbered_ = false;
  shares.ends_ = std::move(ends);
  shares.examples_ = std::move(examples);
  return shares;
}

std::string Shares::NameAt(int64_t client) const {
  return numbered_ ? NumberedName(client) : population_->NameAt(client);
}

std::span<const uint32_t> Shares::ExamplesOf(int64_t client) const {
  const auto i = static_cast<size_t>(client);
  const uint64_t begin = i == 0 ? 0 : ends_[i - 1];
  return std::span(examples_).subspan(begin, ends_[i] - begin);
}

std::optional<int64_t> Shares::Find(std::string_view name) const {
  if (!numbered_) return population_->Find(name);
  const std::optional<int64_t> number = NumberOf(name);
  return number && *number < size() ? number : std::nullopt;
}

}  // namespace rivulet
