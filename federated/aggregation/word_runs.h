// Arithmetic on long arrays of words modulo 2^32 or 2^64, in runs of a fixed length, which compilers vectorise.
#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <span>

namespace rivulet {

// into[i] = combine(into[i], more[i]) for unsigned words. `more` has into.size() words of any alignment and must not
// overlap `into`.
template <class Word, class Combine>
void CombineWords(std::span<Word> into, const void* more, Combine combine) {
  constexpr size_t kRun = 16;
  Word* __restrict to = into.data();
  const auto* __restrict from = static_cast<const std::byte*>(more);
  Word run[kRun];
  const size_t whole = into.size() - into.size() % kRun;
  for (size_t first = 0; first < whole; first += kRun) {
    std::memcpy(run, from + first * sizeof(Word), sizeof(run));
    for (size_t i = 0; i < kRun; ++i) to[first + i] = combine(to[first + i], run[i]);
  }
  std::memcpy(run, from + whole * sizeof(Word), (into.size() - whole) * sizeof(Word));
  for (size_t i = whole; i < into.size(); ++i) to[i] = combine(to[i], run[i - whole]);
}

template <class Word>
void AddWords(std::span<Word> into, const void* more) {
  CombineWords(into, more, std::plus<Word>());
}

template <class Word>
void SubtractWords(std::span<Word> into, const void* more) {
  CombineWords(into, more, std::minus<Word>());
}

}  // namespace rivulet
