// "noise": adds a normal number with mean 0 and the given deviation to every value. Protective noise is drawn from the
// system's generator. "seeded" noise is drawn from the task's stream, which anyone with the run's seed can repeat and
// remove: for simulations.
#include <openssl/rand.h>

#include <array>
#include <cmath>

#include "federated/mechanisms/mechanism.h"

namespace rivulet {
namespace {

constexpr char kSecure[] = "secure", kSeeded[] = "seeded";

// Normal numbers from OpenSSL's generator.
class SecureNormals {
 public:
  StatusOr<double> Next() {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    double x = 0, y = 0, square = 0;
    do {  // Marsaglia's polar method
      RIVULET_ASSIGN_OR_RETURN(x, Uniform());
      RIVULET_ASSIGN_OR_RETURN(y, Uniform());
      square = x * x + y * y;
    } while (square >= 1 || square == 0);
    const double factor = std::sqrt(-2 * std::log(square) / square);
    spare_ = y * factor;
    has_spare_ = true;
    return x * factor;
  }

 private:
  // Uniform on [−1, 1).
  StatusOr<double> Uniform() {
    if (used_ == words_.size()) {
      if (RAND_bytes(reinterpret_cast<unsigned char*>(words_.data()), static_cast<int>(sizeof(words_))) != 1) {
        return Internal("the system gives no random bytes, and without them no noise would hide anything");
      }
      used_ = 0;
    }
    return static_cast<double>(words_[used_++] >> 11) * 0x1p-52 - 1;
  }

  std::array<uint64_t, 512> words_;
  size_t used_ = words_.size();
  double spare_ = 0;
  bool has_spare_ = false;
};

class Noise final : public Mechanism {
 public:
  Noise(double deviation, bool seeded) : deviation_(deviation), seeded_(seeded) {}

  Status Apply(std::span<const std::span<float>> parts, Draws& draws, Scalars&) const override {
    SecureNormals secure;
    for (const std::span<float> part : parts) {
      for (float& value : part) {
        double normal = 0;
        if (seeded_) {
          normal = draws.Normal();
        } else {
          RIVULET_ASSIGN_OR_RETURN(normal, secure.Next());
        }
        value = static_cast<float>(value + deviation_ * normal);
      }
    }
    return absl::OkStatus();
  }

  bool repeatable() const override { return seeded_; }

 private:
  const double deviation_;
  const bool seeded_;
};

std::unique_ptr<const Mechanism> CreateNoise(const Settings& settings) {
  return std::make_unique<Noise>(settings.number("deviation"), settings.text("source") == kSeeded);
}

RIVULET_MECHANISM(
    noise_registration, "noise",
    {Float("deviation", std::nullopt, "Standard deviation of the noise that is added to a value.").Above(0),
     Text("source", kSecure, "Whose randomness it is.").OneOf({kSecure, kSeeded})},
    CreateNoise);

}  // namespace
}  // namespace rivulet
