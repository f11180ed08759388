// Conversion of partial sums to words modulo 2^sum_bits, and back. Secure aggregation masks and adds words without
// knowledge of weights, so the words contain all counts of a partial sum.
//
// Words are little-endian, in this order:
//
//   for each part, in the spec's order, its sums (wire order); for a codec with shared places, those at its places
//   for each part its weight, updates, non-zero and lost values: 4 numbers of 4 limbs
//   for each scalar its 128 bits: 8 limbs
//
// A limb is 16 bits of a number, the lowest first, in a separate word. The sum of kMostSecureUpdates limbs has no carry
// into the next word. An optional part that an update lacks is sent as zeros.
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

// into += more, word by word, modulo 2^word_bits (32 or 64). Both have the same size, a multiple of the word size.
void AddWordsTo(std::span<std::byte> into, std::span<const std::byte> more, int word_bits);

// Not thread-safe: it caches the places of the last version.
class SumWords {
 public:
  explicit SumWords(const AggregationSpec& spec);  // a valid spec of a secure sum; must outlive this
  int64_t words() const;
  size_t bytes() const;
  // Returns the words of `partial` as they are sent. Its rule must have sums.
  std::string Of(const Partial& partial) const;
  // Adds the words of `partial` to `words`, of bytes() bytes. Its rule must have sums.
  void Add(const Partial& partial, std::span<std::byte> words) const;
  // Converts words to a partial sum. Whether its numbers are possible is checked by Aggregation::Check.
  Partial PartialOf(std::span<const std::byte> words, std::unordered_set<TaskId> tasks, int64_t base_version) const;

 private:
  // A part whose codec shares places.
  struct SharedPart {
    size_t part = 0;
    std::unique_ptr<const Codec> codec;
    std::vector<uint32_t> places = {};  // of the version in places_of_
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
  mutable std::optional<int64_t> places_of_;  // the version of the cached places
};

}  // namespace rivulet
