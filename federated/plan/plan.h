// Plans: built by the coordinator from a scenario, opened and verified by the client.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/models/model_def.h"
#include "engine/program/program.h"
#include "federated/aggregation/aggregation_spec.h"
#include "federated/scenario/scenario.h"
#include "federated/weights/layout.h"

namespace rivulet {

struct Composition;  // federated/plan/composition.h

struct FeatureSpec {
  std::string feature;
  std::string placeholder;
  using Encoding = FeatureEncoding;
  Encoding encoding = Encoding::kUint8;
  Shape shape;  // of one example
  double scale = 1;
  int64_t upper_bound = 0;  // of integers: classes, a vocabulary; 0: unchecked
};

// Of the bytes that Plan::Build writes and Plan::Open reads.
inline constexpr uint32_t kPlanFormat = 1;

// A plan as both sides use it. Immutable; shared by all workers.
class Plan {
 public:
  // Parses and verifies bytes from outside: graphs (engine/graphdef/verify.h), variables, features, ranges.
  // INVALID_ARGUMENT / DATA_LOSS say what is wrong.
  static StatusOr<std::shared_ptr<const Plan>> Open(std::string bytes);
  // The plan of a scenario's run as its algorithm composed it (federated/algorithms has ComposePlan, which does both),
  // verified as every client will verify it: by opening its bytes. Whoever ships the plan uses this object, so that the
  // bytes are opened once here.
  static StatusOr<std::shared_ptr<const Plan>> Build(const Scenario& scenario, const ModelDef& model,
                                                     Composition composition);

  const std::string& bytes() const { return bytes_; }
  const Digest& digest() const { return digest_; }  // SHA-256 of bytes()
  const std::string& name() const { return name_; }
  const ModelDef& model() const { return *model_; }
  std::shared_ptr<const ModelLayout> layout() const { return layout_; }
  const std::vector<FeatureSpec>& features() const { return features_; }
  const Graph& init_graph() const { return *init_graph_; }
  const Graph& step_graph() const { return *step_graph_; }
  const Graph& final_graph() const { return *final_graph_; }
  int slots() const { return slots_; }
  int scalars() const { return scalars_; }
  // The scalar that the loss is multiplied by before it is differentiated; "" for none.
  const std::string& loss_scale() const { return loss_scale_; }
  // What every program of this plan is compiled with.
  CompileOptions compile_options() const;
  int64_t epochs() const { return epochs_; }
  int64_t batch_size() const { return batch_size_; }
  bool shuffle() const { return shuffle_; }
  int64_t max_steps() const { return max_steps_; }
  const std::string& dataset() const { return dataset_; }
  // Dataset ops that give an epoch's batches (federated/plan/plan_input.h); null: the client's own loop.
  const std::shared_ptr<const Graph>& input_graph() const { return input_graph_; }
  const AggregationSpec& aggregation() const { return aggregation_; }

 private:
  friend class PlanReader;
  std::string bytes_;
  Digest digest_;
  std::string name_;
  std::unique_ptr<ModelDef> model_;
  std::shared_ptr<const ModelLayout> layout_;
  std::vector<FeatureSpec> features_;
  std::unique_ptr<Graph> init_graph_, step_graph_, final_graph_;
  int slots_ = 0, scalars_ = 0;
  std::string loss_scale_;
  bool portable_kernels_ = false;
  int64_t epochs_ = 1, batch_size_ = 1, max_steps_ = 0;
  bool shuffle_ = true;
  std::string dataset_;
  std::shared_ptr<const Graph> input_graph_;
  AggregationSpec aggregation_;
};

// Where a model's variables lie. INVALID_ARGUMENT: a segment that there is not, variables that make no layout.
StatusOr<ModelLayout> ModelLayoutOf(const ModelDef& model);

// Gives every variable its first value by running the model's init target under `seed` (Purpose::kInitialise).
StatusOr<std::shared_ptr<class Model>> InitialModel(const Plan& plan, uint64_t seed);

}  // namespace rivulet
