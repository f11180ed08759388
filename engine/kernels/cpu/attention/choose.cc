#include "engine/kernels/cpu/attention/choose.h"

#include <type_traits>

namespace rivulet {

template <typename T>
AttentionAlgorithm ChooseAttention(bool plain, bool portable) {
  return std::is_same_v<T, float> && plain && !portable ? AttentionAlgorithm::kTiles : AttentionAlgorithm::kRowBlocks;
}

template AttentionAlgorithm ChooseAttention<float>(bool, bool);
template AttentionAlgorithm ChooseAttention<double>(bool, bool);

}  // namespace rivulet
