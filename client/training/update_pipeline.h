// Native stages between the trainer and the fold or upload: the plan's mechanisms (clipping, noise), then each part's
// codec. A plan chooses them and their numbers and cannot insert others.
//
// A part may have error feedback (Karimireddy et al. 2019, arXiv:1901.09847, algorithm 2; Stich et al. 2018,
// arXiv:1809.07599). Its client then keeps e, the difference that the codec C left out, with the rest of its state:
//
//   p = Δ + e,  C(p) is sent,  e ← p − C(p)
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "federated/aggregation/update.h"
#include "federated/codecs/codec.h"
#include "federated/mechanisms/mechanism.h"
#include "federated/plan/plan.h"
#include "federated/states/state_blob.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet {

// As what a client keeps what is left out of a part: a name that no vector of a plan has.
std::string LeftOutName(std::string_view part);

// One a worker: keeps its memory. Not thread-safe.
class UpdatePipeline {
 public:
  // NOT_FOUND: a mechanism or a codec that this client does not know. INVALID_ARGUMENT: a setting out of its range.
  static StatusOr<std::unique_ptr<UpdatePipeline>> Create(const Plan& plan);

  // Before a task is trained as number `lane` of those that are trained together: what its client has kept is to be
  // read into these. Until then they are zeros, those of a first task. After Apply they are what it keeps, until the
  // lane's next Begin. None where no part has error feedback.
  std::span<const NamedState> Begin(size_t lane = 0);
  std::span<const NamedState> kept(size_t lane = 0) const;

  // Whether parts go through unchanged: then whoever folds reads the trainer's own memory, and nothing is copied.
  bool transparent() const { return transparent_; }
  // Whether the same task gives the same update once more: no mechanism draws from the system.
  bool repeatable() const;

  // The parts of the plan's aggregation, without those that this update leaves out, in its order, as they are to be
  // folded or sent: in memory of this pipeline, or of the trainer, until the next call. `parts`: as the trainer left
  // them. The same task gives the same, but for noise of the system. INVALID_ARGUMENT: not the plan's parts. INTERNAL:
  // no randomness.
  StatusOr<std::vector<PartView>> Apply(const Task& task, std::span<const PartView> parts, Scalars& declared,
                                        size_t lane = 0);

 private:
  struct Part {
    std::string name;
    int64_t elements = 0;
    bool optional = false;
    bool there = true;  // in the update at hand
    std::unique_ptr<const Codec> codec;
    std::vector<float> values;  // where they are changed before they are encoded
    FloatRun run;               // over them
    bool error_feedback = false;
    std::string encoded;
  };
  // What the codecs left out of a lane's update, of each part with error feedback.
  struct LeftOut {
    std::vector<std::vector<float>> values;
    std::vector<NamedState> kept;  // over them, by LeftOutName
  };
  UpdatePipeline() = default;
  LeftOut& LeftOutOf(size_t lane);

  bool transparent_ = true;
  std::vector<LeftOut> left_out_;  // by lane
  std::vector<std::unique_ptr<const Mechanism>> mechanisms_;
  std::vector<Part> parts_;
};

}  // namespace rivulet
