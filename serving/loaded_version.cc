#include "serving/loaded_version.h"

#include <chrono>
#include <cstring>

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

namespace {

// A program of a version with memory of its own.
class WarmProgram {
 public:
  static StatusOr<std::unique_ptr<WarmProgram>> Create(const LoadedVersion& version, int64_t batch) {
    auto warm = std::make_unique<WarmProgram>();
    RIVULET_ASSIGN_OR_RETURN(warm->program_, version.plan->ProgramOf(batch));
    RIVULET_ASSIGN_OR_RETURN(warm->instance_, warm->program_->Instantiate());
    RIVULET_ASSIGN_OR_RETURN(warm->arena_, AlignedBuffer::Create(warm->program_->memory().arena_bytes));
    const auto make = [](const TensorSpec& spec, std::vector<Tensor>& to) -> Status {
      RIVULET_ASSIGN_OR_RETURN(to.emplace_back(), Tensor::Create(spec.dtype, spec.shape));
      return absl::OkStatus();
    };
    for (const FeedSpec& feed : warm->program_->signature().feeds)
      RIVULET_RETURN_IF_ERROR(make(feed.spec, warm->feeds));
    for (const TensorSpec& spec : warm->program_->fetch_specs()) RIVULET_RETURN_IF_ERROR(make(spec, warm->fetches));
    RIVULET_ASSIGN_OR_RETURN(warm->buffers_, BuffersOver(version.plan->plan(), *version.model));
    return warm;
  }
  Status Run() {
    std::vector<TensorView> fed, fetched;
    for (const Tensor& feed : feeds) fed.push_back(feed.view());
    for (const Tensor& fetch : fetches) fetched.push_back(fetch.view());
    Bindings bindings;
    bindings.arena = arena_.data();
    bindings.buffers = buffers_;
    bindings.feeds = fed;
    bindings.fetches = fetched;
    return instance_->Run(bindings);
  }
  std::vector<Tensor> feeds, fetches;  // of zeros at first

 private:
  std::shared_ptr<const Program> program_;
  std::unique_ptr<Instance> instance_;
  AlignedBuffer arena_;
  std::vector<Buffer> buffers_;
};

// Whether the first `batch` rows of all outputs are equal to the bit when those of all inputs are.
StatusOr<bool> HasEqualPlaces(const LoadedVersion& version, int64_t batch) {
  RIVULET_ASSIGN_OR_RETURN(const auto warm, WarmProgram::Create(version, batch));
  const auto rows = static_cast<size_t>(batch);
  uint32_t drawn = 1;
  for (size_t i = 0; i < warm->feeds.size(); ++i) {
    const ServedInput& input = version.plan->inputs()[i];
    const size_t row_bytes = TensorBytes(input.row);
    const size_t elements = row_bytes / SizeOf(input.row.dtype);
    std::byte* const to = warm->feeds[i].data();
    for (size_t e = 0; e < elements; ++e) {
      drawn = drawn * 1664525u + 1013904223u;  // Numerical Recipes' generator: any values that differ will do
      if (input.row.dtype == DType::kInt64) {
        const uint32_t bound = input.upper_bound > 0 ? static_cast<uint32_t>(input.upper_bound) : 2;
        reinterpret_cast<int64_t*>(to)[e] = (drawn >> 8) % bound;
      } else {
        reinterpret_cast<float*>(to)[e] = static_cast<float>(drawn >> 8) * 0x1p-24f;
      }
    }
    for (size_t row = 1; row < rows; ++row) std::memcpy(to + row * row_bytes, to, row_bytes);
  }
  RIVULET_RETURN_IF_ERROR(warm->Run());
  for (const Tensor& fetch : warm->fetches) {
    const size_t row_bytes = fetch.bytes() / static_cast<size_t>(fetch.shape().dim(0));
    for (size_t row = 1; row < rows; ++row)
      if (std::memcmp(fetch.data(), fetch.data() + row * row_bytes, row_bytes) != 0) return false;
  }
  return true;
}

// Kernels take a matrix by some dozen rows at most, so there are few numbers to try.
Status FindSpareRows(const LoadedVersion& version, int64_t batch) {
  for (const int64_t spare : {0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64}) {
    const int64_t found = version.plan->SpareRows(batch);  // for another version of the plan
    if (spare < found) continue;
    if (spare != found) version.plan->SetSpareRows(batch, spare);
    RIVULET_ASSIGN_OR_RETURN(const bool equal, HasEqualPlaces(version, batch));
    if (equal) return absl::OkStatus();
  }
  return FailedPrecondition(
      "the bits of an answer depend on its place in a batch of {}, whatever rows are behind it; leave "
      "--fixed-batch out, or choose another number",
      batch);
}

}  // namespace

Status WarmUp(const LoadedVersion& version, std::span<const int64_t> batches, bool equal_places) {
  for (const int64_t batch : batches) {
    if (equal_places) RIVULET_RETURN_IF_ERROR(FindSpareRows(version, batch));
    RIVULET_ASSIGN_OR_RETURN(const auto warm, WarmProgram::Create(version, batch));
    // The first run touches memory for the first time; the second gives the time of a step.
    RIVULET_RETURN_IF_ERROR(warm->Run());
    const auto begin = std::chrono::steady_clock::now();
    RIVULET_RETURN_IF_ERROR(warm->Run());
    version.plan->TellStep(batch, std::chrono::steady_clock::now() - begin);
  }
  return absl::OkStatus();
}

}  // namespace rivulet
