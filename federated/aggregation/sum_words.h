// Sums as words modulo 2^sum_bits, and back. Secure aggregation masks and adds words and knows nothing of weights; so
// all that a partial sum counts is in them.
//
// Words are little-endian, in this order:
//
//   for each part, in the spec's order, its sums (wire order); of a codec that shares places, those at its places
//   for each part its weight, updates, non-zero and lost values: 4 numbers of 4 limbs
//   for each scalar its 128 bits: 8 limbs
//
// A limb is 16 bits of a number, the lowest first, in a separate word. Limbs of up to kMostSecureUpdates updates add up
// without a carry into the next word. An optional part that an update lacks is zeros.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "federated/aggregation/aggregation_spec.h"
#include "federated/aggregation/partial.h"
#include "federated/codecs/codec.h"

namespace rivulet {

// into += more, word by word, modulo 2^word_bits (32 or 64). Both are of one size, a whole number of words.
void AddWordsTo(std::span<std::byte> into, std::span<const std::byte> more, int word_bits);

// Not thread-safe: it keeps the last version's places.
class SumWords {
 public:
  explicit SumWords(const AggregationSpec& spec);  // of a secure sum, valid, and must outlive it
  int64_t words() const;
  size_t bytes() const;
  // The words of `partial`, whose rule has sums, as they are sent.
  std::string Of(const Partial& partial) const;
  // Adds the words of `partial`, whose rule has sums, to `words`, of bytes() bytes.
  void Add(const Partial& partial, std::span<std::byte> words) const;
  // The partial sum whose words these are. That it is possible at all is for Aggregation::Check to tell.
  Partial PartialOf(std::span<const std::byte> words, std::unordered_set<TaskId> tasks, int64_t base_version) const;

 private:
  // Of a part whose codec shares places.
  struct SharedPart {
    size_t part = 0;
    std::unique_ptr<const Codec> codec;
    std::vector<uint32_t> places = {};  // of the version at hand
  };
  const SharedPart* Shared(size_t part) const;
  void ChoosePlaces(int64_t base_version) const;
  template <class Word>
  void AppendAs(const Partial& partial, std::string& words) const;
  template <class Word>
  void AddAs(const Partial& partial, std::span<Word> words) const;
  template <class Word>
  void ReadAs(std::span<const Word> words, Partial& partial) const;

  const AggregationSpec& spec_;
  mutable std::vector<SharedPart> shared_;
  mutable std::optional<int64_t> places_of_;  // the version whose places these are
};

}  // namespace rivulet
