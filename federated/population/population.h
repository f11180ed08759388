// The members of a run in byte order of their names. Numbered clients are implicit and need no memory; a named client
// needs its name's bytes and 8 more.
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

// Fact (engine/base/error_facts.h) of MayInsert's error for a full population.
inline constexpr std::string_view kNoPlaceFact = "no place";

// Reads are thread-safe during no Insert.
class Population {
 public:
  virtual ~Population() = default;
  virtual int64_t size() const = 0;
  // Ranks are 0 .. size() - 1 in byte order. `rank` must be in this range.
  virtual std::string NameAt(int64_t rank) const = 0;
  // NameAt for each rank, at less cost per name: a cohort's names are scattered over memory.
  virtual std::vector<std::string> NamesAt(std::span<const int64_t> ranks) const;
  virtual std::optional<int64_t> Find(std::string_view name) const = 0;  // its rank
  // OK if Insert would accept the name after `others` more. FAILED_PRECONDITION: the population is full (with
  // kNoPlaceFact) or fixed; the message is for the joining client. INVALID_ARGUMENT: more than 255 bytes.
  virtual Status MayInsert(std::string_view name, int64_t others) const = 0;
  // Returns true if the name is new. Errors as MayInsert.
  virtual StatusOr<bool> Insert(std::string_view name) = 0;
  // Returns true if new clients may join. A population that is not open never changes.
  virtual bool open() const = 0;
};

// "client-00000", "client-00001", …: numbers of at least five digits.
std::unique_ptr<Population> NumberedPopulation(int64_t size);
std::string NumberedName(int64_t number);
std::optional<int64_t> NumberOf(std::string_view name);  // the number in a name from NumberedName
// A population for any clients, up to `most`.
std::unique_ptr<Population> OpenPopulation(int64_t most);
// Exactly `names`: a list of expected clients, or the keys of data.partition by_key. INVALID_ARGUMENT: a repeated name.
StatusOr<std::unique_ptr<Population>> FixedPopulation(std::span<const std::string> names);

}  // namespace rivulet
