#include "client/training/bound_passes.h"

#include <cstring>

namespace rivulet {
namespace {

constexpr size_t kMostBatchSizes = 32;  // of a plan's input: each is a program

}  // namespace

Status BoundPasses::Initialise() {
  feeds_.resize(plan_.features().size() + 1);  // the last: which rows are examples
  for (const TaskKind kind : {TaskKind::kTrain, TaskKind::kEvaluate}) {
    const LocalProgram* const program = plan_.program(kind);
    for (size_t i = 0; program != nullptr && i < program->passes.size(); ++i) {
      BoundPass& pass = passes_[kind].emplace_back(BoundPass{kind, i, &program->passes[i]});
      pass.values.resize(program->passes[i].scalars.size());
      for (float& value : pass.values)
        pass.fetches.push_back({reinterpret_cast<std::byte*>(&value), DType::kFloat32, Shape{}});
      RIVULET_ASSIGN_OR_RETURN(pass.begin, Bind(programs_.Begin(kind, i)));
      RIVULET_ASSIGN_OR_RETURN(pass.end, Bind(programs_.End(kind, i)));
    }
  }
  return absl::OkStatus();
}

std::vector<BoundPass>* BoundPasses::Find(TaskKind kind) {
  const auto found = passes_.find(kind);
  return found == passes_.end() ? nullptr : &found->second;
}

StatusOr<BoundProgram*> BoundPasses::Step(BoundPass& pass, int64_t batch_size, bool from_base) {
  std::unique_ptr<BoundProgram>& step = pass.steps[{batch_size, from_base}];
  if (step == nullptr) {
    RIVULET_ASSIGN_OR_RETURN(step, Bind(programs_.Step(pass.kind, pass.index, batch_size, from_base)));
  }
  return step.get();
}

StatusOr<BoundPasses::ExampleStep> BoundPasses::ByExample() {
  if (rule_ == nullptr) {
    RIVULET_ASSIGN_OR_RETURN(clipped_sum_, Bind(programs_.ClippedSum()));
    RIVULET_ASSIGN_OR_RETURN(rule_, Bind(programs_.Rule()));
  }
  return ExampleStep{clipped_sum_.get(), rule_.get()};
}

// Null if there is no program.
StatusOr<std::unique_ptr<BoundProgram>> BoundPasses::Bind(StatusOr<std::shared_ptr<const Program>> program) {
  RIVULET_RETURN_IF_ERROR(program.status());
  if (*program == nullptr) return nullptr;
  auto bound = std::make_unique<BoundProgram>();
  bound->program = *std::move(program);
  RIVULET_ASSIGN_OR_RETURN(bound->instance, bound->program->Instantiate());
  const std::vector<FeedSpec>& feeds = bound->program->signature().feeds;
  for (size_t i = 0; i < feeds.size(); ++i) {
    TensorView& view = bound->feeds.emplace_back(TensorView{nullptr, feeds[i].spec.dtype, feeds[i].spec.shape});
    if (view.bytes() > feeds_[i].size()) RIVULET_RETURN_IF_ERROR(GrowFeed(i, view.bytes()));
    view.data = feeds_[i].data();
  }
  if (bound->program->memory().arena_bytes > arena_.size()) {
    StatusOr<AlignedBuffer> arena = AlignedBuffer::Create(bound->program->memory().arena_bytes);
    if (!arena.ok()) return Annotate(arena.status(), "the arena of the training program");
    arena_ = *std::move(arena);
  }
  return bound;
}

// A larger buffer has another address, so programs that were bound to the smaller one are bound again.
Status BoundPasses::GrowFeed(size_t feed, size_t bytes) {
  RIVULET_ASSIGN_OR_RETURN(feeds_[feed], AlignedBuffer::Create(bytes));
  for (auto& [kind, passes] : passes_) {
    for (BoundPass& pass : passes) {
      for (auto& [size, step] : pass.steps) {
        if (step != nullptr) step->feeds[feed].data = feeds_[feed].data();
      }
    }
  }
  if (clipped_sum_ != nullptr) clipped_sum_->feeds[feed].data = feeds_[feed].data();
  return absl::OkStatus();
}

StatusOr<std::pair<BoundProgram*, int64_t>> BoundPasses::Feed(BoundPass& pass, Element& batch) {
  RIVULET_ASSIGN_OR_RETURN(const auto components, batch.Components());
  const std::vector<FeatureSpec>& features = plan_.features();
  const Shape& first = components[0].shape();
  const int64_t count = first.rank() > 0 ? first.dim(0) : 0;
  bool fits = components.size() == features.size() && count > 0;
  for (size_t i = 0; fits && i < features.size(); ++i) {
    std::vector<int64_t> dims = {count};
    dims.insert(dims.end(), features[i].shape.dims().begin(), features[i].shape.dims().end());
    fits = components[i].shape() == Shape(dims);
  }
  if (!fits) {
    std::vector<TensorSpec> specs;
    for (const Component& component : components) specs.push_back(component.spec());
    return InvalidArgument("the input of plan '{}' gives a batch {}, which the model cannot be fed with", plan_.name(),
                           Describe(specs));
  }
  // Each size is a program to compile and to keep. A plan whose input gives ever new sizes would use memory without
  // end.
  if (!pass.steps.contains({count, false}) && pass.steps.size() >= kMostBatchSizes)
    return ResourceExhausted("the input of plan '{}' gives batches of more than {} different sizes", plan_.name(),
                             kMostBatchSizes);
  RIVULET_ASSIGN_OR_RETURN(BoundProgram* const program, Step(pass, count));
  for (size_t i = 0; i < components.size(); ++i)
    std::memcpy(program->feeds[i].data, components[i].tensor().data(), program->feeds[i].bytes());
  return std::pair(program, count);
}

}  // namespace rivulet
