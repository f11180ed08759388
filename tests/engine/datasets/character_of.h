// The inverse mapping of engine/datasets/characters.h, from number to character.
#pragma once

#include "engine/datasets/characters.h"

namespace rivulet::testing {

// Returns the character of a number from 1 to 86; '?' for others.
inline char CharacterOf(int64_t token) {
  for (int byte = 0; token >= 1 && token < kUnknownCharacter && byte < 256; ++byte)
    if (TokenOf(static_cast<char>(byte)) == token) return static_cast<char>(byte);
  return '?';
}

}  // namespace rivulet::testing
