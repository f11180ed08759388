// Plans: built by the coordinator from a scenario, opened and verified by the client.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/mutex.h"
#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/models/model_def.h"
#include "engine/program/program.h"
#include "federated/aggregation/aggregation_spec.h"
#include "federated/plan/flat_names.h"
#include "federated/plan/pass.h"
#include "federated/plan/plan_signature.h"
#include "federated/scenario/scenario.h"
#include "federated/tasks/task.h"
#include "federated/weights/layout.h"

namespace rivulet {

struct Composition;  // federated/plan/composition.h
class Base;          // federated/weights/base.h
class BaseValues;    // federated/plan/base_values.h

struct FeatureSpec {
  std::string feature;
  std::string placeholder;
  using Encoding = FeatureEncoding;
  Encoding encoding = Encoding::kUint8;
  Shape shape;  // of one example
  double scale = 1;
  int64_t upper_bound = 0;  // of integers: classes, a vocabulary; 0: unchecked
};

// Of the bytes that Plan::Build writes and Plan::Open reads. Each says what those before it cannot, and is written only
// then. A program that does not know it names it and trains nothing, instead of training something else.
// 3: numbers of tasks and of passes, versions that travel by a codec, parts of some updates, secure sums.
// 4: a base (federated/weights/base.h).
inline constexpr uint32_t kPlanFormat = 2, kBroadPlanFormat = 3, kBasePlanFormat = 4;
inline constexpr uint32_t kNewestPlanFormat = kBasePlanFormat;

// What the coordinator claims of the noise on the sums of each version, for sites that keep account of it
// (client/agent/privacy_ledger.h).
struct PrivacyClaim {
  double noise_multiplier = 1;  // over the norm of one clipped update
  double sampling_rate = 1;     // with which each client is drawn; 1: nothing is claimed
  int64_t cohort = 1;           // updates that a version plans
  bool replace_one = false;     // the neighbouring relation; else add-remove
};

// A plan as both sides use it. Immutable; shared by all workers.
class Plan {
 public:
  // Parses and verifies bytes from outside: graphs (engine/graphdef/verify.h), variables, features, passes, parts,
  // ranges. INVALID_ARGUMENT / DATA_LOSS say what is wrong.
  static StatusOr<std::shared_ptr<const Plan>> Open(std::string bytes);
  // The plan of a scenario's run as its algorithm composed it (federated/algorithms has ComposePlan, which does both),
  // verified as every client will verify it: by opening its bytes. Whoever ships the plan uses this object, so that the
  // bytes are opened once here.
  static StatusOr<std::shared_ptr<const Plan>> Build(const Scenario& scenario, const ModelDef& model,
                                                     const Composition& composition);

  const std::string& bytes() const { return bytes_; }
  const Digest& digest() const { return digest_; }  // SHA-256 of bytes()
  uint32_t format() const { return format_; }
  const std::string& name() const { return name_; }
  // Who says that he wrote it, and by what: views of bytes(). Whether it is true is for whoever asks to find out
  // (certificates/author.h).
  const PlanSignature& signature() const { return signature_; }
  const ModelDef& model() const { return *model_; }
  // Whether training is external: the plan has a model's layout and no graph. Its passes say on which data set, how
  // many epochs and in which batches, and which numbers are to be told; how a client does it is its own affair, and a
  // client that runs graphs cannot do it at all.
  bool external() const { return !model_->has_graph(); }
  std::shared_ptr<const ModelLayout> layout() const { return layout_; }
  const std::vector<FeatureSpec>& features() const { return features_; }
  // What a client runs for a task of `kind`; null: the plan has none.
  const LocalProgram* program(TaskKind kind) const;
  // The codec by which versions travel (federated/download/download.h); "": as they are.
  const std::string& download() const { return download_; }
  const std::optional<PrivacyClaim>& privacy() const { return privacy_; }  // nullopt: no noise is claimed
  // What it runs to train, which every plan has.
  const LocalProgram& training() const { return programs_.at(TaskKind::kTrain); }
  // Its flat variables beyond those that every plan has.
  const FlatNames& flat_names() const { return flat_names_; }
  // Whether tasks of `kind` read what the server sends beside the model: every training of a plan that names some, and
  // an evaluation that runs the model over it.
  bool reads_broadcasts(TaskKind kind) const;
  // Whether clients keep something from task to task: vectors, the model's local variables, or what codecs left out.
  bool keeps_state() const;
  // Whether clients measure a version with what they kept: with models, or layers, of their own.
  bool measures_state() const;
  // What every program of this plan is compiled with.
  CompileOptions compile_options() const;
  // The data set that its passes read; a client must have bound it.
  const std::string& dataset() const { return training().passes[0].dataset; }
  // Of a plan with a graph on top of a base model: gives the programs of this process the base's values, before the
  // first of them runs. A second call does nothing. Thread-safe. Errors as BaseValues::Of.
  Status BindBase(std::shared_ptr<const Base> base) const;
  // One for each of layout()->base_variables(), in order; they live as long as the plan. FAILED_PRECONDITION: there are
  // such variables, and no base is bound.
  StatusOr<std::span<const Buffer>> base_buffers() const;
  // How what comes of its tasks is summed. An evaluation has no parts: the sum of "examples", and what its passes
  // report, weighed by examples where it is a mean. That bounds nothing by the size of a cohort.
  const AggregationSpec& aggregation(TaskKind kind = TaskKind::kTrain) const {
    return kind == TaskKind::kTrain ? aggregation_ : evaluation_;
  }

 private:
  friend class PlanReader;
  std::string bytes_;
  Digest digest_;
  uint32_t format_ = 0;
  std::string name_;
  PlanSignature signature_;
  std::unique_ptr<ModelDef> model_;
  std::shared_ptr<const ModelLayout> layout_;
  std::vector<FeatureSpec> features_;
  FlatNames flat_names_;
  std::map<TaskKind, LocalProgram> programs_;
  bool portable_kernels_ = false;
  std::string download_;
  std::optional<PrivacyClaim> privacy_;
  AggregationSpec aggregation_, evaluation_;
  mutable Mutex base_mutex_;
  mutable std::shared_ptr<const BaseValues> base_values_ GUARDED_BY(base_mutex_);
};

// The buffers of a program whose variables are bound by BindVariables (federated/plan/base_values.h): the model's
// arena, and the base's values. The program only reads them. Errors as Plan::base_buffers.
StatusOr<std::vector<Buffer>> BuffersOver(const Plan& plan, const class Model& model);

// Where a model's variables lie. INVALID_ARGUMENT: a segment that there is not, variables that make no layout.
StatusOr<ModelLayout> ModelLayoutOf(const ModelDef& model);

// Gives every variable its first value by running the model's init target under `seed` (Purpose::kInitialise): the
// run's for the model that all share, a client's own for its local variables.
// FAILED_PRECONDITION: an external plan, which has none; its first values come from where the model comes from.
StatusOr<std::shared_ptr<class Model>> InitialModel(const Plan& plan, uint64_t seed);
// The same for a model without plan and seed, in order of declaration: the init target runs with the default kernels,
// and draws from a stream of zeros, as in a session without a seed. Variables of any type may be there, and those that
// the target does not assign are left out. FAILED_PRECONDITION: no such target; a variable is read before it has a
// value.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
StatusOr<NamedTensors> InitialModel(const ModelDef& model);
// Other first values of the same run: those of the server's vector of this name ("server/cluster_1").
StatusOr<std::shared_ptr<const class Model>> DrawModelFor(const Plan& plan, uint64_t seed, std::string_view flat);

}  // namespace rivulet
