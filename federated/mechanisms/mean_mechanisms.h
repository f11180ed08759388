// Mechanisms applied to the means of a version before the server's step: the same pieces as on clients. Noise added
// here hides each update from readers of the model, but not from the server.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "federated/mechanisms/mechanism.h"

namespace rivulet {

// Immutable, thread-safe.
class MeanMechanisms {
 public:
  MeanMechanisms() = default;  // none
  // Errors as Mechanism::Create.
  static StatusOr<MeanMechanisms> Create(std::span<const PieceSpec> pieces, uint64_t seed);

  bool empty() const { return mechanisms_.empty(); }
  // Changes the means of all parts of `version`, the version that is being made. Unless noise comes from the system's
  // generator, the result depends on seed and version alone, so repeating it gives the same. INTERNAL: no randomness.
  Status Apply(int64_t version, std::span<const std::span<float>> parts) const;

 private:
  std::vector<std::unique_ptr<const Mechanism>> mechanisms_;
  uint64_t seed_ = 0;
};

}  // namespace rivulet
