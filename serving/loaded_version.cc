#include "serving/loaded_version.h"

#include <chrono>

#include "engine/base/available_memory.h"
#include "engine/base/quantities.h"
#include "engine/tensor/spec_bytes.h"
#include "federated/server_optimizers/averaged.h"
#include "federated/server_state/server_state.h"

namespace rivulet {

StatusOr<std::shared_ptr<const Plan>> LoadServedPlan(FileSystem& fs, const std::string& path,
                                                     const std::string& digest) {
  RIVULET_ASSIGN_OR_RETURN(std::string bytes, fs.ReadAll(path));
  if (const Digest found = Sha256Of(bytes); found.Hex() != digest)
    return DataLoss("the plan '{}' is damaged: its digest is {}, and {} was pointed to", path, found.Hex(), digest);
  StatusOr<std::shared_ptr<const Plan>> plan = Plan::Open(std::move(bytes));
  if (!plan.ok()) return Annotate(plan.status(), path);
  return plan;
}

StatusOr<std::shared_ptr<const Model>> LoadServedModel(FileSystem& fs, const std::string& path,
                                                       const std::string& digest,
                                                       std::shared_ptr<const ModelLayout> layout,
                                                       std::optional<int64_t> cluster) {
  // The file's bytes, the model read from them, and temporarily an average of it.
  const size_t needed = 3 * layout->arena_bytes(), left = AvailableMemory();
  if (needed > left)
    return ResourceExhausted("'{}' needs {} to be loaded, and {} is left; serve fewer models, or on a larger machine",
                             path, BytesText(needed), BytesText(left));
  RIVULET_ASSIGN_OR_RETURN(const std::string bytes, fs.ReadAll(path));
  const StatusOr<ServerState> state = ReadServerState(std::move(layout), bytes);
  if (!state.ok()) return Annotate(state.status(), path);
  if (state->digest.Hex() != digest)
    return DataLoss("the model '{}' has the digest {}, and {} was pointed to", path, state->digest.Hex(), digest);
  const bool several = !state->flat(fmt::format("{}cluster_1", kServerPrefix)).empty();
  if (several && !cluster)
    return FailedPrecondition(
        "the version has several models, one for each cluster; say which to serve with --cluster");
  if (!several && cluster) return FailedPrecondition("the version has one model; leave --cluster out");
  if (!cluster || *cluster == 0) return MeasuredModel(*state);
  const std::string flat = fmt::format("{}cluster_{}", kServerPrefix, *cluster);
  if (state->flat(flat).empty()) return FailedPrecondition("the version has no cluster {}", *cluster);
  return ModelOfFlat(*state, flat);
}

Status WarmUp(const LoadedVersion& version, std::span<const int64_t> batches) {
  for (const int64_t batch : batches) {
    RIVULET_ASSIGN_OR_RETURN(const auto program, version.plan->ProgramOf(batch));
    RIVULET_ASSIGN_OR_RETURN(const auto instance, program->Instantiate());
    RIVULET_ASSIGN_OR_RETURN(AlignedBuffer arena, AlignedBuffer::Create(program->memory().arena_bytes));
    std::vector<Tensor> values;
    std::vector<TensorView> feeds, fetches;
    const auto make = [&](const TensorSpec& spec, std::vector<TensorView>& views) -> Status {
      RIVULET_ASSIGN_OR_RETURN(Tensor value, Tensor::Create(spec.dtype, spec.shape));
      views.push_back(value.view());
      values.push_back(std::move(value));
      return absl::OkStatus();
    };
    for (const FeedSpec& feed : program->signature().feeds) RIVULET_RETURN_IF_ERROR(make(feed.spec, feeds));
    for (const TensorSpec& spec : program->fetch_specs()) RIVULET_RETURN_IF_ERROR(make(spec, fetches));
    RIVULET_ASSIGN_OR_RETURN(const std::vector<Buffer> buffers, BuffersOver(version.plan->plan(), *version.model));
    Bindings bindings;
    bindings.arena = arena.data();
    bindings.buffers = buffers;
    bindings.feeds = feeds;
    bindings.fetches = fetches;
    // The first run touches memory for the first time; the second gives the time of a step.
    RIVULET_RETURN_IF_ERROR(instance->Run(bindings));
    const auto begin = std::chrono::steady_clock::now();
    RIVULET_RETURN_IF_ERROR(instance->Run(bindings));
    version.plan->TellStep(batch, std::chrono::steady_clock::now() - begin);
  }
  return absl::OkStatus();
}

}  // namespace rivulet
