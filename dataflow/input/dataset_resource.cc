#include "dataflow/input/dataset_resource.h"

#include "dataflow/input/bound_data.h"
#include "engine/input/build_pipeline.h"

namespace rivulet {
namespace {

// Stages without seeds get random streams by their names, because a run's ops start in no fixed order.
int NumberOf(std::string_view name) {
  uint32_t hash = 2166136261u;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 16777619u;
  return static_cast<int>(hash >> 1);
}

StatusOr<std::vector<Tensor>> Run(AsyncContext& context) {
  auto environment = std::make_shared<PipelineEnvironment>();
  environment->compile = context.compile;
  environment->rng = context.rng;
  environment->bound = BoundIn(context.resource_manager);
  int stage = NumberOf(context.node.name());
  PipelineArguments arguments{context.node, context.graph, {}, {}, std::move(environment), &stage};
  for (const Tensor& input : context.inputs) {
    if (input.dtype() == DType::kVariant) {
      RIVULET_ASSIGN_OR_RETURN(arguments.datasets.emplace_back(), PipelineOf(context.scope, input));
    } else {
      arguments.tensors.push_back(input);
    }
  }
  const MakePipelineFn* make = PipelineRegistry::Global().Find(context.node.type());
  RIVULET_CHECK(make != nullptr, "'{}' is no dataset op", context.node.type());
  RIVULET_ASSIGN_OR_RETURN(auto pipeline, MakePipeline(*make, arguments));
  return std::vector{context.scope.Keep(std::make_shared<DatasetResource>(std::move(pipeline)))};
}

const AsyncFn* FindDatasetOp(std::string_view op) {
  static const AsyncFn run = [](AsyncContext& context, AsyncDone done) { done(Run(context)); };
  return PipelineRegistry::Global().Find(op) == nullptr ? nullptr : &run;
}

const internal::AsyncFamilyRegistration dataset_ops(FindDatasetOp);

}  // namespace

StatusOr<std::shared_ptr<const Pipeline>> PipelineOf(const RunScope& scope, const Tensor& variant) {
  RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<Resource> kept, scope.Kept(variant));
  if (kept->type() != "Dataset") return InvalidArgument("a {} is no dataset", kept->type());
  return std::static_pointer_cast<DatasetResource>(kept)->pipeline;
}

}  // namespace rivulet
