#include "engine/kernels/cpu/elementwise/philox_uniform.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/elementwise/philox_uniform.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// clang-format off: the order matters
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Each word of a counter is in the lower half of a 64-bit lane, one lane per block, because 32-bit products take their
// factors from there; upper halves are ignored. kChains vectors of blocks are computed in parallel, because a round
// waits for its products.
void UniformBlocks(const PhiloxKey& key, const PhiloxBlock& counter, size_t blocks, float* HWY_RESTRICT out) {
  size_t block = 0;
#if HWY_TARGET != HWY_SCALAR
  constexpr size_t kChains = 4;
  const hn::ScalableTag<uint64_t> d;
  const hn::Repartition<uint32_t, decltype(d)> words;
  const hn::Repartition<int32_t, decltype(d)> integers;
  const hn::Repartition<float, decltype(d)> floats;
  using V = hn::Vec<decltype(d)>;
  const size_t lanes = hn::Lanes(d);
  const V low = hn::Set(d, 0xFFFFFFFFu);
  const auto m0 = hn::Set(words, 0xD2511F53u), m1 = hn::Set(words, 0xCD9E8D57u);
  const auto unit = hn::Set(floats, 0x1p-24f);
  const auto uniform = [&](V pair) HWY_ATTR {
    const auto bits = hn::BitCast(integers, hn::ShiftRight<8>(hn::BitCast(words, pair)));
    return hn::BitCast(d, hn::Mul(hn::ConvertTo(floats, bits), unit));
  };
  for (; block + kChains * lanes <= blocks; block += kChains * lanes) {
    V c[kChains][4];
#pragma GCC unroll 4
    for (size_t chain = 0; chain < kChains; ++chain) {
      c[chain][0] = hn::Iota(d, counter[0] + static_cast<uint64_t>(block + chain * lanes));
      for (size_t w = 1; w < 4; ++w) c[chain][w] = hn::Set(d, counter[w]);
    }
    uint32_t k0 = key.words[0], k1 = key.words[1];
    for (int round = 0; round < 10; ++round) {
      const V key0 = hn::Set(d, k0), key1 = hn::Set(d, k1);
#pragma GCC unroll 4
      for (size_t chain = 0; chain < kChains; ++chain) {
        V* const at = c[chain];
        const V p0 = hn::MulEven(hn::BitCast(words, at[0]), m0), p1 = hn::MulEven(hn::BitCast(words, at[2]), m1);
        at[0] = hn::Xor(hn::Xor(hn::ShiftRight<32>(p1), at[1]), key0);
        at[2] = hn::Xor(hn::Xor(hn::ShiftRight<32>(p0), at[3]), key1);
        at[1] = p1;
        at[3] = p0;
      }
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
#pragma GCC unroll 4
    for (size_t chain = 0; chain < kChains; ++chain) {
      const V first = uniform(hn::Or(hn::And(c[chain][0], low), hn::ShiftLeft<32>(c[chain][1])));
      const V second = uniform(hn::Or(hn::And(c[chain][2], low), hn::ShiftLeft<32>(c[chain][3])));
      hn::StoreInterleaved2(first, second, d, reinterpret_cast<uint64_t*>(out + 4 * (block + chain * lanes)));
    }
  }
#endif
  for (; block < blocks; ++block) {
    PhiloxBlock at = counter;
    at[0] += static_cast<uint32_t>(block);
    const PhiloxBlock made = Philox4x32(key, at);
    for (size_t w = 0; w < 4; ++w) out[4 * block + w] = UniformFloat(made[w]);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rivulet {

HWY_EXPORT(UniformBlocks);

void UniformFloats(PhiloxKey key, const PhiloxBlock& counter, size_t blocks, float* out) {
  HWY_DYNAMIC_DISPATCH(UniformBlocks)(key, counter, blocks, out);
}

}  // namespace rivulet
#endif
