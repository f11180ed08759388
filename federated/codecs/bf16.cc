// "bf16": the upper half of each float32, rounded to the nearest, ties to even: two bytes a value with eight bits of
// precision and the whole range.
#include <bit>

#include "federated/codecs/halves.h"
#include "federated/settings/traits.h"

namespace rivulet {
namespace {

struct UpperHalf {
  static constexpr const char* kName = "bfloat16";
  static uint16_t Of(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    if ((bits & 0x7FFFFFFF) > 0x7F800000) return static_cast<uint16_t>(bits >> 16 | 0x40);  // NaN stays NaN
    return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
  }
  static float ValueOf(uint16_t half) { return std::bit_cast<float>(static_cast<uint32_t>(half) << 16); }
};

std::unique_ptr<const Codec> CreateBf16(int64_t elements) { return std::make_unique<Halves<UpperHalf>>(elements); }

RIVULET_CODEC("bf16", "half the bytes, rounded to eight bits", CreateBf16, {kSendsWholeModels});

}  // namespace
}  // namespace rivulet
