#include "federated/aggregation/sum_words.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

#include "engine/base/check.h"
#include "federated/aggregation/shared_places.h"
#include "federated/aggregation/word_runs.h"

namespace rivulet {
namespace {

static_assert(std::endian::native == std::endian::little, "words are in memory as they are sent");

constexpr int kLimbBits = 16, kLimbs = 64 / kLimbBits;
constexpr int64_t kPartNumbers = 4;

// Views the sums of a part as words of their width.
template <class Word, class P>
auto SumsOf(P& part) {
  if constexpr (sizeof(Word) == sizeof(int32_t)) {
    return std::span(part.sums32);
  } else {
    return std::span(part.sums);
  }
}

template <class Word>
std::span<Word> Words(std::span<std::byte> bytes) {
  return {reinterpret_cast<Word*>(bytes.data()), bytes.size() / sizeof(Word)};
}
template <class Word>
std::span<const Word> Words(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const Word*>(bytes.data()), bytes.size() / sizeof(Word)};
}

// Writes numbers as consecutive limbs.
template <class Word>
class LimbAdder {
 public:
  explicit LimbAdder(std::span<Word> words) : words_(words) {}
  void Add(uint64_t number) {
    for (int limb = 0; limb < kLimbs; ++limb) {
      words_[at_++] += static_cast<Word>((number >> (kLimbBits * limb)) & 0xFFFF);
    }
  }

 private:
  std::span<Word> words_;
  size_t at_ = 0;
};

// Appends a partial sum's counts.
template <class Word>
void AddNumbers(const Partial& partial, std::span<Word> words) {
  LimbAdder<Word> limbs(words);
  for (const PartSums& part : partial.parts) {
    for (const int64_t number : {part.weight_sum, part.updates, part.nonzeros, part.lost_nonzeros}) {
      limbs.Add(static_cast<uint64_t>(number));
    }
  }
  for (const WideSum& scalar : partial.scalars) limbs.Add(scalar.low()), limbs.Add(scalar.high());
}

template <class Word>
class LimbReader {
 public:
  explicit LimbReader(std::span<const Word> words) : words_(words) {}
  uint64_t Number() { return static_cast<uint64_t>(Limbs(kLimbs)); }
  WideSum Wide() {
    const Bits128 bits = Limbs(2 * kLimbs);
    return {static_cast<uint64_t>(bits), static_cast<uint64_t>(bits >> 64)};
  }

 private:
  __extension__ using Bits128 = unsigned __int128;
  // Two's complement: bits beyond the highest are dropped, as in the numbers that were added.
  Bits128 Limbs(int count) {
    Bits128 bits = 0;
    for (int limb = 0; limb < count; ++limb) bits += static_cast<Bits128>(words_[at_++]) << (kLimbBits * limb);
    return bits;
  }

  std::span<const Word> words_;
  size_t at_ = 0;
};

}  // namespace

SumWords::SumWords(const AggregationSpec& spec) : spec_(spec) {
  for (size_t p = 0; p < spec.parts.size(); ++p) {
    const PartSpec& part = spec.parts[p];
    auto codec = Codec::Create(part.codec, part.elements, part.codec_settings);
    RIVULET_CHECK(codec.ok(), "part '{}' of a valid spec: {}", part.name, Message(codec.status()));
    if (!(*codec)->shares_places()) continue;
    shared_.push_back({.part = p, .codec = *std::move(codec)});
  }
}

const SumWords::SharedPart* SumWords::Shared(size_t part) const {
  const auto found = std::ranges::find(shared_, part, &SharedPart::part);
  return found != shared_.end() ? &*found : nullptr;
}

void SumWords::ChoosePlaces(int64_t base_version) const {
  if (std::exchange(places_of_, base_version) == base_version) return;
  for (SharedPart& shared : shared_) shared.places = shared.codec->Places(DrawsOfPlaces(base_version, shared.part));
}

int64_t SumWords::words() const {
  int64_t words = std::ssize(spec_.scalars) * 2 * kLimbs;
  for (size_t p = 0; p < spec_.parts.size(); ++p) {
    const SharedPart* const shared = Shared(p);
    words += (shared != nullptr ? shared->codec->places() : spec_.parts[p].elements) + kPartNumbers * kLimbs;
  }
  return words;
}

size_t SumWords::bytes() const { return static_cast<size_t>(words()) * static_cast<size_t>(spec_.sum_bits() / 8); }

void AddWordsTo(std::span<std::byte> into, std::span<const std::byte> more, int word_bits) {
  RIVULET_CHECK(into.size() == more.size(), "{} bytes of words and {}", into.size(), more.size());
  word_bits == 32 ? AddWords(Words<uint32_t>(into), more.data()) : AddWords(Words<uint64_t>(into), more.data());
}

// Copies sums instead of adding them to zeros, which would need two more passes over each update.
template <class Word>
void SumWords::AppendAs(const Partial& partial, std::string& words) const {
  const auto append = [&](const auto& sums) {
    words.append(reinterpret_cast<const char*>(std::data(sums)), std::size(sums) * sizeof(Word));
  };
  std::vector<Word> chosen;
  for (size_t p = 0; p < partial.parts.size(); ++p) {
    const auto sums = SumsOf<Word>(partial.parts[p]);
    const SharedPart* const shared = Shared(p);
    if (shared == nullptr) {
      append(sums);
      continue;
    }
    chosen.clear();
    for (const uint32_t place : shared->places) chosen.push_back(static_cast<Word>(sums[place]));
    append(chosen);
  }
  std::vector<Word> numbers((bytes() - words.size()) / sizeof(Word));
  AddNumbers(partial, std::span(numbers));
  append(numbers);
}

std::string SumWords::Of(const Partial& partial) const {
  ChoosePlaces(partial.base_version);
  std::string words;
  words.reserve(bytes());
  spec_.sum_bits() == 32 ? AppendAs<uint32_t>(partial, words) : AppendAs<uint64_t>(partial, words);
  return words;
}

template <class Word>
void SumWords::AddAs(const Partial& partial, std::span<Word> words) const {
  for (size_t p = 0; p < partial.parts.size(); ++p) {
    const auto sums = SumsOf<Word>(partial.parts[p]);
    if (const SharedPart* const shared = Shared(p)) {
      for (size_t i = 0; i < shared->places.size(); ++i) words[i] += static_cast<Word>(sums[shared->places[i]]);
      words = words.subspan(shared->places.size());
      continue;
    }
    AddWords(words.first(sums.size()), sums.data());
    words = words.subspan(sums.size());
  }
  AddNumbers(partial, words);
}

void SumWords::Add(const Partial& partial, std::span<std::byte> words) const {
  RIVULET_CHECK(words.size() == bytes(), "{} bytes of words where {} belong", words.size(), bytes());
  ChoosePlaces(partial.base_version);
  spec_.sum_bits() == 32 ? AddAs(partial, Words<uint32_t>(words)) : AddAs(partial, Words<uint64_t>(words));
}

template <class Word>
void SumWords::ReadAs(std::span<const Word> words, Partial& partial) const {
  for (size_t p = 0; p < partial.parts.size(); ++p) {
    const auto sums = SumsOf<Word>(partial.parts[p]);
    if (const SharedPart* const shared = Shared(p)) {
      using Sum = std::ranges::range_value_t<decltype(sums)>;
      for (size_t i = 0; i < shared->places.size(); ++i) sums[shared->places[i]] = static_cast<Sum>(words[i]);
      words = words.subspan(shared->places.size());
      continue;
    }
    std::memcpy(sums.data(), words.data(), sums.size_bytes());
    words = words.subspan(sums.size());
  }
  LimbReader<Word> limbs(words);
  for (PartSums& part : partial.parts) {
    for (int64_t* const number : {&part.weight_sum, &part.updates, &part.nonzeros, &part.lost_nonzeros}) {
      *number = static_cast<int64_t>(limbs.Number());
    }
  }
  for (WideSum& scalar : partial.scalars) scalar = limbs.Wide();
}

Partial SumWords::PartialOf(std::span<const std::byte> words, std::unordered_set<TaskId> tasks,
                            int64_t base_version) const {
  RIVULET_CHECK(words.size() == bytes(), "{} bytes of words where {} belong", words.size(), bytes());
  Partial partial = EmptyPartial(spec_, base_version);
  partial.tasks = std::move(tasks);
  ChoosePlaces(base_version);
  spec_.sum_bits() == 32 ? ReadAs(Words<uint32_t>(words), partial) : ReadAs(Words<uint64_t>(words), partial);
  return partial;
}

}  // namespace rivulet
