// Choice of the algorithm of attention. The table in README.md lists the algorithms.
#pragma once

namespace rivulet {

enum class AttentionAlgorithm {
  kRowBlocks,  // attention.cc: blocks of queries with all keys, two products and a softmax in scratch memory
  kTiles,      // attention_tiles.h: one register block of queries at a time, from products to output
};

// T: float or double. `plain`: without mask and softcap, with a positive scale.
template <typename T>
AttentionAlgorithm ChooseAttention(bool plain, bool portable);

}  // namespace rivulet
