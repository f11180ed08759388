// Native stages between the trainer and the fold or upload: the plan's mechanisms (clipping, noise), then each part's
// codec. A plan chooses them and their numbers and cannot insert others.
//
// A part may have error feedback (Karimireddy et al. 2019, arXiv:1901.09847, algorithm 2; Stich et al. 2018,
// arXiv:1809.07599). Its client then keeps e, the difference that the codec C left out, with the rest of its state:
//
//   p = Δ + e,  C(p) is sent,  e ← p − C(p)
//
// A clip alone changes no memory: the pipeline measures the update, and its runs carry the factor (FloatRun::factor),
// by which the fold or the upload multiplies.
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

// Name of a part's error-feedback vector in the client's state; no vector of a plan has it.
std::string LeftOutName(std::string_view part);

// Stages of one worker; keeps its memory. Not thread-safe.
class UpdatePipeline {
 public:
  ~UpdatePipeline();  // defined where MeasuredPart is known
  // NOT_FOUND: this client does not know a mechanism or codec. INVALID_ARGUMENT: a setting is out of range.
  static StatusOr<std::unique_ptr<UpdatePipeline>> Create(const Plan& plan);

  // Error-feedback vectors of lane `lane`, zeroed for a first task. The caller reads the client's state into them
  // before the training; after Apply they hold the next state, until the lane's next Begin. Empty if no part has error
  // feedback.
  std::span<const NamedState> Begin(size_t lane = 0);
  std::span<const NamedState> kept(size_t lane = 0) const;

  // Whether parts pass unchanged: the fold then reads the trainer's own memory, and nothing is copied.
  bool transparent() const { return transparent_; }
  // Whether updates are only multiplied by a factor each, which the fold does.
  bool scales() const { return scaling_ != nullptr; }
  // Number of results of Apply that are valid at once, at least 1: those of the last calls.
  size_t MostTogether() const;
  // Measures updates that are made while they are read, at most MostTogether(), block by block for all of them, so each
  // stretch of the weights is loaded once. Apply of each must follow, in this order, before their parts change. No
  // effect if they cannot be measured so.
  void MeasureTogether(std::span<const std::span<const PartView>> updates);

  // Applies all stages to `parts`, the trainer's. Returns the parts to fold or send, in the order of the plan's
  // aggregation, without those that this update leaves out. They are in memory of this pipeline or of the trainer until
  // as many further calls as MostTogether() says. Only a pipeline that scales takes parts that are made while they are
  // read. The same task gives the same parts, except for noise of the system. INVALID_ARGUMENT: not the plan's
  // parts. INTERNAL: no randomness.
  StatusOr<std::vector<PartView>> Apply(const Task& task, std::span<const PartView> parts, Scalars& declared,
                                        size_t lane = 0);

 private:
  struct Part {
    std::string name;
    int64_t elements = 0;
    bool optional = false;
    bool there = true;  // in the present update
    std::unique_ptr<const Codec> codec;
    std::vector<float> values;  // if they are changed before they are encoded
    FloatRun run;               // over them
    bool error_feedback = false;
    std::string encoded;
  };
  // Error feedback of a lane's update, a vector for each such part.
  struct LeftOut {
    std::vector<std::vector<float>> values;
    std::vector<NamedState> kept;  // over them, by LeftOutName
  };
  class MeasuredPart;
  // One scaled update's parts, in the plan's order.
  struct Scaled {
    std::vector<std::unique_ptr<MeasuredPart>> made;
    std::vector<std::vector<FloatRun>> runs;
  };
  UpdatePipeline();
  Scaled& ScaledAt(size_t number);
  StatusOr<std::vector<PartView>> Scale(std::span<const PartView> parts, Scalars& declared);
  LeftOut& LeftOutOf(size_t lane);

  bool transparent_ = true;
  const ScalingMechanism* scaling_ = nullptr;  // the only stage
  std::vector<Scaled> scaled_;                 // MostTogether(), used in turns
  size_t next_scaled_ = 0;
  std::vector<LeftOut> left_out_;  // by lane
  std::vector<std::unique_ptr<const Mechanism>> mechanisms_;
  std::vector<Part> parts_;
};

}  // namespace rivulet
