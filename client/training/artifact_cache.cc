#include "client/training/artifact_cache.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "client/training/failure.h"
#include "client/training/pass_programs.h"
#include "federated/download/download.h"
#include "federated/mechanisms/mechanism.h"
#include "federated/plan/download_bounds.h"
#include "federated/plan/example_source.h"
#include "federated/weights/flat_vector.h"

namespace rivulet {
namespace {

bool FedAlike(const FeatureSpec& a, const FeatureSpec& b) {
  const auto all = [](const FeatureSpec& spec) {
    const auto& [feature, placeholder, encoding, shape, scale, upper_bound] = spec;
    return std::tie(feature, placeholder, encoding, shape, scale, upper_bound);
  };
  return all(a) == all(b);
}

Status BindBase(const Plan& plan, const Digest& digest, BaseStore* bases, const BaseStore::Download& download) {
  if (bases == nullptr) {
    return FailedPrecondition("plan '{}' needs the base {}, and this program has no store of bases", plan.name(),
                              digest.Hex());
  }
  RIVULET_ASSIGN_OR_RETURN(auto base, bases->Of(digest, MaxBaseBytes(*plan.layout()), download));
  return plan.BindBase(std::move(base));
}

}  // namespace

// Opening a plan parses and verifies its graphs, and compiling takes longer still, while a process may serve a thousand
// clients: so both happen once per plan. If opening fails, the next caller tries again.
StatusOr<std::shared_ptr<const PlanArtifacts>> ArtifactCache::Plan(const Digest& digest, const FetchFn& fetch,
                                                                   const BaseStore::Download& download) {
  return plans_.Get(digest, [&]() -> StatusOr<std::shared_ptr<const PlanArtifacts>> {
    RIVULET_ASSIGN_OR_RETURN(std::string bytes, fetch());
    auto artifacts = std::make_shared<PlanArtifacts>();
    RIVULET_ASSIGN_OR_RETURN(artifacts->plan, rivulet::Plan::Open(std::move(bytes)));
    if (check_) RIVULET_RETURN_IF_ERROR(check_(*artifacts->plan));
    if (artifacts->plan->external()) {
      return WithReason(
          FailedPrecondition(
              "plan '{}' has no graph: its model is arrays (model.arrays), trained by the clients' own code. This "
              "client only runs graphs; take part with rivulet.run_client of the Python package",
              artifacts->plan->name()),
          TaskFailure::Code::kExternal);
    }
    const std::string_view kernels = artifacts->plan->compile_options().kernels.portable ? "portable" : "native";
    if (!only_kernels_.empty() && only_kernels_ != kernels) {
      return WithReason(
          FailedPrecondition("plan '{}' computes with {} kernels, and this client takes plans with {} ones alone",
                             artifacts->plan->name(), kernels, only_kernels_),
          TaskFailure::Code::kNotWilling, fmt::format("only {} kernels", only_kernels_));
    }
    if (const std::optional<Digest>& base = artifacts->plan->model().base) {
      const Status bound = BindBase(*artifacts->plan, *base, bases_.get(), download);
      RIVULET_RETURN_IF_ERROR(WithReason(bound, TaskFailure::Code::kBadModel, "base"));
    }
    RIVULET_ASSIGN_OR_RETURN(artifacts->examples, ExamplesOf(*artifacts->plan));
    artifacts->repeatable = AreRepeatable(artifacts->plan->training().mechanisms);
    artifacts->programs = std::make_shared<PassPrograms>(artifacts->plan);
    artifacts->broadcasts_.Widen(2 * artifacts->plan->flat_names().broadcast.size());
    return std::shared_ptr<const PlanArtifacts>(std::move(artifacts));
  });
}

StatusOr<std::shared_ptr<const DecodedSets>> ArtifactCache::ExamplesOf(const rivulet::Plan& plan) {
  MutexLock lock(mutex_);
  if (examples_ == nullptr || !std::ranges::equal(fed_, plan.features(), FedAlike)) {
    RIVULET_ASSIGN_OR_RETURN(auto decoder, ExampleDecoder::Create(plan.features()));
    examples_ = std::make_shared<DecodedSets>(std::move(decoder), rows_);
    fed_ = plan.features();
  }
  return examples_;
}

StatusOr<std::shared_ptr<const Model>> ArtifactCache::ModelVersion(const Digest& model_digest,
                                                                   const rivulet::Plan& plan, const FetchFn& fetch) {
  // Two plans may lay out one model differently, because they train different variables.
  const Digest key = Sha256Of(fmt::format("{}{}", model_digest.AsBytes(), plan.digest().AsBytes()));
  return models_.Get(key, [&]() -> StatusOr<std::shared_ptr<const Model>> {
    if (plan.layout()->arena_bytes() >= kLargeModel) models_.ForgetUnused();
    RIVULET_ASSIGN_OR_RETURN(const std::string bytes, fetch());
    RIVULET_ASSIGN_OR_RETURN(const auto download, Download::Create(plan.download(), plan.layout()));
    Digest found;
    RIVULET_ASSIGN_OR_RETURN(std::shared_ptr<Model> model, download == nullptr
                                                               ? ModelFromSafetensors(plan.layout(), bytes, &found)
                                                               : download->Decode(bytes));
    // The only check of the received bytes: it covers the values, to which the update is a difference.
    if (download != nullptr) found = model->ComputeDigest();
    if (found != model_digest) {
      return DataLoss("the model sent for {} has digest {}; the coordinator's store may be damaged", model_digest.Hex(),
                      found.Hex());
    }
    return std::shared_ptr<const Model>(std::move(model));
  });
}

// Cached with the plan: the bytes do not determine the places of a model's variables.
StatusOr<std::shared_ptr<const AlignedBuffer>> PlanArtifacts::Broadcast(const Digest& digest,
                                                                        const FetchFn& fetch) const {
  return broadcasts_.Get(digest, [&]() -> StatusOr<std::shared_ptr<const AlignedBuffer>> {
    RIVULET_ASSIGN_OR_RETURN(const std::string wire, fetch());
    RIVULET_ASSIGN_OR_RETURN(AlignedBuffer flat, FlatOfWire(*plan->layout(), wire));
    return std::make_shared<const AlignedBuffer>(std::move(flat));
  });
}

}  // namespace rivulet
