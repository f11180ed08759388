// Arithmetic of long arrays of words modulo 2^32 or 2^64, in vectors of 16 bytes, which every machine has.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>

namespace rivulet {

// into[i] += more[i] for unsigned words, or -=. `more` has into.size() words, at any address, and shares no memory with
// `into`.
template <bool kSubtract, class Word>
void CombineWords(std::span<Word> into, const void* more) {
  // Not left to the compiler's vectoriser, which copies `more` first where its address may be odd.
  typedef Word Run __attribute__((vector_size(16), aligned(1), may_alias));
  constexpr size_t kRun = sizeof(Run) / sizeof(Word), kTogether = 4;
  const auto* from = static_cast<const std::byte*>(more);
  Word* to = into.data();
  size_t left = into.size();
  for (; left >= kTogether * kRun; left -= kTogether * kRun) {
    auto* const sums = reinterpret_cast<Run*>(to);
    const auto* const runs = reinterpret_cast<const Run*>(from);
#pragma GCC unroll 4
    for (size_t i = 0; i < kTogether; ++i) sums[i] = kSubtract ? sums[i] - runs[i] : sums[i] + runs[i];
    to += kTogether * kRun;
    from += kTogether * sizeof(Run);
  }
  for (; left > 0; --left, ++to, from += sizeof(Word)) {
    Word word;
    std::memcpy(&word, from, sizeof(word));
    *to = kSubtract ? *to - word : *to + word;
  }
}

template <class Word>
void AddWords(std::span<Word> into, const void* more) {
  CombineWords<false>(into, more);
}

template <class Word>
void SubtractWords(std::span<Word> into, const void* more) {
  CombineWords<true>(into, more);
}

}  // namespace rivulet
