#include "serving/batch_runner.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "engine/tensor/spec_bytes.h"

namespace rivulet {

StatusOr<BatchRunner::Prepared*> BatchRunner::Prepare(const std::shared_ptr<const ServedPlan>& plan, int64_t batch) {
  OfPlan& of_plan = plans_[plan.get()];
  if (of_plan.plan.lock() != plan) {
    // A plan that is new to this thread: plans that are not served any more are removed.
    of_plan = {plan, {}};
    std::erase_if(plans_, [](const auto& entry) { return entry.second.plan.expired(); });
  }
  Prepared& prepared = plans_[plan.get()].by_batch[batch];
  if (prepared.instance != nullptr) return &prepared;
  RIVULET_ASSIGN_OR_RETURN(prepared.program, plan->ProgramOf(batch));
  const size_t arena = prepared.program->memory().arena_bytes;
  if (arena > arena_.size() || arena_.data() == nullptr) {
    RIVULET_ASSIGN_OR_RETURN(arena_, AlignedBuffer::Create(arena));
  }
  prepared.feeds.clear();
  prepared.fetches.clear();
  for (const FeedSpec& feed : prepared.program->signature().feeds) {
    RIVULET_ASSIGN_OR_RETURN(AlignedBuffer buffer, AlignedBuffer::Create(TensorBytes(feed.spec)));
    prepared.feeds.push_back(std::move(buffer));
  }
  for (const TensorSpec& spec : prepared.program->fetch_specs()) {
    RIVULET_ASSIGN_OR_RETURN(AlignedBuffer buffer, AlignedBuffer::Create(TensorBytes(spec)));
    prepared.fetches.push_back(std::move(buffer));
  }
  prepared.made.resize(plan->outputs().size());
  RIVULET_ASSIGN_OR_RETURN(prepared.instance, prepared.program->Instantiate());
  return &prepared;
}

// Rows one after another, and zeros in unused rows: their earlier content must not affect any result.
Status BatchRunner::Step(const LoadedVersion& version, Prepared& prepared, std::span<BatchedRequest* const> batch) {
  const auto inputs = version.plan->inputs();
  std::vector<TensorView> feeds, fetches;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const size_t row = TensorBytes(inputs[i].row);
    std::byte* to = prepared.feeds[i].data();
    for (const BatchedRequest* request : batch) {
      const size_t bytes = row * static_cast<size_t>(request->rows);
      if (bytes > 0) std::memcpy(to, request->inputs[i], bytes);
      to += bytes;
    }
    std::byte* const end = prepared.feeds[i].data() + prepared.feeds[i].size();
    if (to != end) std::memset(to, 0, static_cast<size_t>(end - to));
    const TensorSpec& spec = prepared.program->signature().feeds[i].spec;
    feeds.push_back({prepared.feeds[i].data(), spec.dtype, spec.shape});
  }
  for (size_t i = 0; i < prepared.fetches.size(); ++i) {
    const TensorSpec& spec = prepared.program->fetch_specs()[i];
    fetches.push_back({prepared.fetches[i].data(), spec.dtype, spec.shape});
  }
  // The graph only reads its variables, so all threads share the model's own memory.
  RIVULET_ASSIGN_OR_RETURN(const std::vector<Buffer> buffers, BuffersOver(version.plan->plan(), *version.model));
  Bindings bindings;
  bindings.arena = arena_.data();
  bindings.buffers = buffers;
  bindings.feeds = feeds;
  bindings.fetches = fetches;
  return prepared.instance->Run(bindings);
}

void BatchRunner::Answer(const LoadedVersion& version, Prepared& prepared, std::span<BatchedRequest* const> batch,
                         std::span<const RequestTimes> times) {
  const auto outputs = version.plan->outputs();
  const auto sources = version.plan->sources();
  int64_t rows = 0;
  for (const BatchedRequest* request : batch) rows += request->rows;
  std::vector<std::byte*> from(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    from[i] = prepared.fetches[sources[i].fetch].data();
    if (!sources[i].softmax) continue;
    std::vector<std::byte>& made = prepared.made[i];
    made.assign(from[i], from[i] + TensorBytes(outputs[i].row) * static_cast<size_t>(rows));
    SoftmaxRows({reinterpret_cast<float*>(made.data()), made.size() / sizeof(float)}, rows);
    from[i] = made.data();
  }
  std::vector<TensorView> views(outputs.size());
  for (size_t r = 0; r < batch.size(); ++r) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      std::vector<int64_t> dims = {batch[r]->rows};
      dims.insert(dims.end(), outputs[i].row.shape.dims().begin(), outputs[i].row.shape.dims().end());
      views[i] = {from[i], outputs[i].row.dtype, Shape(std::move(dims))};
      from[i] += TensorBytes(outputs[i].row) * static_cast<size_t>(batch[r]->rows);
    }
    batch[r]->done(absl::OkStatus(), views, times[r]);
  }
}

void BatchRunner::Run(std::span<BatchedRequest* const> batch, std::span<RequestTimes> times) {
  const std::shared_ptr<const LoadedVersion> version = batch[0]->version;
  int64_t rows = 0;
  for (const BatchedRequest* request : batch) rows += request->rows;
  const auto size = std::ranges::lower_bound(sizes_, rows);
  const StatusOr<Prepared*> prepared = Prepare(version->plan, size == sizes_.end() ? rows : *size);
  const auto begin = std::chrono::steady_clock::now();
  const Status status = prepared.ok() ? Step(*version, **prepared, batch) : prepared.status();
  const auto took = std::chrono::steady_clock::now() - begin;
  for (RequestTimes& of_request : times) of_request.compute = took;
  if (!status.ok()) {
    for (size_t r = 0; r < batch.size(); ++r) batch[r]->done(status, {}, times[r]);
    return;
  }
  version->plan->TellStep(size == sizes_.end() ? rows : *size, took);
  Answer(*version, **prepared, batch, times);
}

}  // namespace rivulet
