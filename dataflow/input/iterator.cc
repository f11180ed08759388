// Iterators of a session: resources that receive a pipeline (MakeIterator) and return its elements one by one
// (IteratorGetNext), across runs.
#include "dataflow/input/bound_data.h"
#include "dataflow/input/dataset_resource.h"
#include "engine/base/mutex.h"
#include "engine/graph/function.h"
#include "engine/graph/inference.h"
#include "engine/input/build_pipeline.h"

namespace rivulet {
namespace {

std::vector<TensorSpec> SpecsOf(const Node& node) {
  const auto& types = node.attr<std::vector<DType>>("output_types");
  const auto& shapes = node.attr<std::vector<Shape>>("output_shapes");
  std::vector<TensorSpec> specs;
  for (size_t i = 0; i < types.size() && i < shapes.size(); ++i) specs.push_back({types[i], shapes[i]});
  return specs;
}

Status CheckSpecs(std::span<const TensorSpec> given, std::span<const TensorSpec> wanted, std::string_view what) {
  bool fits = given.size() == wanted.size();
  for (size_t i = 0; fits && i < given.size(); ++i)
    fits = given[i].dtype == wanted[i].dtype && Shape::Compatible(given[i].shape, wanted[i].shape);
  if (fits) return absl::OkStatus();
  return InvalidArgument("{} gives {}, but {} is wanted", what, Describe(given), Describe(wanted));
}

class BufferBudget : public Resource {
 public:
  explicit BufferBudget(size_t limit_bytes)
      : budget(std::make_shared<InputBudget>(InputBudget::Limits{.max_held_bytes = limit_bytes})) {}
  std::string_view type() const override { return "InputBudget"; }
  const std::shared_ptr<InputBudget> budget;
};

// The limits for all iterators of `resources` together: their shuffles, batches and prefetches share its memory limit.
StatusOr<IteratorContext> LimitsIn(ResourceManager& resources) {
  const size_t limit = resources.memory()->limit();
  if (limit == 0) return IteratorContext{};
  RIVULET_ASSIGN_OR_RETURN(const auto found, resources.FindOrMake(kBoundDataContainer, "InputBudget", "",
                                                                  [&]() -> StatusOr<std::shared_ptr<Resource>> {
                                                                    return std::make_shared<BufferBudget>(limit);
                                                                  }));
  return IteratorContext{.budget = static_cast<const BufferBudget&>(*found).budget};
}

// Running is a separate object with its own lock: MakeIterator may restart the iterator while another run waits for an
// element of the old pipeline, and must not wait for that.
class IteratorResource : public Resource {
 public:
  // `make` (optional) creates the pipeline at the first request for an element.
  using MakeFn = std::function<StatusOr<std::shared_ptr<const Pipeline>>(AsyncContext& context)>;
  IteratorResource(std::string name, std::vector<TensorSpec> specs, MakeFn make)
      : name_(std::move(name)), specs_(std::move(specs)), make_(std::move(make)) {}

  std::string_view type() const override { return "Iterator"; }
  Status CheckHandle(const Node& handle) const override {
    return CheckSpecs(specs_, SpecsOf(handle), fmt::format("the iterator '{}'", name_));
  }

  Status Start(const Pipeline& pipeline, ResourceManager& resources) {
    RIVULET_RETURN_IF_ERROR(CheckSpecs(pipeline.specs(), specs_, pipeline.where()));
    RIVULET_ASSIGN_OR_RETURN(const IteratorContext limits, LimitsIn(resources));
    RIVULET_ASSIGN_OR_RETURN(auto started, pipeline.MakeIterator(limits));
    MutexLock lock(mutex_);
    iterator_ = std::make_shared<Running>(std::move(started));
    return absl::OkStatus();
  }

  // Elements are made under the lock, so that two concurrent runs get two whole elements in order.
  StatusOr<std::vector<Tensor>> Next(AsyncContext& context) {
    std::shared_ptr<Running> running;
    {
      MutexLock lock(mutex_);
      if (iterator_ == nullptr && make_) {
        RIVULET_ASSIGN_OR_RETURN(const auto pipeline, make_(context));
        RIVULET_RETURN_IF_ERROR(CheckSpecs(pipeline->specs(), specs_, pipeline->where()));
        RIVULET_ASSIGN_OR_RETURN(const IteratorContext limits, LimitsIn(context.resource_manager));
        RIVULET_ASSIGN_OR_RETURN(auto started, pipeline->MakeIterator(limits));
        iterator_ = std::make_shared<Running>(std::move(started));
      }
      running = iterator_;
    }
    if (running == nullptr)
      return FailedPrecondition(
          "GetNext() failed because the iterator '{}' has not been initialized. Ensure that you have run the "
          "initializer operation for this iterator before getting the next element.",
          name_);
    Element element;
    MutexLock lock(running->mutex);
    if (running->ended) return OutOfRange("End of sequence");
    const StatusOr<bool> more = running->iterator->Next(context.cancel, element);
    if (!more.ok()) return more.status();
    if (!*more) {
      running->ended = true;
      running->iterator = nullptr;  // frees its buffers and threads
      return OutOfRange("End of sequence");
    }
    RIVULET_ASSIGN_OR_RETURN(const auto components, element.Components());
    std::vector<Tensor> values;
    for (const Component& component : components) {
      if (component.dtype() == DType::kString)
        return InvalidArgument(
            "the iterator '{}' gives strings, which are no tensors here; parse them before, with ParseExampleDatasetV2",
            name_);
      values.push_back(component.tensor());
    }
    RIVULET_RETURN_IF_ERROR(CheckComponents(components, specs_, name_, "an element is"));
    return values;
  }

 private:
  struct Running {
    explicit Running(std::unique_ptr<PipelineIterator> started) : iterator(std::move(started)) {}
    Mutex mutex;
    std::unique_ptr<PipelineIterator> iterator GUARDED_BY(mutex);
    bool ended GUARDED_BY(mutex) = false;
  };
  const std::string name_;
  const std::vector<TensorSpec> specs_;
  const MakeFn make_;
  Mutex mutex_;
  std::shared_ptr<Running> iterator_ GUARDED_BY(mutex_);
};

std::string NameOf(const Node& node) {
  const std::string& shared = node.attr<std::string>("shared_name");
  return shared.empty() ? node.name() : shared;
}

StatusOr<std::vector<TensorSpec>> DeclaredSpecs(const Node& node) {
  if (node.attr<std::vector<DType>>("output_types").size() != node.attr<std::vector<Shape>>("output_shapes").size())
    return InvalidArgument("{}: output_types and output_shapes are not as many", DescribeNode(node));
  return SpecsOf(node);
}

StatusOr<std::shared_ptr<Resource>> MakeIteratorResource(const ResourceContext& context) {
  RIVULET_ASSIGN_OR_RETURN(auto specs, DeclaredSpecs(context.node));
  return std::make_shared<IteratorResource>(NameOf(context.node), std::move(specs), nullptr);
}

StatusOr<std::shared_ptr<Resource>> MakeOneShotIterator(const ResourceContext& context) {
  RIVULET_ASSIGN_OR_RETURN(auto specs, DeclaredSpecs(context.node));
  const std::string& name = context.node.attr<FunctionRef>("dataset_factory").name;
  const auto found = context.graph.functions().find(name);
  if (found == context.graph.functions().end())
    return NotFound("{}: the graph has no function '{}'", DescribeNode(context.node), name);
  const std::shared_ptr<const Function> factory = found->second;
  if (factory->results.size() != 1 || !factory->arguments.empty() || factory->results[0].dtype() != DType::kVariant)
    return InvalidArgument("{}: '{}' must take nothing and make one data set", DescribeNode(context.node), name);
  // A one-shot iterator has no initialiser, so its pipeline is created at the first request for an element, with the
  // random stream of that run.
  return std::make_shared<IteratorResource>(NameOf(context.node), std::move(specs),
                                            [factory](AsyncContext& run) -> StatusOr<std::shared_ptr<const Pipeline>> {
                                              auto environment = std::make_shared<PipelineEnvironment>();
                                              environment->compile = run.compile;
                                              environment->rng = run.rng;
                                              environment->bound = BoundIn(run.resource_manager);
                                              return BuildPipeline(factory->body, factory->results[0], environment);
                                            });
}

void MakeIterator(AsyncContext& context, AsyncDone done) {
  const StatusOr<std::shared_ptr<const Pipeline>> pipeline = PipelineOf(context.scope, context.inputs[0]);
  if (!pipeline.ok()) return done(pipeline.status());
  const Status started =
      static_cast<IteratorResource&>(*context.resources[0]).Start(**pipeline, context.resource_manager);
  if (!started.ok()) return done(started);
  done(std::vector<Tensor>());
}

// On the pool, because making elements takes time.
void GetNext(AsyncContext& context, AsyncDone done) {
  context.schedule([&context, done = std::move(done)] {
    done(static_cast<IteratorResource&>(*context.resources[0]).Next(context));
  });
}

RIVULET_RESOURCE_OP("IteratorV2", "Iterator", MakeIteratorResource);
RIVULET_RESOURCE_OP("Iterator", "Iterator", MakeIteratorResource);
RIVULET_RESOURCE_OP("OneShotIterator", "Iterator", MakeOneShotIterator);
RIVULET_ASYNC_OP("MakeIterator", MakeIterator);
RIVULET_ASYNC_OP("IteratorGetNext", GetNext);

}  // namespace
}  // namespace rivulet
