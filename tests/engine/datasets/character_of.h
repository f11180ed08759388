// The way back from a number of engine/datasets/characters.h.
#pragma once

#include "engine/datasets/characters.h"

namespace rivulet::testing {

// The one character of 1 to 86; '?' for the others.
inline char CharacterOf(int64_t token) {
  for (int byte = 0; token >= 1 && token < kUnknownCharacter && byte < 256; ++byte)
    if (TokenOf(static_cast<char>(byte)) == token) return static_cast<char>(byte);
  return '?';
}

}  // namespace rivulet::testing
