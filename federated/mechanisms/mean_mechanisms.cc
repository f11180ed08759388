#include "federated/mechanisms/mean_mechanisms.h"

#include "federated/random/streams.h"

namespace rivulet {

StatusOr<MeanMechanisms> MeanMechanisms::Create(std::span<const PieceSpec> pieces, uint64_t seed) {
  MeanMechanisms made;
  made.seed_ = seed;
  for (const PieceSpec& piece : pieces) {
    RIVULET_ASSIGN_OR_RETURN(made.mechanisms_.emplace_back(), Mechanism::Create(piece));
  }
  return made;
}

Status MeanMechanisms::Apply(int64_t version, std::span<const std::span<float>> parts) const {
  Scalars none;
  for (size_t i = 0; i < mechanisms_.size(); ++i) {
    // No client has the id "", so no client's noise uses this stream.
    Draws draws(StreamFor(seed_, "", Purpose::kNoise, static_cast<uint32_t>(version)), static_cast<uint32_t>(i));
    RIVULET_RETURN_IF_ERROR(mechanisms_[i]->Apply(parts, draws, none));
  }
  return absl::OkStatus();
}

}  // namespace rivulet
