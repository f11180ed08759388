// Choice of the algorithm of attention. The table in README.md lists the algorithms.
#pragma once

namespace rivulet {

enum class AttentionAlgorithm {
  kRowBlocks,  // attention.cc: blocks of queries against all keys, two products and a softmax in scratch
  kTiles,      // attention_tiles.h: as many queries as a register block has rows, from products to output
};

// T: float or double. `plain`: without mask and softcap, at a positive scale.
template <typename T>
AttentionAlgorithm ChooseAttention(bool plain, bool portable);

}  // namespace rivulet
