// Fixed vocabulary of 90 numbers for texts that are read character by character. All clients agree on it without seeing
// each other's text. 0 is padding, 1 to 86 are the characters below, 87 is any other byte, 88 begins a passage and 89
// ends it. The counts are those of the federated Shakespeare task in the literature (86 characters and 4 special
// numbers); the order is ASCII's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rivulet {

inline constexpr int64_t kPadding = 0;
inline constexpr int64_t kUnknownCharacter = 87;
inline constexpr int64_t kBeginPassage = 88;
inline constexpr int64_t kEndPassage = 89;
inline constexpr int64_t kCharacters = 90;  // numbers in the vocabulary

int64_t TokenOf(char character);

}  // namespace rivulet
