// "f16": IEEE half precision, rounded to the nearest, ties to even: two bytes a value with eleven bits of precision,
// from 2^-24 to 65504. Larger values become infinite, and the aggregation refuses them.
#include "engine/tensor/float16.h"
#include "federated/codecs/halves.h"
#include "federated/settings/traits.h"

namespace rivulet {
namespace {

struct HalfPrecision {
  static constexpr const char* kName = "float16";
  static uint16_t Of(float value) { return float16(value).bits; }
  static float ValueOf(uint16_t half) { return float16::FromBits(half); }
};

std::unique_ptr<const Codec> CreateF16(int64_t elements) { return std::make_unique<Halves<HalfPrecision>>(elements); }

RIVULET_CODEC("f16", "half the bytes, rounded to eleven bits and at most 65504", CreateF16, {kSendsWholeModels});

}  // namespace
}  // namespace rivulet
