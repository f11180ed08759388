// The members of a run in byte order of their names. Numbered clients are implicit and cost nothing; named ones cost
// their bytes and 8 more.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace rivulet {

// Fact (engine/base/error_facts.h) of MayInsert's refusal because every place is taken.
inline constexpr std::string_view kNoPlaceFact = "no place";

// Reading is thread-safe while nobody inserts.
class Population {
 public:
  virtual ~Population() = default;
  virtual int64_t size() const = 0;
  // Ranks are 0 .. size() - 1 in byte order. `rank` is one of them.
  virtual std::string NameAt(int64_t rank) const = 0;
  // NameAt of each, at less than its cost for each: a cohort lies all over memory.
  virtual std::vector<std::string> NamesAt(std::span<const int64_t> ranks) const;
  virtual std::optional<int64_t> Find(std::string_view name) const = 0;  // its rank
  // Whether Insert would take it after `others` more names. FAILED_PRECONDITION: full (with kNoPlaceFact), or of
  // fixed members; the sentence is for the caller who knocks. INVALID_ARGUMENT: more than 255 bytes.
  virtual Status MayInsert(std::string_view name, int64_t others) const = 0;
  // True when it is new. Errors as MayInsert.
  virtual StatusOr<bool> Insert(std::string_view name) = 0;
  // Whether anybody may join at all. A population that is not open never changes.
  virtual bool open() const = 0;
};

// "client-00000", "client-00001", …: numbers of at least five digits.
std::unique_ptr<Population> NumberedPopulation(int64_t size);
std::string NumberedName(int64_t number);
std::optional<int64_t> NumberOf(std::string_view name);  // of such a name, written as NumberedName writes it
// Whoever comes, up to `most`.
std::unique_ptr<Population> OpenPopulation(int64_t most);
// Exactly `names`: a list of expected clients, the keys of data.partition by_key. INVALID_ARGUMENT: one is there twice.
StatusOr<std::unique_ptr<Population>> FixedPopulation(std::span<const std::string> names);

}  // namespace rivulet
