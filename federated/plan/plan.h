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
  int64_t upper_bound = 0;  // for integers: number of classes or vocabulary size; 0: unchecked
};

// Formats of the bytes that Plan::Build writes and Plan::Open reads. Each adds features, and is written only if they
// are used. A program that does not know a format refuses the plan instead of training something else.
// 3: numbers of tasks and of passes, versions sent with a codec, parts of some updates, secure sums.
// 4: a base (federated/weights/base.h).
inline constexpr uint32_t kPlanFormat = 2, kBroadPlanFormat = 3, kBasePlanFormat = 4;
inline constexpr uint32_t kNewestPlanFormat = kBasePlanFormat;

// The coordinator's claim about the noise on each version's sums, for sites with privacy accounting
// (client/agent/privacy_ledger.h).
struct PrivacyClaim {
  double noise_multiplier = 1;  // over the norm of one clipped update
  double sampling_rate = 1;     // probability of each client's selection; 1: no claim
  int64_t cohort = 1;           // planned updates per version
  bool replace_one = false;     // the neighbouring relation; else add-remove
};

// A plan as both sides use it. Immutable; shared by all workers.
class Plan {
 public:
  // Parses and verifies untrusted bytes: graphs (engine/graphdef/verify.h), variables, features, passes, parts, ranges.
  // INVALID_ARGUMENT, DATA_LOSS: the message gives the error.
  static StatusOr<std::shared_ptr<const Plan>> Open(std::string bytes);
  // Builds the plan of a scenario's run from its algorithm's composition (ComposePlan in federated/algorithms does
  // both). The plan is verified in the same way as by clients: by opening its bytes. The sender uses the returned
  // object, so that the bytes are opened only once here.
  static StatusOr<std::shared_ptr<const Plan>> Build(const Scenario& scenario, const ModelDef& model,
                                                     const Composition& composition);

  const std::string& bytes() const { return bytes_; }
  const Digest& digest() const { return digest_; }  // SHA-256 of bytes()
  uint32_t format() const { return format_; }
  const std::string& name() const { return name_; }
  // The stated author and signature: views of bytes(). They are not verified here
  // (certificates/author.h).
  const PlanSignature& signature() const { return signature_; }
  const ModelDef& model() const { return *model_; }
  // Returns true if training is external: the plan has a model's layout and no graph. Its passes state the data set,
  // epochs, batches and the numbers to report. Each client chooses its own way of training; clients that run graphs
  // cannot take part.
  bool external() const { return !model_->has_graph(); }
  std::shared_ptr<const ModelLayout> layout() const { return layout_; }
  const std::vector<FeatureSpec>& features() const { return features_; }
  // The work of a client for tasks of `kind`; null: the plan has no such tasks.
  const LocalProgram* program(TaskKind kind) const;
  // The codec with which versions are sent (federated/download/download.h); "": unchanged.
  const std::string& download() const { return download_; }
  const std::optional<PrivacyClaim>& privacy() const { return privacy_; }  // nullopt: no noise is claimed
  // The work of training tasks, which every plan has.
  const LocalProgram& training() const { return programs_.at(TaskKind::kTrain); }
  // The flat variables besides those that every plan has.
  const FlatNames& flat_names() const { return flat_names_; }
  // Returns true if tasks of `kind` read server vectors besides the model: every training of a plan with such vectors,
  // and evaluations that run the model over one.
  bool reads_broadcasts(TaskKind kind) const;
  // True if clients have state between tasks: vectors, the model's local variables, or error feedback of codecs.
  bool keeps_state() const;
  // Returns true if clients measure versions with their state: with personal models or layers.
  bool measures_state() const;
  // Options with which every program of this plan is compiled.
  CompileOptions compile_options() const;
  // The data set of its passes; a client must have bound it.
  const std::string& dataset() const { return training().passes[0].dataset; }
  // For a plan with a graph on top of a base model: gives this process's programs the base's values. Call before the
  // first program runs; a second call has no effect. Thread-safe. Errors as BaseValues::Of.
  Status BindBase(std::shared_ptr<const Base> base) const;
  // One buffer for each of layout()->base_variables(), in order; they live as long as the plan. FAILED_PRECONDITION:
  // there are such variables, and no base is bound.
  StatusOr<std::span<const Buffer>> base_buffers() const;
  // Aggregation of results of its tasks. An evaluation has no parts: it sums "examples" and its passes' reports,
  // weighted by examples if they are means. Cohorts of evaluations have no size limit.
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

// The layout of a model's variables. INVALID_ARGUMENT: an unknown segment, or variables without a valid layout.
StatusOr<ModelLayout> ModelLayoutOf(const ModelDef& model);

// Initialises every variable by running the model's init target with `seed` (Purpose::kInitialise): the run's seed for
// the shared model, a client's own for its local variables.
// FAILED_PRECONDITION: an external plan has no init target; its initial values come from the model's source.
StatusOr<std::shared_ptr<class Model>> InitialModel(const Plan& plan, uint64_t seed);
// The same for a model without plan and seed, in order of declaration: the init target runs with the default kernels
// and draws from a stream of zeros, as in a session without a seed. Variables may have any type; those that the
// target does not assign are left out. FAILED_PRECONDITION: no such target; a variable is read before it has a
// value.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
StatusOr<NamedTensors> InitialModel(const ModelDef& model);
// Different initial values of the same run, for the server's vector of this name ("server/cluster_1").
StatusOr<std::shared_ptr<const class Model>> DrawModelFor(const Plan& plan, uint64_t seed, std::string_view flat);

}  // namespace rivulet
