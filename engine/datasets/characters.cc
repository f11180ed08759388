#include "engine/datasets/characters.h"

#include <array>

namespace rivulet {
namespace {

constexpr std::string_view kVocabulary =
    "\n\r !\"#$%&'()*,-./0123456789:;?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]_abcdefghijklmnopqrstuvwxyz";
static_assert(kVocabulary.size() == static_cast<size_t>(kUnknownCharacter - 1));

constexpr std::array<uint8_t, 256> Numbers() {
  std::array<uint8_t, 256> numbers{};
  for (uint8_t& number : numbers) number = static_cast<uint8_t>(kUnknownCharacter);
  for (size_t i = 0; i < kVocabulary.size(); ++i)
    numbers[static_cast<uint8_t>(kVocabulary[i])] = static_cast<uint8_t>(i + 1);
  return numbers;
}
constexpr std::array<uint8_t, 256> kNumbers = Numbers();

}  // namespace

int64_t TokenOf(char character) { return kNumbers[static_cast<uint8_t>(character)]; }

}  // namespace rivulet
