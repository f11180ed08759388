// "f32": the values as they are.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "federated/codecs/codec.h"
#include "federated/settings/traits.h"

namespace rivulet {
namespace {

static_assert(std::endian::native == std::endian::little, "values travel as they are in memory");

class F32 : public Codec {
 public:
  explicit F32(int64_t elements) : bytes_(static_cast<size_t>(elements) * sizeof(float)) {}
  bool transparent() const override { return true; }
  int64_t MaxBytes() const override { return static_cast<int64_t>(bytes_); }

  void Encode(std::span<const FloatRun> values, Draws&, std::string& out) const override {
    for (const FloatRun& run : values) {
      if (run.minus == nullptr && run.factor == 1) {
        out.append(reinterpret_cast<const char*>(run.values), static_cast<size_t>(run.count) * sizeof(float));
        continue;
      }
      std::array<float, 1024> block;
      for (int64_t begin = 0; begin < run.count; begin += std::ssize(block)) {
        const int64_t count = std::min(std::ssize(block), run.count - begin);
        CopyValues(run, begin, count, block.data());
        out.append(reinterpret_cast<const char*>(block.data()), static_cast<size_t>(count) * sizeof(float));
      }
    }
  }

  Status Check(std::span<const std::byte> bytes) const override {
    if (bytes.size() == bytes_) return absl::OkStatus();
    return InvalidArgument("it has {} bytes where {} float32 elements have {}", bytes.size(), bytes_ / sizeof(float),
                           bytes_);
  }

  void Decode(std::span<const std::byte> bytes, int64_t first, std::span<float> out) const override {
    std::memcpy(out.data(), bytes.data() + static_cast<size_t>(first) * sizeof(float), out.size_bytes());
  }

 private:
  const size_t bytes_;
};

std::unique_ptr<const Codec> CreateF32(int64_t elements) { return std::make_unique<F32>(elements); }

RIVULET_CODEC("f32", "values as they are", CreateF32, {kSendsWholeModels});

}  // namespace
}  // namespace rivulet
